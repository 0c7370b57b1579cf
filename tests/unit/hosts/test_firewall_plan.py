"""What the plan says of the concern firewall."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from unit.hosts.nodes import concern, file
from unit.hosts.sites import DC, LAB, planned

from pinion.plan import Plan
from pinion.plan.concerns.firewall import RULES_FILE, UNIT
from pinion.plan.model import DeviceKind, HostPlan

STATED: dict[str, object] = {"firewall": {}, "node_metrics": {}, "base": {}}


@pytest.fixture(scope="module")
def lab() -> Plan:
    return planned(LAB, concerns=STATED)


def rules(host: HostPlan) -> str:
    """The text that nft loads on *host*."""
    return file(host.concerns["firewall"], RULES_FILE).content


def test_every_host_has_it_when_the_site_says_so_and_none_otherwise(lab: Plan) -> None:
    assert all("firewall" in host.concerns for host in lab.hosts)
    assert not any("firewall" in host.concerns for host in planned(LAB, concerns={}).hosts)


def test_everything_is_dropped_that_no_flow_lets_in(lab: Plan) -> None:
    for host in lab.hosts:
        text = rules(host)
        assert text.count("policy drop;") == 2
        accepted = [line.split('comment "')[1].split(":")[0] for line in text.splitlines() if "comment" in line]
        ending = [flow.name for flow in lab.flows if flow.name in accepted]
        assert accepted == ending
        assert {"ssh", "pod-network"} <= set(accepted)
        assert "flush ruleset" not in text, "the tables of others are not ours"


def test_a_set_has_no_address_twice(lab: Plan) -> None:
    """nft refuses sets with overlapping spans; the management host is in a network that is allowed as a whole."""
    assert "ip saddr { 10.77.99.0/24, 10.77.100.10 } tcp dport { 22 }" in rules(lab.hosts[0])


def test_only_nodes_pass_packets_on(lab: Plan) -> None:
    by_kind = {host.kind: rules(host).partition("chain forward")[2] for host in lab.hosts}
    for kind in (DeviceKind.PI, DeviceKind.GPU_SERVER):
        assert "ip daddr 10.244.0.0/16 accept" in by_kind[kind]
    assert "accept" not in by_kind[DeviceKind.MANAGEMENT_HOST]
    apart = planned(LAB, concerns=STATED, kubernetes={"control_plane": "mgmt-1", "pis_join": False})
    assert (
        "accept"
        not in rules(next(host for host in apart.hosts if host.kind is DeviceKind.PI)).partition("chain forward")[2]
    )
    without = planned(DC, concerns={"firewall": {"operators": ["192.168.100.0/24"]}})
    assert all("accept" not in rules(host).partition("chain forward")[2] for host in without.hosts)


def test_the_rules_are_checked_confirmed_and_loaded_in_one_transaction(lab: Plan) -> None:
    found = concern(lab, DeviceKind.PI, "firewall")
    stated = file(found, RULES_FILE)
    assert stated.confirm
    assert stated.notify == (UNIT,)
    assert stated.validate_command == "/usr/sbin/nft --check --file %s"
    lines = stated.content.splitlines()
    assert lines[1:4] == ["add table inet pinion", "delete table inet pinion", "table inet pinion {"]
    unit = file(found, f"/etc/systemd/system/{UNIT}").content
    assert "Before=network-pre.target" in unit
    assert "After=pinion-undo.service" in unit
    assert [(unit.name, unit.enabled, unit.active) for unit in found.units] == [(UNIT, True, True)]


def test_a_quote_in_a_reason_does_not_end_the_comment() -> None:
    allow = {"odd": {"sources": ["control"], "hosts": ["pi"], "ports": [1], "why": 'a "quoted" reason' + "x" * 200}}
    plan = planned(LAB, concerns={"firewall": {"allow": allow}})
    pi = next(host for host in plan.hosts if host.kind is DeviceKind.PI)
    (line,) = [line for line in rules(pi).splitlines() if "odd:" in line]
    assert line.count('"') == 2
    assert len(line.split('"')[1]) <= 127  # nftables: 128 bytes with the end


@pytest.mark.skipif(shutil.which("nft") is None, reason="needs the program nft")
def test_the_systemd_unit_says_what_systemd_understands(lab: Plan) -> None:
    """The shell line of the reload is one that a shell reads."""
    unit = file(concern(lab, DeviceKind.PI, "firewall"), f"/etc/systemd/system/{UNIT}").content
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecReload=")]
    script = line.partition("-c '")[2].rstrip("'")
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
