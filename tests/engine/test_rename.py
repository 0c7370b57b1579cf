"""Renames and exchanges in the site file, through the real engine: it makes the new resource before it deletes the old one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine.kill import Point, doubles, killed_run
from engine.netbox_server import Server
from engine.stack import Stack

from pinion.drivers.netbox.kinds import CABLE, DEVICE, IP_ADDRESS, KINDS, PREFIX, VLAN
from pinion.drivers.netbox.kinds.marks import mark_of
from pinion.drivers.netbox.kinds.values import identity


def _marks(netbox: Server) -> dict[str, int]:
    """Every mark in NetBox, and the id that carries it."""
    found: dict[str, int] = {}
    for kind in KINDS:
        for record in netbox.store.find(kind, {}):
            if kind.marked and (mark := mark_of(record)) is not None:
                assert mark not in found or kind not in (VLAN, PREFIX, DEVICE, IP_ADDRESS, CABLE), (
                    f"{mark} is there twice"
                )
                found[mark] = identity(record)
    return found


def _renamed(wishes: dict[str, Any], **names: str) -> dict[str, Any]:
    """*wishes* with other names, wherever they stand."""
    text = json.dumps(wishes)
    for old, new in names.items():
        text = text.replace(f'"{old.replace("_", "-")}"', f'"{new}"')
    changed: dict[str, Any] = json.loads(text)
    return changed


def _moved(marks: dict[str, int]) -> dict[str, int]:
    return {
        mark.replace("/edge-inference", "/edge-ai").replace("/device/pi-01", "/device/pi-a"): number
        for mark, number in marks.items()
    }


def test_a_renamed_vlan_and_a_renamed_device_keep_their_objects(netbox_stack: Stack, netbox: Server) -> None:
    netbox_stack.up()
    before = _marks(netbox)
    netbox_stack.wishes = _renamed(netbox_stack.wishes, edge_inference="edge-ai", pi_01="pi-a")
    told = netbox_stack.preview().text
    assert "VLAN lab/edge-inference is renamed; up will change what NetBox holds:" in told
    assert "device lab/pi-01 is renamed" in told
    assert "error" not in told
    steps = netbox_stack.steps()
    assert {name: op for name, op in steps.items() if op != "update"} == {
        "edge-ai": "create", "edge-inference": "delete", "pi-a": "create", "pi-01": "delete",
    }  # fmt: skip

    told = netbox_stack.up().text
    assert "VLAN lab/edge-inference was renamed" in told
    assert _marks(netbox) == _moved(before)
    assert not doubles(netbox)
    state = netbox_stack.state()
    assert "pinion:netbox:Device pi-a" in state
    assert "pinion:netbox:Device pi-01" not in state
    assert netbox_stack.steps("--refresh") == {}
    netbox_stack.destroy()
    assert {kind: count for kind, count in netbox.objects().items() if count} == {"tag": 1, "custom field": 2}


@pytest.mark.variant
def test_exchanges_converge_in_one_up(netbox_stack: Stack, netbox: Server) -> None:
    netbox_stack.up()
    count = netbox.objects()
    vlans = {one["vid"]: one for one in netbox_stack.wishes["vlans"]}
    vlans[100]["name"], vlans[101]["name"] = vlans[101]["name"], vlans[100]["name"]
    pis = {one["name"]: one for one in netbox_stack.wishes["devices"]}
    for key in ("addresses", "cable"):
        one, two = pis["pi-01"]["interfaces"][0], pis["pi-02"]["interfaces"][0]
        one[key], two[key] = two[key], one[key]
    one, two = pis["pi-01"], pis["pi-02"]
    one["primary_address"], two["primary_address"] = two["primary_address"], one["primary_address"]
    pis["pi-03"]["name"], pis["pi-04"]["name"] = "pi-04", "pi-03"
    assert "error" not in netbox_stack.preview().text

    netbox_stack.up()
    assert netbox_stack.steps("--refresh") == {}
    assert netbox.objects() == count
    assert not doubles(netbox)


POINTS = [Point("engine", 2, "after"), Point("provider", 4, "before"), Point("engine", 6, "after")]


@pytest.mark.variant
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_killed_rename_is_finished_by_the_next_up(netbox_stack: Stack, netbox: Server, point: Point) -> None:
    netbox_stack.up()
    before = _marks(netbox)
    netbox_stack.wishes = _renamed(netbox_stack.wishes, edge_inference="edge-ai", pi_01="pi-a")
    assert killed_run(netbox_stack, netbox, point), f"{point} was not reached: has the number of writes changed?"
    netbox_stack.recover()
    if point.victim == "engine":
        netbox_stack.refresh("--clear-pending-creates")
    netbox_stack.up()
    assert _marks(netbox) == _moved(before)
    assert netbox_stack.steps("--refresh") == {}
