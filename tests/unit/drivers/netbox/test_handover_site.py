"""Edits of a real site file, planned and applied in the order of the program: everything keeps its object in NetBox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from doubles.netbox_store import MemoryStore

from pinion.drivers.netbox import DeviceRecord, NetBoxDriver, device_record, site_records, vlan_record
from pinion.drivers.netbox.kinds import KINDS
from pinion.drivers.netbox.plain import mark_of
from pinion.drivers.netbox.store import identity
from pinion.plan import Plan, plan
from pinion.plan.model import DeviceKind
from pinion.site.loader import load

SITE = (Path(__file__).parents[4] / "inventories/lab/site.yml").read_text()

EDITS = {
    "all names": (
        ("edge-inference", "edge-ai"), ("gpu-rdma", "rdma"), ("\n  pi:", "\n  node:"), ("lab-rack", "rack-a"), ("tor-1 ", "tor-a "),
        ("tor-1:", "tor-a:"), ("nv-1", "gpu-1"), ("mgmt-1", "boss"),
    ),
    "other ports": (("Ethernet1-8", "Ethernet2-8"),),
    "other numbers": (("numbers: 1-4", "numbers: 2-5"),),
    "other numbers and ports": (("numbers: 1-4", "numbers: 3-6"), ("Ethernet1-8", "Ethernet3-8")),
    "other addresses": (("10.77.101.10-10.77.101.99", "10.77.101.12-10.77.101.99"),),
    "VIDs exchanged": (("vid: 100,", "vid: 1000,"), ("vid: 102,", "vid: 100,"), ("vid: 1000,", "vid: 102,")),
}  # fmt: skip


def _planned(folder: Path, edits: Sequence[tuple[str, str]]) -> Plan:
    text = SITE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (folder / "site.yml").write_text(text)
    return plan(load(folder / "site.yml"))


def _up(store: MemoryStore, site: Plan, before: Plan | None = None, *, dry: bool = False) -> int:
    """What `pulumi up` asks of the driver: what is wanted, then away with what the file does not hold any more. The number of changes."""
    driver = NetBoxDriver.on(store, fresh=60.0)
    vlans = [vlan_record(site, one.name) for one in site.vlans]
    switches = [device_record(site, one.name) for one in site.devices if one.kind is DeviceKind.SWITCH]
    others = [device_record(site, one.name) for one in site.devices if one.kind is not DeviceKind.SWITCH]
    driver.vlans.expect([one.key for one in vlans])
    driver.devices.expect([one.key for one in (*switches, *others)])
    if dry:
        diffs = [
            *driver.vlans.lists.diff(vlans),
            *driver.devices.lists.diff(switches),
            *driver.devices.lists.diff(others),
        ]
        assert [
            conflict for diff in (driver.sites.diff(site_records(site)), *diffs) for conflict in diff.conflicts
        ] == []
        return 0
    count = len(driver.sites.apply(site_records(site)).changes)
    waves: list[Sequence[DeviceRecord]] = [switches, others]
    for result in (
        *driver.vlans.lists.apply(vlans),
        *(one for wave in waves for one in driver.devices.lists.apply(wave)),
    ):
        assert not isinstance(result, Exception), result
        count += len(result.changes)
    for key in {one.name for one in before.devices} - {one.name for one in site.devices} if before else ():
        assert driver.devices.delete(f"{site.site}/{key}").left == ()
    for key in {one.name for one in before.vlans} - {one.name for one in site.vlans} if before else ():
        assert driver.vlans.delete(f"{site.site}/{key}").left == ()
    return count


def _objects(store: MemoryStore) -> dict[str, set[int]]:
    return {kind.name: {identity(one) for one in store.find(kind, {})} for kind in KINDS if kind.marked}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_and_back(tmp_path: Path, edit: str) -> None:
    store = MemoryStore()
    first, second = _planned(tmp_path, ()), _planned(tmp_path, EDITS[edit])
    _up(store, first)
    objects = _objects(store)
    marks = {mark_of(one) for kind in KINDS for one in store.find(kind, {})}
    _up(store, second, first, dry=True)
    assert _up(store, second, first) > 0
    if edit == "all names":
        assert _objects(store) == objects
    assert _up(store, second) == 0, "a second run finds something to do"
    assert _up(store, first, second) > 0
    assert _up(store, first) == 0
    assert {mark_of(one) for kind in KINDS for one in store.find(kind, {})} == marks
    assert {kind: len(ids) for kind, ids in _objects(store).items()} == {
        kind: len(ids) for kind, ids in objects.items()
    }
