"""Scenario 3: one more Pi is one device, its address and its switch port; nothing that exists moves."""

from __future__ import annotations

from scenarios.rack import PIS, PIS_AND_ONE, Rack


def identities(rack: Rack) -> dict[str, int]:
    """NetBox ids of everything that exists, by kind and name."""
    found: dict[str, int] = {}
    for path, key in (
        ("dcim/devices/", "name"),
        ("ipam/ip-addresses/", "address"),
        ("ipam/vlans/", "name"),
        ("ipam/prefixes/", "prefix"),
    ):
        for entry in rack.netbox(f"{path}?limit=1000")["results"]:
            found[f"{path}{entry[key]}"] = entry["id"]
    return found


def test_one_more_pi(rack: Rack) -> None:
    before = identities(rack)
    rack.edit_site(PIS, PIS_AND_ONE)
    # The image and the power of the new Pi: `up` boots it before it asks Pulumi for the rest.
    rack.pinion("lab", "up", "--site", str(rack.site_file), "--instance", rack.instance)
    steps = rack.preview()
    assert {step["urn"].rpartition("::")[2] + " " + step["op"] for step in steps} == {"pi-03 create", "tor-1 update"}
    assert sorted(step["urn"].split("::")[2].rpartition("$")[2] for step in steps) == [
        "pinion:cluster:Node",
        "pinion:netbox:Device",
        "pinion:netbox:Device",
        "pinion:switch:Config",
    ]
    for step in steps:
        if step["op"] == "update":
            paths = set(step["detailedDiff"] or {})
            assert paths
            assert all("Ethernet3" in path for path in paths), paths
    rack.up()
    after = identities(rack)
    assert {key: after[key] for key in before} == before
    assert set(after) - set(before) == {"dcim/devices/pi-03", "ipam/ip-addresses/10.78.101.12/24"}
    assert "pi-03" in rack.kubectl("get", "nodes", "-l", "edge=pi")
