"""What any NetBox driver must do when the site file gives a thing another name or two things exchange what they have."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from netbox_contract.contract import marked, only
from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy
from pinion.drivers.netbox import CableTo, DeviceRecord, ExistsError, Interface, NetBoxDriver, VlanRecord
from pinion.drivers.netbox.driver import UnitDriver
from pinion.drivers.netbox.errors import BulkRefusedError
from pinion.drivers.netbox.kinds import (
    ADOPTED,
    CABLE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS_OF_UNIT,
    MAC_ADDRESS,
    MARK,
    PREFIX,
    RACK,
    VLAN,
    VLAN_GROUP,
)
from pinion.drivers.netbox.matching import is_adopted
from pinion.drivers.netbox.plain import mark_of, plain_record
from pinion.drivers.netbox.results import D
from pinion.drivers.netbox.store import identity

ORDERS = ("together", "one by one", "the other way round")


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> str:
    """In which order the units of an exchange reach the driver."""
    found: str = request.param
    return found


def ids(spy: Spy, unit: str) -> dict[str, int]:
    """NetBox's ids of what carries marks of *unit*, by kind and the rest of the mark."""
    stem = unit.split("/")[1]
    found: dict[str, int] = {}
    for kind in KINDS_OF_UNIT[stem]:
        for record in spy.find(kind, {}, f"cf_{MARK}__isw", [unit]):
            mark = mark_of(record) or ""
            if mark == unit or mark.startswith(f"{unit}/"):
                found[f"{kind.name}{mark.removeprefix(unit)}"] = identity(record)
    return found


def bring(units_of: UnitDriver[D], units: list[D], order: str) -> None:
    """Have the driver of one kind of unit apply *units* in *order*."""
    if order == "together":
        for result in units_of.lists.apply(units):
            assert not isinstance(result, Exception), result
    for unit in {"together": [], "one by one": units}.get(order, units[::-1]):
        units_of.apply(unit)


def are_as_wanted(driver: NetBoxDriver, units_of: UnitDriver[D], units: list[D]) -> None:
    """*units* are as wanted, and nothing is left to do."""
    driver.forget()
    for unit in units:
        read = units_of.read(unit.key)
        assert read is not None
        assert read.record == unit
        assert read.other_drift == ()
        assert units_of.diff(unit).empty


def named(unit: DeviceRecord, name: str) -> DeviceRecord:
    return unit.model_copy(update={"name": name})


@pytest.fixture
def renaming(driver: NetBoxDriver, sample: Sample) -> Iterator[Sample]:
    """A site with a VLAN, a switch and two Pis; new names are taken away again from a NetBox that we were given."""
    sample.make(driver, pis=2)
    yield sample
    if "PINION_TEST_NETBOX" not in os.environ:
        return
    driver.devices.lists.delete([f"{sample.name}/{name}" for name in ("pi-a", "pi-b", "tor-a")])
    driver.vlans.lists.delete([f"{sample.name}/{name}" for name in ("edge-ai", "third")])


# --- why room has to be made --------------------------------------------------------------------------------------------


def test_netbox_moves_no_primary_address_and_no_primary_mac(renaming: Sample, spy: Spy, hand: Hand) -> None:
    port = marked(spy, INTERFACE, f"{renaming.name}/device/pi-02/interface/eth0")[0]
    for kind, name in ((IP_ADDRESS, f"address/{renaming.pi().primary_address}"), (MAC_ADDRESS, "mac/eth0")):
        record = marked(spy, kind, f"{renaming.name}/device/pi-01/{name}")[0]
        patch = {"id": identity(record), "assigned_object_type": "dcim.interface", "assigned_object_id": identity(port)}
        with pytest.raises(BulkRefusedError, match="Cannot reassign"):
            hand.update(kind, [patch], ["*"])


def test_netbox_takes_one_device_a_rack_unit(renaming: Sample, spy: Spy, hand: Hand) -> None:
    """Of what has a height: the sample's Pis have none."""
    switch = marked(spy, DEVICE, f"{renaming.name}/device/tor-1")[0]
    taken = plain_record(DEVICE, switch)
    body = {name: taken[name] for name in ("site", "rack", "role", "device_type", "position", "face")}
    with pytest.raises(BulkRefusedError, match="occupied"):
        hand.create(DEVICE, [{**body, "name": f"second {renaming.name}"}])
    hand.update(DEVICE, [{"id": identity(switch), "position": None, "face": None}], ["*"])
    second = hand.create(DEVICE, [{**body, "name": f"second {renaming.name}"}])
    hand.delete(DEVICE, [identity(second[0])], ["*"])


def test_a_vlan_may_leave_its_group_with_all_that_hangs_on_it(renaming: Sample, spy: Spy, hand: Hand) -> None:
    vlan = marked(spy, VLAN, f"{renaming.name}/vlan/edge")[0]
    left = hand.update(VLAN, [{"id": identity(vlan), "group": None}], ["*"])[0]
    assert left["group"] is None
    prefix = only(spy, PREFIX, "prefix", renaming.vlan().prefixes[0].prefix)
    assert plain_record(PREFIX, prefix)["vlan"] == identity(vlan)


# --- VLANs --------------------------------------------------------------------------------------------------------------


def test_a_vlan_of_another_name_is_the_same_vlan(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    new = renaming.vlan("edge-ai")
    before = ids(spy, f"{renaming.name}/vlan/edge")
    spy.writes.clear()
    foreseen = driver.vlans.diff(new)
    assert spy.writes == []
    assert foreseen.exists
    assert foreseen.conflicts == ()
    assert foreseen.renamed == f"VLAN {renaming.name}/edge"
    assert {(change.path, change.action) for change in foreseen.changes} == {("name", "update"), ("", "update")}
    assert all(driver.vlans.diff(renaming.vlan()).changes == () for _ in range(2)), "a preview must change nothing"
    applied = driver.vlans.apply(new)
    assert applied.changes == foreseen.changes
    assert applied.renamed == foreseen.renamed
    assert applied.observed.record == new
    assert applied.observed.owner == "created"
    assert ids(spy, f"{renaming.name}/vlan/edge-ai") == before
    assert ids(spy, f"{renaming.name}/vlan/edge") == {}
    switch = renaming.switch()
    ports = tuple(one.model_copy(update={"untagged_vlan": "edge-ai"}) for one in switch.interfaces)
    assert driver.devices.apply(switch.model_copy(update={"interfaces": ports})).changes == ()
    driver.forget()
    assert driver.vlans.read(f"{renaming.name}/edge") is None, "a refresh in between finds the old one gone"
    deleted = driver.vlans.delete(f"{renaming.name}/edge")
    assert (deleted.deleted, deleted.left) == ((), ())
    are_as_wanted(driver, driver.vlans, [new])


def test_what_the_new_name_does_not_want_goes_with_the_old_one(
    driver: NetBoxDriver, renaming: Sample, spy: Spy
) -> None:
    new = renaming.vlan("edge-ai", ranges=[])
    driver.vlans.apply(new)
    driver.forget()
    read = driver.vlans.read(f"{renaming.name}/edge")
    assert read is not None, "a refresh in between must not lose what is left"
    assert any("left of it: IP range" in text for text in read.other_drift)
    deleted = driver.vlans.delete(f"{renaming.name}/edge")
    assert [text.split()[0] for text in deleted.deleted] == ["IP"]
    assert deleted.left == ()
    assert spy.find(IP_RANGE, {}, "start_address", [renaming.vlan().ranges[0].start]) == []
    are_as_wanted(driver, driver.vlans, [new])


def test_another_name_and_another_range_at_once(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    """NetBox lets no two ranges overlap, so the old one has to become the new one."""
    span = renaming.vlan().ranges[0]
    new = renaming.vlan("edge-ai", ranges=[span.model_copy(update={"end": span.end.replace(".199/", ".149/")})])
    before = ids(spy, f"{renaming.name}/vlan/edge")
    driver.vlans.apply(new)
    assert ids(spy, f"{renaming.name}/vlan/edge-ai") == before
    are_as_wanted(driver, driver.vlans, [new])


def test_adopted_stays_adopted_under_another_name(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    driver.sites.apply(sample.site())
    group = only(spy, VLAN_GROUP, "slug", sample.name)
    vlan = hand.create(VLAN, [{"vid": 101, "name": "made by hand", "group": identity(group)}])[0]
    driver.vlans.apply(sample.vlan(), adopt=True)
    assert driver.vlans.apply(sample.vlan("edge-ai")).observed.owner == "adopted"
    driver.vlans.delete(f"{sample.name}/edge")
    assert [left.url for left in driver.vlans.delete(f"{sample.name}/edge-ai").left] == [vlan["display_url"]]
    assert only(spy, VLAN, "id", str(identity(vlan)))["tags"] == []
    hand.delete(VLAN, [identity(vlan)], ["*"])


def test_two_vlans_exchange_names(driver: NetBoxDriver, renaming: Sample, spy: Spy, order: str) -> None:
    driver.vlans.apply(renaming.vlan("control", 100))
    new = [renaming.vlan("edge", 100), renaming.vlan("control", 101)]
    bring(driver.vlans, new, order)
    are_as_wanted(driver, driver.vlans, new)
    port = marked(spy, INTERFACE, f"{renaming.name}/device/tor-1/interface/Ethernet1")[0]
    assert port["untagged_vlan"]["vid"] == 100, "a port follows the name in the site file"  # type: ignore[index, call-overload]


def test_three_vlans_pass_their_ids_round(driver: NetBoxDriver, renaming: Sample, order: str) -> None:
    names, vids = ("edge", "control", "third"), (101, 100, 102)
    networks = (f"10.{renaming.net}.0/24", f"11.{renaming.net}.0/24", f"14.{renaming.net}.0/24")

    def vlan(name: str, place: int) -> VlanRecord:
        host = networks[place].removesuffix("0/24")
        ranges = [{"name": "pis", "start": f"{host}100/24", "end": f"{host}199/24"}]
        return renaming.vlan(name, vids[place], prefixes=[{"prefix": networks[place]}], ranges=ranges)

    driver.vlans.lists.apply([vlan(name, place) for place, name in enumerate(names)])
    new = [vlan(name, (place + 1) % 3) for place, name in enumerate(names)]
    bring(driver.vlans, new, order)
    are_as_wanted(driver, driver.vlans, new)


def test_a_new_vlan_takes_the_vid_that_another_gives_up(
    driver: NetBoxDriver, renaming: Sample, spy: Spy, order: str
) -> None:
    """The other one is still in the site file: it keeps its record, and those who refer to it do not lose it."""
    before = ids(spy, f"{renaming.name}/vlan/edge")
    new = [renaming.vlan("edge-ai"), renaming.vlan("edge", 103)]
    driver.vlans.expect([one.key for one in new])
    bring(driver.vlans, new, order)
    are_as_wanted(driver, driver.vlans, new)
    assert ids(spy, f"{renaming.name}/vlan/edge")["VLAN"] == before["VLAN"]


def test_two_units_that_want_one_prefix_are_refused(driver: NetBoxDriver, renaming: Sample) -> None:
    thief = VlanRecord(site=renaming.name, name="third", vid=102, prefixes=renaming.vlan().prefixes)
    _, refused = driver.vlans.lists.apply([renaming.vlan(), thief])
    assert isinstance(refused, ExistsError)
    assert refused.reason == f"VLAN {renaming.name}/edge wants it, too"
    are_as_wanted(driver, driver.vlans, [renaming.vlan()])


# --- devices ------------------------------------------------------------------------------------------------------------


def test_a_device_of_another_name_is_the_same_device(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    new, old = named(renaming.pi(), "pi-a"), renaming.pi().key
    before = ids(spy, f"{renaming.name}/device/pi-01")
    foreseen = driver.devices.diff(new)
    assert foreseen.conflicts == ()
    assert foreseen.renamed == f"device {old}"
    assert {(change.path, change.action) for change in foreseen.changes} == {("name", "update"), ("", "update")}
    applied = driver.devices.apply(new)
    assert applied.changes == foreseen.changes
    assert ids(spy, f"{renaming.name}/device/pi-a") == before
    driver.forget()
    assert driver.devices.read(old) is None
    deleted = driver.devices.delete(old)
    assert (deleted.deleted, deleted.left) == ((), ())
    are_as_wanted(driver, driver.devices, [new, renaming.pi(2), renaming.switch()])


def test_a_switch_of_another_name_keeps_its_cables(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    new = named(renaming.switch(), "tor-a")
    before = ids(spy, f"{renaming.name}/device/tor-1")
    cables = ids(spy, f"{renaming.name}/device/pi-01")
    driver.devices.apply(new)
    pis = [renaming.pi(n, cable=CableTo(device="tor-a", interface=f"Ethernet{n}")) for n in (1, 2)]
    for pi in pis:
        driver.devices.apply(pi)
    assert driver.devices.delete(f"{renaming.name}/tor-1").left == ()
    assert ids(spy, f"{renaming.name}/device/tor-a") == before
    assert ids(spy, f"{renaming.name}/device/pi-01") == cables
    are_as_wanted(driver, driver.devices, [new, *pis])


@pytest.mark.parametrize("address", ["the same", "another"])
def test_a_device_of_another_name_and_other_hardware(
    driver: NetBoxDriver, renaming: Sample, spy: Spy, address: str
) -> None:
    """With too little in common it is a new device, which takes address and port over from the old one."""
    old = renaming.pi()
    port = old.interfaces[0]
    new = renaming.pi(
        3, cable=port.cable, mac=port.mac, name="lan0", addresses=port.addresses if address == "the same" else []
    )
    new = named(new, "pi-a").model_copy(
        update={"serial": "other", "primary_address": (*new.interfaces[0].addresses, None)[0]}
    )
    driver.devices.apply(renaming.pi().model_copy(update={"serial": "one"}))
    foreseen = driver.devices.diff(new)
    assert foreseen.conflicts == ()
    assert foreseen.renamed is None
    driver.devices.apply(new)
    assert driver.devices.delete(old.key).left == ()
    assert ids(spy, f"{renaming.name}/device/pi-01") == {}
    are_as_wanted(driver, driver.devices, [new, renaming.pi(2)])


def test_a_device_in_the_rack_unit_of_another(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    """NetBox holds one device a rack unit, so the one that is on its way out leaves it first."""
    new = named(renaming.switch(ports=2), "tor-a").model_copy(update={"serial": "B"})
    driver.devices.apply(renaming.switch().model_copy(update={"serial": "A"}))
    assert driver.devices.diff(new).renamed is None
    driver.devices.apply(new)
    driver.devices.delete(f"{renaming.name}/tor-1")
    are_as_wanted(driver, driver.devices, [new])


def test_two_devices_exchange_addresses(driver: NetBoxDriver, renaming: Sample, spy: Spy, order: str) -> None:
    one, two = renaming.pi(), renaming.pi(2)
    new = [_with_addresses(one, two), _with_addresses(two, one)]
    bring(driver.devices, new, order)
    are_as_wanted(driver, driver.devices, new)
    for address in (one.primary_address, two.primary_address):
        assert only(spy, IP_ADDRESS, "address", str(address))


def _with_addresses(one: DeviceRecord, other: DeviceRecord) -> DeviceRecord:
    port = one.interfaces[0].model_copy(update={"addresses": other.interfaces[0].addresses})
    return one.model_copy(update={"interfaces": (port,), "primary_address": other.primary_address})


def test_two_devices_exchange_ports(driver: NetBoxDriver, renaming: Sample, spy: Spy, order: str) -> None:
    ports = [CableTo(device="tor-1", interface=f"Ethernet{n}") for n in (1, 2)]
    new = [renaming.pi(1, cable=ports[1]), renaming.pi(2, cable=ports[0])]
    bring(driver.devices, new, order)
    are_as_wanted(driver, driver.devices, [*new, renaming.switch()])
    assert len(spy.find(CABLE, {}, f"cf_{MARK}__isw", [f"{renaming.name}/"])) == 2


def test_a_cable_that_was_there_before_stays_one_that_was(
    driver: NetBoxDriver, renaming: Sample, spy: Spy, hand: Hand, order: str
) -> None:
    """NetBox knows no cable without an end, so one of two that exchange ports is made anew, as the preview has said; what `destroy` leaves
    does not change."""
    before = spy.find(CABLE, {}, f"cf_{MARK}__isw", [f"{renaming.name}/device/pi-"])
    for cable in before:
        hand.update(CABLE, [{"id": identity(cable), "custom_fields": {ADOPTED: True}}], ["*"])
    ports = [CableTo(device="tor-1", interface=f"Ethernet{n}") for n in (1, 2)]
    new = [renaming.pi(1, cable=ports[1]), renaming.pi(2, cable=ports[0])]
    shown = [(change.action, change.before) for change in driver.devices.diff(new[0]).changes]
    assert ("remove", f"{before[1]['display']}, which was there before Pinion") in shown, (
        "no cable of others goes unsaid"
    )
    bring(driver.devices, new, order)
    are_as_wanted(driver, driver.devices, new)
    cables = spy.find(CABLE, {}, f"cf_{MARK}__isw", [f"{renaming.name}/device/pi-"])
    assert sum(is_adopted(one) for one in cables) == (2 if order == "together" else 1)


def test_a_vlan_that_is_left_out_of_its_group_is_told_and_put_back(
    driver: NetBoxDriver, renaming: Sample, spy: Spy, hand: Hand
) -> None:
    """What a run that was killed in an exchange leaves."""
    vlan = marked(spy, VLAN, f"{renaming.name}/vlan/edge")[0]
    hand.update(VLAN, [{"id": identity(vlan), "group": None}], ["*"])
    read = driver.vlans.read(f"{renaming.name}/edge")
    assert read is not None
    assert [text for text in read.other_drift if "is in no VLAN group" in text]
    driver.vlans.apply(renaming.vlan())
    are_as_wanted(driver, driver.vlans, [renaming.vlan()])


def test_two_devices_exchange_all_but_their_names(driver: NetBoxDriver, renaming: Sample, spy: Spy, order: str) -> None:
    new = [named(renaming.pi(2), "pi-01"), named(renaming.pi(1), "pi-02")]
    bring(driver.devices, new, order)
    are_as_wanted(driver, driver.devices, new)


def test_a_row_of_devices_moves_up_by_one(driver: NetBoxDriver, renaming: Sample, spy: Spy, order: str) -> None:
    """`numbers: 1-2` becomes `2-3`: each gets address and port of the one before it, and the first is gone."""
    new = [named(renaming.pi(1), "pi-02"), named(renaming.pi(2), "pi-03")]
    driver.devices.expect([one.key for one in new])
    bring(driver.devices, new, order)
    assert driver.devices.delete(f"{renaming.name}/pi-01").left == ()
    are_as_wanted(driver, driver.devices, new)


def test_two_ports_of_one_device_exchange_their_cables(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    sample.make(driver)

    def pi(first: int, second: int) -> DeviceRecord:
        ports = [
            Interface(name=f"eth{n}", type="1000base-t", cable=CableTo(device="tor-1", interface=f"Ethernet{far}"))
            for n, far in enumerate((first, second))
        ]
        return sample.pi(addresses=[]).model_copy(update={"interfaces": tuple(ports)})

    driver.devices.apply(pi(1, 2))
    driver.devices.apply(pi(2, 1))
    are_as_wanted(driver, driver.devices, [pi(2, 1)])


def test_a_rack_of_another_name_is_the_same_rack(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    """Its devices hold on to it, and they come after the site."""
    (rack,) = marked(spy, RACK, f"{renaming.name}/site/rack/r1")
    new = renaming.site(racks=[{"name": "r-one", "units": 42}, {"name": "r2", "units": 20}])
    assert {(change.path, change.action) for change in driver.sites.diff(new).changes} == {
        ("racks[r-one].name", "update"), ("racks[r-one]", "update"), ("racks[r2]", "add"),
    }  # fmt: skip
    driver.sites.apply(new)
    assert driver.sites.diff(new).empty
    assert [identity(one) for one in marked(spy, RACK, f"{renaming.name}/site/rack/r-one")] == [identity(rack)]
    pi = renaming.pi().model_copy(update={"rack": "r-one"})
    assert driver.devices.apply(pi).changes == ()


# --- whose is it --------------------------------------------------------------------------------------------------------


def test_what_is_another_sites_is_not_taken(driver: NetBoxDriver, renaming: Sample, spy: Spy) -> None:
    other = Sample.new()
    other.make(driver)
    thief = other.pi(2, addresses=[renaming.pi().primary_address])
    with pytest.raises(ExistsError, match=f"managed by Pinion already, as {renaming.name}/device/pi-01/address/"):
        driver.devices.apply(thief, adopt=True)
    assert driver.devices.apply(renaming.pi()).changes == ()
    with pytest.raises(ExistsError, match=f"managed by Pinion already, as {renaming.name}/vlan/edge/prefix/"):
        driver.vlans.apply(other.vlan("control", 100, prefixes=renaming.vlan().prefixes), adopt=True)
    assert driver.vlans.apply(renaming.vlan()).changes == ()
    other.clear(driver)


def test_a_strangers_cable_is_not_taken(driver: NetBoxDriver, renaming: Sample, spy: Spy, hand: Hand) -> None:
    cable = marked(spy, CABLE, f"{renaming.name}/device/pi-02/cable/eth0")[0]
    hand.update(CABLE, [{"id": identity(cable), "custom_fields": {MARK: None}}], ["*"])
    with pytest.raises(ExistsError, match="one of its ports is taken by"):
        driver.devices.apply(renaming.pi(3, cable=renaming.pi(2).interfaces[0].cable))
    hand.delete(CABLE, [identity(cable)], ["*"])
