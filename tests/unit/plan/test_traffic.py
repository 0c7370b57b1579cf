"""A class is lossless at NICs and switches, or at neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.sites import DC, LAB, with_pfc

from pinion.plan import Plan, plan
from pinion.plan.concerns.nic_tuning import CONFIG_FILE
from pinion.plan.switch_state import switch_state
from pinion.plan.traffic import LOSSLESS_PROFILE, whole_shares
from pinion.render.eos import eos_config
from pinion.site.model import Delivery, Site


def applied(platforms: dict[str, str], *pausing: str) -> dict[str, tuple[Delivery, Delivery]]:
    """What dc-rack-12 states of each class and what is applied, with its switches on *platforms*, where those of *pausing* get PFC."""
    data: dict[str, Any] = yaml.safe_load(DC.read_text())
    for name, platform in platforms.items():
        data["switches"][name]["platform"] = platform
    found = plan(Site.model_validate(data), with_pfc(*pausing)).traffic_classes
    return {one.name: (one.delivery, one.applied) for one in found}


BOTH = {"tor-1": "arista-eos", "tor-2": "arista-eos"}


@pytest.mark.parametrize(
    ("platforms", "pausing", "expected"),
    [
        (BOTH, (), Delivery.LOSSY),
        (BOTH, ("arista-eos",), Delivery.LOSSLESS),
        (BOTH | {"tor-2": "lab"}, ("arista-eos",), Delivery.LOSSY),
        (BOTH | {"tor-2": "lab"}, ("arista-eos", "lab"), Delivery.LOSSLESS),
    ],
)
def test_a_lossless_class_is_one_where_every_switch_pauses(
    platforms: dict[str, str], pausing: tuple[str, ...], expected: Delivery
) -> None:
    found = applied(platforms, *pausing)
    assert found["rdma"] == (Delivery.LOSSLESS, expected)
    assert {name: both for name, both in found.items() if name != "rdma"} == {
        "control": (Delivery.LOSSY, Delivery.LOSSY),
        "edge_http": (Delivery.LOSSY, Delivery.LOSSY),
    }


@pytest.mark.parametrize("path", [LAB, DC])
def test_a_switch_pauses_what_the_nics_pause_and_nothing_else(path: Any) -> None:
    compiled = plan(Site.model_validate(yaml.safe_load(path.read_text())))
    lossless = {one.dscp >> 3 for one in compiled.traffic_classes if one.applied is Delivery.LOSSLESS}
    assert bool(lossless) == (path == DC)
    for switch in compiled.switches:
        assert ("priority-flow-control" in eos_config(switch_state(switch))) == bool(lossless)
        assert switch.qos is not None
        assert {number for profile in switch.qos.profiles for number in profile.no_drop} == lossless
    for host in compiled.hosts:
        for concern in host.concerns.values():
            for file in concern.files:
                if file.path == CONFIG_FILE:
                    pauses = {number for nic in json.loads(file.content).values() for number in nic["pfc"] or ()}
                    assert pauses == lossless


def changed(**top: Any) -> Plan:
    """The plan of dc-rack-12 with other top-level keys."""
    return plan(Site.model_validate(yaml.safe_load(DC.read_text()) | top))


def test_without_nic_tuning_no_nic_pauses_so_no_switch_does() -> None:
    found = changed(concerns={})
    assert [one.applied for one in found.traffic_classes] == [Delivery.LOSSY] * 3
    for switch in found.switches:
        assert "priority-flow-control" not in eos_config(switch_state(switch))


def test_only_ports_whose_other_end_pauses_are_lossless() -> None:
    for switch in changed().switches:
        lossless = {port.name for port in switch.ports if port.qos_profile == LOSSLESS_PROFILE}
        assert lossless == {f"Ethernet{number}/1" for number in (49, 50, 51, 52, 55, 56)}
        for port in switch.ports:
            assert (port.qos_profile is not None) == port.enabled


def test_each_class_has_its_queue_by_the_platforms_own_map() -> None:
    qos = changed().switches[0].qos
    assert qos is not None
    maps = {entry.key: entry.to for entry in qos.maps}
    # DSCP 0 is traffic class 1 on EOS, with 802.1p priority 0; the congestion notifications of the platform are DSCP 48.
    assert {dscp: maps["traffic-class", dscp] for dscp in (0, 16, 26, 48)} == {0: 1, 16: 2, 26: 3, 48: 6}
    assert {number: maps["cos", number] for number in (1, 2, 3, 6)} == {1: 0, 2: 2, 3: 3, 6: 6}
    lossy = qos.profile("pinion-lossy")
    assert lossy is not None
    assert {queue.queue: queue.share for queue in lossy.queues} == {1: 20, 2: 20, 3: 60, 6: None}
    assert [queue.queue for queue in lossy.queues if queue.ecn is not None] == [3]


def test_a_site_without_classes_leaves_queues_as_they_are() -> None:
    for switch in changed(traffic_classes={}).switches:
        assert switch.qos is None
        assert "qos" not in eos_config(switch_state(switch))
        assert "service-profile" not in eos_config(switch_state(switch))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=3))
def test_shares_are_whole_add_up_and_starve_nobody(parts: list[int]) -> None:
    shares = {str(place): part / sum(parts) for place, part in enumerate(parts)}
    found = whole_shares(shares)
    assert sum(found.values()) == 100
    assert all(found[name] >= 1 and abs(found[name] - share * 100) < 2 for name, share in shares.items())
