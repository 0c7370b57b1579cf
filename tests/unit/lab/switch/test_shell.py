"""The command line: modes, abbreviations, refusals, and what `show` shows."""

from __future__ import annotations

import json

import pytest
from unit.lab.switch.conftest import Rig

from pinion.lab.switch.nos.shell import Shell


def test_prompts_of_every_mode(rig: Rig) -> None:
    shell = Shell(rig.switch, "ops", "vty1")
    seen = []
    for line in (
        "enable", "configure terminal", "interface Ethernet1", "interface ethernet 1-3", "interface Vlan101",
        "interface Management1", "vlan 101", "vlan 101-103,200", "exit", "hostname tor-1", "end",
        "configure session pinion-0a1b-2", "int et1", "vlan 7", "exit", "exit", "configure session", "abort",
        "disable",
    ):  # fmt: skip
        assert not shell.execute(line).startswith("%"), line
        seen.append(shell.prompt)
    assert seen == [
        "localhost#", "localhost(config)#", "localhost(config-if-Et1)#", "localhost(config-if-Et1-3)#",
        "localhost(config-if-Vl101)#", "localhost(config-if-Ma1)#", "localhost(config-vlan-101)#",
        "localhost(config-vlan-101-103,200)#", "localhost(config)#", "tor-1(config)#", "tor-1#",
        "tor-1(config-s-pinion)#", "tor-1(config-s-pinion-if-Et1)#", "tor-1(config-s-pinion-vlan-7)#",
        "tor-1(config-s-pinion)#", "tor-1#", "tor-1(config-s-sess-1)#", "tor-1#", "tor-1>",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "line", "answer"),
    [
        ((), "frobnicate", "% Invalid input (at token 0: 'frobnicate')"),
        ((), "show bogus", "% Invalid input (at token 1: 'bogus')"),
        ((), "show", "% Incomplete command (at token 0: 'show')"),
        ((), "show running-config section", "% Incomplete command (at token 2: 'section')"),
        ((), "co", "% Ambiguous command (at token 0: 'co')"),
        ((), "configure session a b", "% Invalid input (at token 3: 'b')"),
        ((), "show lldp neighbors", "% Invalid input (at token 1: 'lldp')"),
        ((), "show version | frob x", "% Invalid input (at token 0: 'frob')"),
        (("configure",), "qos profile 5", "% Invalid input (at token 2: '5')"),
        (("configure",), "qos map dscp 64 to traffic-class 1", "% Invalid input (at token 3: '64')"),
        (("configure",), "qos map dscp 26 to traffic-class 8", "% Invalid input (at token 6: '8')"),
        (("configure",), "qos map dscp 26 to tx-queue 3", "% Invalid input (at token 5: 'tx-queue')"),
        (("configure",), "priority-flow-control pause watchdog default timeout 61", "% Invalid input (at token 5: '61')"),
        (("configure",), "priority-flow-control pause watchdog default polling-interval 0.001", "% Invalid input (at token 5: '0.001')"),
        (("configure",), "priority-flow-control pause watchdog action ignore", "% Invalid input (at token 4: 'ignore')"),
        (("configure", "qos profile x"), "qos trust ttl", "% Invalid input (at token 2: 'ttl')"),
        (("configure", "qos profile x"), "priority-flow-control priority 8 no-drop", "% Invalid input (at token 2: '8')"),
        (("configure", "qos profile x"), "uc-tx-queue 8", "% Invalid input (at token 1: '8')"),
        (("configure", "qos profile x"), "bandwidth percent 5", "% Invalid input (at token 0: 'bandwidth')"),
        (("configure", "qos profile x", "uc-tx-queue 3"), "bandwidth percent 101", "% Invalid input (at token 2: '101')"),
        (("configure",), "vlan 4095", "% Invalid input (at token 1: '4095')"),
        (("configure",), "vlan 0", "% Invalid input (at token 1: '0')"),
        (("configure",), "vlan 5-3", "% Invalid input (at token 1: '5-3')"),
        (("configure",), "no vlan 1", "% Error: VLAN 1 can not be removed"),
        (("configure",), "interface Ethernet99", "% Invalid input: interface Ethernet99 does not exist"),
        (("configure",), "interface Vlan5000", "% Invalid input: interface Vlan5000 does not exist"),
        (("configure",), "no interface Ethernet1", "% Error: a physical interface can not be removed"),
        (("configure",), "ip route 0.0.0.0/0 10.0.0.1", "% Invalid input (at token 1: 'route')"),
        (("configure", "vlan 5"), "name two words", "% Invalid input (at token 2: 'words')"),
        (("configure", "vlan 5"), "name " + "x" * 33, "% Invalid input (at token 1: '" + "x" * 33 + "')"),
        (("configure", "interface Ethernet1"), "no switchport", "% Unavailable command (not supported on this hardware platform)"),
        (("configure", "interface Ethernet1"), "switchport access vlan x", "% Invalid input (at token 3: 'x')"),
        (("configure", "interface Ethernet1"), "ip address 10.0.0.1/24", "% Invalid input (at token 1: 'address')"),
        (("configure", "interface Ethernet1"), "sh", "% Ambiguous command (at token 0: 'sh')"),
        (("configure", "interface Ethernet1"), "speed 1g", "% Invalid input (at token 0: 'speed')"),
        (("configure", "interface Vlan5"), "ip address 10.0.0.1", "% Invalid input (at token 2: '10.0.0.1')"),
        (("configure", "interface Vlan5"), "mtu 20000", "% Invalid input (at token 1: '20000')"),
        (("configure", "interface Vlan5-6"), "ip address 10.0.0.1/24", "% Error: an address belongs to one interface"),
        (("configure session a",), "commit timer 00:00:00", "% Invalid input (at token 2: '00:00:00')"),
        (("configure session a",), "commit timer 5", "% Invalid input (at token 2: '5')"),
        (("configure",), "commit", "% Invalid input (at token 0: 'commit')"),
    ],
)  # fmt: skip
def test_what_it_does_not_know_it_refuses(rig: Rig, mode: tuple[str, ...], line: str, answer: str) -> None:
    shell = rig.shell(*mode)
    before, prompt = rig.switch.running, shell.prompt
    assert shell.execute(line) == answer
    assert rig.switch.running == before
    assert shell.prompt == prompt


def test_without_enable_nothing_can_be_changed_or_read_in_full(rig: Rig) -> None:
    shell = Shell(rig.switch, "ops", "vty1")
    for line in (
        "configure terminal",
        "show running-config",
        "write memory",
        "configure session x",
        "show startup-config",
    ):
        assert shell.execute(line).startswith("% Invalid input"), line
    assert "Pinion Lab ToR" in shell.execute("show version")


def test_an_enable_password_is_asked_for_and_not_shown(rig: Rig) -> None:
    shell = Shell(rig.switch, "ops", "vty1", may_enable=lambda given: given == "secret")
    assert shell.execute("enable") == ""
    assert shell.prompt == "Password: "
    assert shell.execute("wrong") == "% Bad secret"
    assert shell.prompt == "localhost>"
    shell.execute("enable")
    assert shell.execute("secret") == ""
    assert shell.prompt == "localhost#"


def test_abbreviations_and_a_range(rig: Rig) -> None:
    rig.shell("conf t", "vl 101", "na edge", "int et 1-2,4", "sw acc vl 101", "desc some words here", "no shut", "end")
    for name in ("Ethernet1", "Ethernet2", "Ethernet4"):
        assert rig.switch.running.ethernets[name].access_vlan == 101
        assert rig.switch.running.ethernets[name].description == "some words here"
    assert rig.switch.running.ethernets["Ethernet3"].access_vlan == 1
    assert rig.switch.running.vlans[101].name == "edge"


def test_every_setting_has_a_no(rig: Rig) -> None:
    before = rig.switch.running
    shell = rig.shell(
        "configure", "hostname x", "ip routing", "ipv6 unicast-routing",
        "ip virtual-router mac-address 001c.7300.0099", "vlan 5", "name five", "interface Ethernet1",
        "description d", "shutdown", "l2 mtu 9000", "switchport access vlan 5", "switchport trunk native vlan 5",
        "switchport trunk allowed vlan 5", "switchport mode trunk", "interface Vlan5", "mtu 9000",
        "ip address 10.0.0.1/24", "shutdown",
    )  # fmt: skip
    assert rig.switch.running != before
    for line in (
        "no shutdown", "no ip address", "no mtu", "no interface Vlan5", "interface Ethernet1", "no description",
        "no shutdown", "no l2 mtu", "no switchport access vlan", "no switchport trunk native vlan",
        "no switchport trunk allowed vlan", "no switchport mode", "vlan 5", "no name", "no vlan 5",
        "no ip virtual-router mac-address", "no ip routing", "no ipv6 unicast-routing", "no hostname",
    ):  # fmt: skip
        assert shell.execute(line) == "", line
    assert rig.switch.running == before


def test_trunk_lists_are_added_to_and_taken_from(rig: Rig) -> None:
    shell = rig.shell("configure", "interface Ethernet1", "switchport trunk allowed vlan 5-7")
    for line, expected in (("add 9", {5, 6, 7, 9}), ("remove 6,9", {5, 7}), ("none", set()), ("all", None)):
        shell.execute(f"switchport trunk allowed vlan {line}")
        assert rig.switch.running.ethernets["Ethernet1"].allowed == expected


def test_one_address_belongs_to_one_interface_and_a_new_primary_replaces_the_old(rig: Rig) -> None:
    shell = rig.shell(
        "configure",
        "interface Vlan5",
        "ip address 10.0.0.1/24",
        "ip address 10.0.1.1/24 secondary",
        "ip address 10.0.0.2/24",
    )
    assert [address.text for address in rig.switch.running.svis[5].addresses] == ["10.0.0.2/24", "10.0.1.1/24"]
    shell.execute("interface Vlan6")
    assert (
        shell.execute("ip address 10.0.0.2/24") == "% Error: address 10.0.0.2/24 is already assigned to interface Vlan5"
    )


def test_default_interface_resets(rig: Rig) -> None:
    rig.shell("configure", "interface Ethernet1", "shutdown", "description x", "default interface Ethernet1", "end")
    assert rig.switch.running.ethernets["Ethernet1"] == rig.switch.base.ethernets["Ethernet1"]


def test_show_commands_tell_what_is_so(rig: Rig) -> None:
    rig.plane.plugged = {"Ethernet1", "Ethernet2"}
    shell = rig.shell(
        "configure", "vlan 101", "name edge", "interface Ethernet1", "switchport access vlan 101",
        "description pi-01", "interface Ethernet2", "shutdown", "interface Ethernet4", "switchport access vlan 400",
        "interface Vlan101", "ip address 10.0.0.1/24", "end",
    )  # fmt: skip
    status = {line.split()[0]: line for line in shell.execute("show interfaces status").splitlines()}
    assert "connected" in status["Et1"]
    assert "pi-01" in status["Et1"]
    assert "disabled" in status["Et2"]
    assert "notconnect" in status["Et3"]
    assert "inactive" in status["Et4"]
    vlans = {line.split()[0]: line for line in shell.execute("show vlan").splitlines()}
    assert vlans["101"].split() == ["101", "edge", "active", "Et1"]
    assert vlans["1"].split() == ["1", "default", "active", "Et3"]
    assert "400" not in vlans
    assert "10.0.0.1/24" in shell.execute("show ip interface brief")
    assert "pi-01" in shell.execute("show interfaces description")
    assert "Total Mac Addresses for this criterion: 0" in shell.execute("show mac address-table")
    assert "in step" in shell.execute("show version")


def test_pipes_and_sections(rig: Rig) -> None:
    shell = rig.shell("configure", "vlan 101", "name edge", "interface Ethernet1", "switchport access vlan 101", "end")
    assert shell.execute("show running-config | include name") == "hostname localhost\n   name edge"
    assert (
        shell.execute("show running-config section Ethernet1") == "interface Ethernet1\n   switchport access vlan 101"
    )
    assert shell.execute("show running-config | section edge") == "vlan 101\n   name edge"
    assert shell.execute("show running-config interfaces et1-2") == (
        "interface Ethernet1\n   switchport access vlan 101\ninterface Ethernet2"
    )
    assert shell.execute("show running-config | begin ip routing").startswith("no ip routing")
    assert "hostname" not in shell.execute("show running-config | exclude hostname")
    assert shell.execute("show running-config | include [").startswith("% Invalid input")
    assert shell.execute("show hostname | no-more").startswith("Hostname: localhost")


def test_unsaved_changes_are_shown_until_saved(rig: Rig) -> None:
    shell = rig.shell("write memory")
    assert shell.execute("show running-config diffs") == ""
    shell.execute("configure")
    shell.execute("vlan 7")
    assert "+vlan 7" in shell.execute("show running-config diffs")
    shell.execute("copy running-config startup-config")
    assert shell.execute("show running-config diffs") == ""
    assert "vlan 7" in shell.execute("show startup-config")


def test_sessions_are_listed_as_eos_lists_them(rig: Rig) -> None:
    shell = rig.shell("configure session mine", "vlan 5")
    listed = json.loads(shell.execute("show configuration sessions detail | json"))
    assert listed["sessions"]["mine"] == {
        "state": "pending",
        "description": "",
        "instances": {"vty1": {"user": "ops", "terminal": "vty1", "currentTerminal": True}},
    }
    assert "* mine pending ops  vty1" in " ".join(shell.execute("show configuration sessions").split("\n")[-1:])


def test_help_says_what_may_follow(rig: Rig) -> None:
    shell = rig.shell()
    assert [line.split()[0] for line in shell.help("con").splitlines()] == ["configure"]
    assert "<cr>" in shell.help("configure ")
    assert "timer" in rig.shell("configure session a").help("commit ")
    assert shell.help("bogus ").startswith("% Invalid input")


QOS = (
    "configure", "qos map dscp 10 to traffic-class 3", "qos map dscp 26 to traffic-class 3", "qos profile roce",
    "qos trust dscp", "priority-flow-control on", "priority-flow-control priority 3 no-drop", "uc-tx-queue 1",
    "no priority", "bandwidth percent 40", "uc-tx-queue 3", "no priority", "bandwidth percent 60",
    "random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes max-mark-probability 100 weight 0",
    "interface Ethernet1", "service-profile roce", "end",
)  # fmt: skip


def test_traffic_classes_are_shown_as_they_were_said(rig: Rig) -> None:
    shell = rig.shell(*QOS)
    assert shell.execute("show running-config section qos").splitlines() == [
        "qos profile roce",
        "   qos trust dscp",
        "   priority-flow-control on",
        "   priority-flow-control priority 3 no-drop",
        "   !",
        "   uc-tx-queue 1",
        "      no priority",
        "      bandwidth percent 40",
        "   !",
        "   uc-tx-queue 3",
        "      no priority",
        "      bandwidth percent 60",
        "      random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes max-mark-probability 100 weight 0",
        "qos map dscp 10 to traffic-class 3",
    ], "what is as it would be anyway (DSCP 26) is not shown"
    assert shell.execute("show qos profile roce") == shell.execute("show qos profile")
    assert shell.execute("show qos profile other") == "% QoS profile other not found"
    maps = shell.execute("show qos maps").splitlines()
    assert maps[maps.index("   Cos-tc map:") + 3].split() == ["tc:", "1", "0", "2", "3", "4", "5", "6", "7"]
    tens = maps.index("   Dscp-tc map:") + 3
    assert maps[tens + 1].split() == ["1", ":", "3", "0", "0", "0", "0", "0", "2", "2", "2", "2"]
    assert len(maps[tens + 6].split()) == 2 + 4
    rows = [line.split() for line in shell.execute("show priority-flow-control").splitlines()]
    assert rows[2] == ["Ethernet1", "Yes", "3", "No", "not", "supported", "by", "the", "data", "plane"]
    assert rows[3] == ["Ethernet2", "No", "No"]


def test_every_word_about_classes_has_a_no(rig: Rig) -> None:
    before = rig.switch.running
    shell = rig.shell(
        *QOS[:-1], "priority-flow-control pause watchdog default timeout 0.20",
        "priority-flow-control pause watchdog action drop", "qos map cos 5 to traffic-class 1",
        "qos map traffic-class 2 to tx-queue 4", "qos map traffic-class 2 to cos 4",
    )  # fmt: skip
    for line in (
        "interface Ethernet1", "no service-profile", "qos profile roce", "no qos trust", "no priority-flow-control",
        "priority-flow-control priority 3 drop", "uc-tx-queue 3", "no random-detect ecn", "no bandwidth percent",
        "priority strict", "exit", "no uc-tx-queue 1", "no qos profile roce", "no qos map dscp 10",
        "default qos map cos 5", "qos map traffic-class 2 to tx-queue 2", "qos map traffic-class 2 to cos 2",
        "no priority-flow-control pause watchdog default timeout", "no priority-flow-control pause watchdog action",
    ):  # fmt: skip
        assert shell.execute(line) == "", line
    assert rig.switch.running == before


def test_what_no_queue_can_do_is_refused(rig: Rig) -> None:
    shell = rig.shell("configure", "qos profile roce", "uc-tx-queue 3")
    ecn = "random-detect ecn minimum-threshold 9 kbytes maximum-threshold 8 kbytes max-mark-probability 1 weight 0"
    before = rig.switch.running
    assert shell.execute(ecn) == "% Error: the minimum threshold (9) is above the maximum threshold (8)"
    for line in ("qos map traffic-class 7 to tx-queue 3", "qos map traffic-class 3 to tx-queue 7"):
        assert shell.execute(line) == "% Error: traffic class 7 and transmit queue 7 are kept for control traffic"
    assert rig.switch.running == before


def test_the_prompt_says_which_queue_of_which_profile(rig: Rig) -> None:
    shell = rig.shell("configure", "qos profile roce", "uc-tx-queue 3")
    assert shell.prompt == "localhost(config-qos-profile-roce-uc-txq-3)#"
    shell.execute("exit")
    assert shell.prompt == "localhost(config-qos-profile-roce)#"
    shell.execute("exit")
    assert shell.prompt == "localhost(config)#"
