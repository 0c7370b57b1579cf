"""A switch through the real engine: what preview, up, refresh and destroy show and do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine.stack import Stack


def _held(stack: Stack) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((stack.folder / "tor-1.json").read_text())
    return held


def _by_hand(stack: Stack, held: dict[str, Any]) -> None:
    (stack.folder / "tor-1.json").write_text(json.dumps(held))


def _port(held: dict[str, Any], name: str) -> dict[str, Any]:
    port: dict[str, Any] = next(port for port in held["ports"] if port["name"] == name)
    return port


def test_the_life_of_a_switch(switch_stack: Stack) -> None:
    preview = switch_stack.preview()
    assert "tor-1 (10.77.99.2/24) will be configured:" in preview.text
    assert "+   switchport access vlan 101" in preview.text
    assert "+qos profile pinion-lossy" in preview.text
    assert "+      bandwidth percent 60" in preview.text
    assert not (switch_stack.folder / "tor-1.json").exists()

    switch_stack.up()
    assert _port(_held(switch_stack), "Ethernet1")["access_vlan"] == 101
    assert "3 unchanged" in switch_stack.up().text

    port = next(port for port in switch_stack.wishes["switches"][0]["ports"] if port["name"] == "Ethernet3")
    port["access_vlan"] = 102
    preview = switch_stack.preview()
    assert "~ access_vlan: 101 => 102" in preview.text
    assert " interface Ethernet3\n-   switchport access vlan 101\n+   switchport access vlan 102" in preview.text
    assert "1 updated" in switch_stack.up().text
    assert _port(_held(switch_stack), "Ethernet3")["access_vlan"] == 102


@pytest.mark.variant
def test_drift_is_shown_in_words_of_the_site_file_and_repaired(switch_stack: Stack) -> None:
    switch_stack.up()
    held = _held(switch_stack)
    _port(held, "Ethernet1")["access_vlan"] = 102
    _port(held, "Ethernet2")["other"] = ["no lldp transmit"]
    held["vlans"].append({"vid": 400, "name": "guest", "other": []})
    _by_hand(switch_stack, held)

    shown = switch_stack.refresh().text
    assert "~ access_vlan: 101 => 102" in shown
    assert '+ port Ethernet2 (pis.pi 2): other lines: "no lldp transmit; the site file says (none)"' in shown
    assert switch_stack.steps() == {"tor-1": "update"}

    repaired = switch_stack.up().text
    assert "on tor-1, but not ours, and left alone: VLAN 400 (guest)" in repaired
    assert _port(_held(switch_stack), "Ethernet1")["access_vlan"] == 101
    assert _port(_held(switch_stack), "Ethernet2")["other"] == []
    assert switch_stack.steps("--refresh") == {}

    assert "VLAN 400 (guest)" in switch_stack.destroy().text
    assert [vlan["vid"] for vlan in _held(switch_stack)["vlans"]] == [400]
    assert not any(port["enabled"] for port in _held(switch_stack)["ports"])


def test_mistakes_are_all_told_before_anything_is_touched(switch_stack: Stack) -> None:
    """The program's models refuse them first; a program in another language would meet `Check`."""
    program = switch_stack.folder / "__main__.py"
    program.write_text(
        "import pulumi\n"
        "from pinion.provider.sdk.provider import stack_provider\n"
        "class Config(pulumi.CustomResource):\n"
        "    pass\n"
        "Config('pinion:switch:Config', 'tor-1', {'name': 'tor-1', 'colour': 'red', 'vlans': {'x': {}}},"
        " pulumi.ResourceOptions(provider=stack_provider()))\n"
    )
    run = switch_stack.preview(check=False)
    assert run.code != 0
    assert "has a problem: colour: there is no such property (it is 'red')" in run.text
    assert "has a problem: management_address: is missing" in run.text
    assert "has a problem: vlans.x.name: is missing" in run.text
    assert not (switch_stack.folder / "tor-1.json").exists()
