"""A configuration as text and back."""

from __future__ import annotations

from hypothesis import given
from unit.drivers.switch.plans import switch_plans
from unit.lab.switch.configs import BASE, PORTS, configs

from pinion.drivers.switch.eos_parser import parse
from pinion.drivers.switch.state import wanted
from pinion.lab.switch import initial
from pinion.lab.switch.nos.config import Config
from pinion.lab.switch.nos.loading import load
from pinion.lab.switch.nos.text import diff, render
from pinion.plan.model import QosQueue, SwitchPlan
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config


@given(configs())
def test_what_is_shown_loads_back(config: Config) -> None:
    assert load(render(config), BASE) == (config, [])


@given(configs())
def test_the_driver_reads_what_the_switch_shows(config: Config) -> None:
    """Two parsers that know nothing of each other: the switch's own, and the driver's."""
    state = parse(render(config))
    assert {vlan.vid: vlan.name for vlan in state.vlans} == {vlan.vid: vlan.name for vlan in config.vlans.values()}
    assert [
        (port.name, port.description, port.enabled, port.mode == "trunk", port.access_vlan, port.native_vlan, port.mtu)
        for port in state.ports
    ] == [
        (port.name, port.description, not port.shutdown, port.trunk, port.access_vlan, port.native_vlan, port.l2_mtu)
        for port in config.ethernets.values()
    ]
    assert [port.trunk_vlans for port in state.ports] == [
        None if port.allowed is None else tuple(sorted(port.allowed)) for port in config.ethernets.values()
    ]
    assert {svi.vid: (svi.mtu, svi.enabled, set(svi.addresses) | set(svi.virtual_addresses)) for svi in state.svis} == {
        svi.vid: (svi.mtu, not svi.shutdown, {address.text for address in svi.addresses})
        for svi in config.svis.values()
    }
    assert not any(held.other for held in (*state.vlans, *state.ports, *state.svis))
    assert (state.ip_routing, state.ipv6_routing) == (config.ip_routing, config.ipv6_routing)
    assert [port.qos_profile for port in state.ports] == [port.service_profile for port in config.ethernets.values()]
    assert {(entry.target, entry.source): entry.to for entry in state.qos.maps} == {
        (target, number): to for (source, target, number), to in config.qos.maps.items() if source != "cos"
    }
    assert {profile.name: (profile.trust, profile.pfc, profile.watchdog) for profile in state.qos.profiles} == {
        profile.name: (profile.trust, profile.pfc, profile.watchdog) for profile in config.qos.profiles.values()
    }
    for profile in config.qos.profiles.values():
        known = state.qos.profile(profile.name)
        assert known is not None
        assert set(known.no_drop) == profile.no_drop
        held = {queue.queue: queue for queue in known.queues}
        for number, queue in profile.queues.items():
            read = held.get(number, QosQueue(queue=number))
            assert read.share == (queue.share if queue.round_robin else None)
            assert read.guaranteed == queue.guaranteed
            assert (read.ecn is not None) == (
                queue.ecn is not None and queue.ecn.unit == "kbytes" and queue.ecn.weight == 0
            )
    for ipv6, guard in ((False, state.ssh_ipv4), (True, state.ssh_ipv6)):
        assert guard.asked == config.ssh_lists.get(ipv6)
        assert (guard.allowed is None) == ((ipv6, "pinion-ssh") not in config.access_lists)


@given(switch_plans(PORTS))
def test_the_switch_takes_whatever_is_rendered_for_it(plan: SwitchPlan) -> None:
    config, refused = load(eos_config(switch_state(plan)), BASE)
    assert refused == []
    assert parse(render(config)) == wanted(plan)


@given(configs(), configs())
def test_a_diff_is_empty_when_nothing_differs_and_only_then(old: Config, new: Config) -> None:
    assert diff(old, old, "x") == ""
    assert bool(diff(old, new, "x")) == (old != new)


def test_a_bad_line_is_told_and_the_rest_is_kept() -> None:
    text = "vlan 100\n   name control\n!\ninterface Ethernet1\n   frobnicate\n   shutdown\n!\nqos map\nend\n"
    config, refused = load(text, BASE)
    assert config.vlans[100].name == "control"
    assert config.ethernets["Ethernet1"].shutdown
    assert refused == [
        "frobnicate: % Invalid input (at token 0: 'frobnicate')",
        "qos map: % Incomplete command (at token 1: 'map')",
    ]


def test_a_new_switch_is_shut_and_can_be_logged_in_to() -> None:
    config, refused = load(initial.startup_config("tor-1", PORTS, "Management1", ["192.0.2.1/24"]), BASE)
    assert refused == []
    assert config.hostname == "tor-1"
    assert all(port.shutdown for port in config.ethernets.values())
    assert [address.text for address in config.managements["Management1"].addresses] == ["192.0.2.1/24"]
    assert config.vlans == {}


@given(configs())
def test_provisioning_again_changes_management_only(config: Config) -> None:
    text = initial.startup_config("tor-9", (*PORTS, "Ethernet5"), "Management1", ["192.0.2.9/24"], render(config))
    after, refused = load(
        text, BASE.with_interface(initial.factory(["Ethernet5"], "Management1").ethernets["Ethernet5"])
    )
    assert refused == []
    assert after.hostname == "tor-9"
    assert [address.text for address in after.managements["Management1"].addresses] == ["192.0.2.9/24"]
    assert after.ethernets["Ethernet5"].shutdown, "a port that was not there before is shut"
    assert {name: port for name, port in after.ethernets.items() if name in PORTS} == config.ethernets
    assert (after.vlans, after.svis, after.ip_routing) == (config.vlans, config.svis, config.ip_routing)
