"""What any NetBox driver on any record store must do. Collected by two modules, each with its own `driver` fixture."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import JsonValue

from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy
from pinion.drivers.netbox import ExistsError, Interface, MissingError, NetBoxDriver, Prefix, RefusedError, VlanRecord
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    MARK,
    PREFIX,
    SITE,
    TAG,
    VLAN,
    VLAN_GROUP,
    Kind,
    UnknownNameError,
)
from pinion.drivers.netbox.store import Record, etag, identity


def only(store: Spy, kind: Kind, name: str, value: str) -> Record:
    """The one record for which a filter holds."""
    found = store.find(kind, {}, name, [value])
    assert len(found) == 1, f"{len(found)} {kind.name} for {name}={value}"
    return found[0]


def patch(store: Hand, kind: Kind, record: Record, **fields: JsonValue) -> Record:
    """A change by another hand."""
    return store.update(kind, [{"id": identity(record), **fields}], ["*"])[0]


def marked(store: Spy, kind: Kind, mark: str) -> list[Record]:
    """Records with exactly this mark."""
    return store.find(kind, {}, f"cf_{MARK}", [mark])


# --- make, repeat, read ----------------------------------------------------------------------------------------------------


def test_create_then_nothing_to_do(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    units = [
        (driver.sites, sample.site()),
        (driver.vlans, sample.vlan()),
        (driver.devices, sample.switch()),
        (driver.devices, sample.pi()),
    ]
    for kind, unit in units:
        foreseen = kind.diff(unit)
        assert not foreseen.exists
        assert not foreseen.conflicts
        applied = kind.apply(unit)
        assert [(c.path, c.action) for c in applied.changes if c.action == "add"] == [
            (c.path, c.action) for c in foreseen.changes
        ]
        assert applied.observed.record == unit
        assert applied.observed.owner == "created"
        assert applied.observed.other_drift == ()
    spy.writes.clear()
    for kind, unit in units:
        assert kind.diff(unit).empty
        assert kind.apply(unit).changes == ()
        read = kind.read(unit.key)
        assert read is not None
        assert read.record == unit
    assert spy.writes == []


def test_read_of_nothing(driver: NetBoxDriver, sample: Sample) -> None:
    assert driver.sites.read(sample.name) is None
    assert driver.vlans.read(f"{sample.name}/edge") is None
    assert driver.devices.read(f"{sample.name}/pi-01") is None


def test_a_change_sends_only_what_changed(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    sample.make(driver)
    spy.writes.clear()
    applied = driver.vlans.apply(sample.vlan(description="other"))
    assert [(c.path, c.action, c.before, c.after) for c in applied.changes] == [
        ("description", "update", "edge network", "other")
    ]
    (write,) = spy.writes
    assert (write.method, write.kind, [set(body) for body in write.bodies]) == ("PATCH", VLAN, [{"id", "description"}])


def test_preview_sends_no_write(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    driver.sites.diff(sample.site())
    driver.vlans.diff(sample.vlan())  # refers to a site and a group that are not there yet
    diff = driver.devices.diff(sample.pi())
    address = f"interfaces[eth0].addresses[{sample.pi().primary_address}]"
    assert {change.path for change in diff.changes} == {"", "interfaces[eth0]", address, "interfaces[eth0].cable"}
    assert spy.writes == []


def test_parts_that_are_not_wanted_any_more_go(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    sample.make(driver, pis=1)
    bare = sample.pi(addresses=[], cable=None)
    assert {(c.path, c.action) for c in driver.devices.diff(bare).changes} >= {
        ("interfaces[eth0].cable", "remove"),
        ("primary_address", "update"),
    }
    driver.devices.apply(bare)
    read = driver.devices.read(bare.key)
    assert read is not None
    assert read.record == bare
    assert spy.find(IP_ADDRESS, {}, "address", [str(sample.pi().primary_address)]) == []
    fewer = sample.vlan(ranges=[])
    driver.vlans.apply(fewer)
    assert spy.find(IP_RANGE, {}, "start_address", [sample.vlan().ranges[0].start]) == []


def test_an_address_moves_to_another_interface(driver: NetBoxDriver, sample: Sample) -> None:
    sample.make(driver, pis=1)
    pi = sample.pi()
    address = pi.primary_address
    moved = pi.model_copy(
        update={
            "interfaces": (
                pi.interfaces[0].model_copy(update={"addresses": ()}),
                Interface(name="eth1", type="1000base-t", addresses=(address,)),
            )
        }
    )
    driver.devices.apply(moved)
    read = driver.devices.read(pi.key)
    assert read is not None
    assert read.record == moved
    assert driver.devices.apply(moved).changes == ()


def test_a_cable_moves_to_another_port(driver: NetBoxDriver, sample: Sample) -> None:
    sample.make(driver, pis=1)
    cable = sample.pi().interfaces[0].cable
    assert cable is not None
    other = sample.pi(cable=cable.model_copy(update={"interface": "Ethernet3"}))
    applied = driver.devices.apply(other)
    assert {(c.path, c.action) for c in applied.changes} == {("interfaces[eth0].cable", "update")}
    assert driver.devices.apply(other).changes == ()
    assert applied.observed.record == other


def test_a_device_leaves_with_a_status_and_is_then_gone(
    driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand
) -> None:
    """Status, then gone; and a status that another hand set is told and put right."""
    sample.make(driver, pis=1)
    leaving = sample.pi().model_copy(update={"status": "decommissioning"})
    assert [(c.path, c.before, c.after) for c in driver.devices.diff(leaving).changes] == [
        ("status", "active", "decommissioning")
    ]
    applied = driver.devices.apply(leaving)
    assert applied.observed.record == leaving
    assert applied.observed.other_drift == ()
    (record,) = marked(spy, DEVICE, f"{sample.name}/device/pi-01")
    patch(hand, DEVICE, record, status="offline")
    assert [(c.path, c.before, c.after) for c in driver.devices.diff(leaving).changes] == [
        ("status", "offline", "decommissioning")
    ]
    driver.devices.apply(leaving)
    assert driver.devices.delete(leaving.key).left == ()
    assert driver.devices.read(leaving.key) is None


def test_mode_of_a_port_can_be_taken_away(driver: NetBoxDriver, sample: Sample) -> None:
    sample.make(driver)
    switch = sample.switch()
    bare = switch.model_copy(
        update={
            "interfaces": tuple(
                one.model_copy(update={"mode": None, "untagged_vlan": None}) for one in switch.interfaces
            )
        }
    )
    driver.devices.apply(bare)
    assert driver.devices.apply(bare).changes == ()
    driver.devices.apply(switch)
    assert driver.devices.apply(switch).changes == ()


# --- drift ----------------------------------------------------------------------------------------------------------------


def test_a_renamed_vlan_is_found_and_named_again(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    sample.make(driver)
    vlan = marked(spy, VLAN, f"{sample.name}/vlan/edge")[0]
    patch(hand, VLAN, vlan, name="renamed by hand")
    read = driver.vlans.read(f"{sample.name}/edge")
    assert read is not None
    assert read.record.name == "renamed by hand"
    switch = driver.devices.read(f"{sample.name}/tor-1")
    assert switch is not None
    assert switch.record == sample.switch(), "the rename is the VLAN's drift, not each port's"
    (change,) = driver.vlans.diff(sample.vlan()).changes
    assert (change.path, change.before, change.after) == ("name", "renamed by hand", "edge")
    driver.vlans.apply(sample.vlan())
    assert identity(marked(spy, VLAN, f"{sample.name}/vlan/edge")[0]) == identity(vlan)
    assert driver.vlans.apply(sample.vlan()).changes == ()


def test_hidden_drift_is_told_and_repaired(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    sample.make(driver)
    vlan = marked(spy, VLAN, f"{sample.name}/vlan/edge")[0]
    patch(hand, VLAN, vlan, status="reserved")
    read = driver.vlans.read(f"{sample.name}/edge")
    assert read is not None
    assert len(read.other_drift) == 1
    assert not driver.vlans.diff(sample.vlan()).empty
    applied = driver.vlans.apply(sample.vlan())
    assert applied.observed.other_drift == ()


def test_a_deleted_prefix_comes_back(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    sample.make(driver)
    prefix = only(spy, PREFIX, "prefix", sample.vlan().prefixes[0].prefix)
    hand.delete(PREFIX, [identity(prefix)], ["*"])
    read = driver.vlans.read(f"{sample.name}/edge")
    assert read is not None
    assert read.record.prefixes == ()
    driver.vlans.apply(sample.vlan())
    assert only(spy, PREFIX, "prefix", sample.vlan().prefixes[0].prefix)


def test_a_cable_that_lost_an_end_is_mended(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    """NetBox leaves a cable in place when an interface at one end is deleted, with nothing there."""
    sample.make(driver, pis=1)
    port = marked(spy, INTERFACE, f"{sample.name}/device/tor-1/interface/Ethernet1")[0]
    hand.delete(INTERFACE, [identity(port)], ["*"])
    cable = marked(spy, CABLE, f"{sample.name}/device/pi-01/cable/eth0")[0]
    assert cable["b_terminations"] == []
    read = driver.devices.read(f"{sample.name}/pi-01")
    assert read is not None
    assert read.record.interfaces[0].cable is None
    driver.devices.lists.apply([sample.switch(), sample.pi()])
    assert driver.devices.apply(sample.pi()).observed.record == sample.pi()
    assert len(marked(spy, CABLE, f"{sample.name}/device/pi-01/cable/eth0")) == 1


def test_scope_is_written_as_a_pair(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    """`scope_type` alone would keep the old number, which then names another object."""
    sample.make(driver)
    prefix = only(spy, PREFIX, "prefix", sample.vlan().prefixes[0].prefix)
    patch(hand, PREFIX, prefix, scope_type=None, scope_id=None)
    spy.writes.clear()
    driver.vlans.apply(sample.vlan())
    (write,) = spy.writes
    assert set(write.bodies[0]) == {"id", "scope_type", "scope_id"}
    assert driver.vlans.apply(sample.vlan()).changes == ()


# --- what is not ours -------------------------------------------------------------------------------------------------------


def foreign_vlan(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> Record:
    """A VLAN in the site's group that Pinion did not make."""
    driver.sites.apply(sample.site())
    group = only(spy, VLAN_GROUP, "slug", sample.name)
    return hand.create(VLAN, [{"vid": 101, "name": "made by hand", "group": identity(group)}])[0]


def test_what_exists_is_refused_unless_adopted(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    vlan = foreign_vlan(driver, sample, spy, hand)
    diff = driver.vlans.diff(sample.vlan())
    assert diff.exists
    assert [conflict.url for conflict in diff.conflicts] == [vlan["display_url"]]
    with pytest.raises(ExistsError, match="exists already") as refused:
        driver.vlans.apply(sample.vlan())
    assert refused.value.url == vlan["display_url"]
    assert refused.value.unit == sample.vlan().key
    assert driver.vlans.diff(sample.vlan(), adopt=True).conflicts == ()
    applied = driver.vlans.apply(sample.vlan(), adopt=True)
    assert applied.observed.owner == "adopted"
    assert applied.observed.ids["vlan"] == identity(vlan)
    assert driver.vlans.apply(sample.vlan()).changes == (), "once adopted, it needs no leave"


def test_adopted_things_outlive_us(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    vlan = foreign_vlan(driver, sample, spy, hand)
    driver.vlans.apply(sample.vlan(), adopt=True)
    deleted = driver.vlans.delete(sample.vlan().key)
    assert len(deleted.deleted) == 2, "its prefix and its range were ours"
    assert [left.url for left in deleted.left] == [vlan["display_url"]]
    after = only(spy, VLAN, "id", str(identity(vlan)))
    assert after["tags"] == []
    assert after["custom_fields"][MARK] is None
    hand.delete(VLAN, [identity(vlan)], ["*"])


_HANDED_OVER: dict[str, dict[str, JsonValue]] = {
    "tag": {"remove_tags": [{"slug": TAG}]},
    "field": {"custom_fields": {MARK: None}},
}


@pytest.mark.parametrize("what", _HANDED_OVER)
def test_taking_off_tag_or_field_hands_an_object_over(
    driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand, what: str
) -> None:
    """It takes both to be ours: without either an object is refused, kept and named, as what we never made."""
    sample.make(driver, pis=1)
    vlan = marked(spy, VLAN, f"{sample.name}/vlan/edge")[0]
    device = marked(spy, DEVICE, f"{sample.name}/device/pi-01")[0]
    for kind, record in ((VLAN, vlan), (DEVICE, device)):
        patch(hand, kind, record, **_HANDED_OVER[what])
    for units, wish in ((driver.vlans, sample.vlan()), (driver.devices, sample.pi())):
        read = units.read(wish.key)  # type: ignore[attr-defined]
        assert read is not None
        assert read.owner == "foreign"
        with pytest.raises(ExistsError, match="not Pinion's"):
            units.apply(wish)  # type: ignore[attr-defined]
    for units, key, record in (
        (driver.devices, sample.pi().key, device),
        (driver.vlans, sample.vlan().key, vlan),
        (driver.vlans, sample.vlan().key, vlan),
    ):
        left = units.delete(key).left  # type: ignore[attr-defined]
        assert [one.url for one in left if one.url == record["display_url"]] == [record["display_url"]], left
    assert only(spy, VLAN, "id", str(identity(vlan)))
    assert only(spy, DEVICE, "id", str(identity(device)))
    hand.delete(DEVICE, [identity(device)], ["*"])
    hand.delete(VLAN, [identity(vlan)], ["*"])


def test_a_part_that_was_handed_over_stays_when_its_unit_goes(
    driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand
) -> None:
    sample.make(driver)
    ours = marked(spy, IP_RANGE, f"{sample.name}/vlan/edge/range/pis")[0]
    patch(hand, IP_RANGE, ours, remove_tags=[{"slug": TAG}])
    left = driver.vlans.delete(sample.vlan().key).left
    assert [one.url for one in left] == [ours["display_url"]]
    assert "tag" in left[0].reason
    assert only(spy, IP_RANGE, "id", str(identity(ours)))
    hand.delete(IP_RANGE, [identity(ours)], ["*"])


def test_a_vlan_of_the_site_in_no_group_is_known(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    driver.sites.apply(sample.site())
    site = only(spy, SITE, "slug", sample.name)
    vlan = hand.create(VLAN, [{"vid": 101, "name": "old", "site": identity(site)}])[0]
    with pytest.raises(ExistsError):
        driver.vlans.apply(sample.vlan())
    assert driver.vlans.apply(sample.vlan(), adopt=True).observed.ids["vlan"] == identity(vlan)


def test_foreign_units_can_be_read_for_import(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    sample.make(driver, pis=1)
    for kind in (DEVICE, INTERFACE, IP_ADDRESS, CABLE):
        for record in spy.find(kind, {}, f"cf_{MARK}__isw", [f"{sample.name}/device/pi-01"]):
            patch(hand, kind, record, remove_tags=[{"slug": TAG}], custom_fields={MARK: None})
    read = driver.devices.read(f"{sample.name}/pi-01")
    assert read is not None
    assert read.owner == "foreign"
    assert read.record == sample.pi()
    with pytest.raises(ExistsError):
        driver.devices.apply(sample.pi())
    adopted = driver.devices.apply(sample.pi(), adopt=True)
    assert adopted.observed.owner == "adopted"
    ids = adopted.observed.ids
    left = driver.devices.delete(sample.pi().key).left
    assert {one.object.split()[0] for one in left} >= {"device", "interface", "cable"}
    hand.delete(CABLE, [ids["cable eth0"]], ["*"])
    hand.delete(DEVICE, [ids["device"]], ["*"])


def test_shared_catalogue_objects_are_used_as_found(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    from pinion.drivers.netbox.kinds import MANUFACTURER

    maker = hand.create(MANUFACTURER, [{"name": "Acme by hand", "slug": f"acme-{sample.name}"}])[0]
    driver.sites.apply(sample.site())
    assert only(spy, MANUFACTURER, "id", str(identity(maker)))["name"] == "Acme by hand"
    driver.sites.delete(sample.name)
    assert only(spy, MANUFACTURER, "id", str(identity(maker)))
    hand.delete(MANUFACTURER, [identity(maker)], ["*"])


# --- delete ---------------------------------------------------------------------------------------------------------------


def test_delete_leaves_nothing_and_twice_is_fine(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    sample.make(driver, pis=2)
    for key in (
        f"{sample.name}/tor-1",
        f"{sample.name}/pi-01",
        f"{sample.name}/pi-02",
    ):  # the switch first: its cables belong to the Pis
        assert driver.devices.delete(key).left == ()
        assert driver.devices.delete(key) == type(driver.devices.delete(key))((), ())
    assert driver.vlans.delete(f"{sample.name}/edge").left == ()
    assert driver.sites.delete(sample.name).left == ()
    for kind in (SITE, VLAN, PREFIX, DEVICE, INTERFACE, IP_ADDRESS, CABLE):
        assert spy.find(kind, {}, f"cf_{MARK}__isw", [f"{sample.name}/"]) == [], kind


def test_a_site_in_use_stays_and_says_why(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    sample.make(driver)
    left = driver.sites.delete(sample.name).left
    assert any(one.object.startswith("site") for one in left)
    assert all(one.reason for one in left)
    assert only(spy, SITE, "slug", sample.name)
    assert only(spy, PREFIX, "prefix", sample.vlan().prefixes[0].prefix), (
        "deleting a site would have taken its prefixes along"
    )
    driver.sites.apply(sample.site())


def test_a_strangers_prefix_keeps_the_site(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    driver.sites.apply(sample.site())
    site = only(spy, SITE, "slug", sample.name)
    stranger = hand.create(
        PREFIX, [{"prefix": f"12.{sample.net}.0/24", "scope_type": "dcim.site", "scope_id": identity(site)}]
    )[0]
    left = driver.sites.delete(sample.name).left
    assert any("12." in one.reason for one in left)
    assert only(spy, PREFIX, "id", str(identity(stranger)))
    hand.delete(PREFIX, [identity(stranger)], ["*"])


def test_a_strangers_address_keeps_the_device(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    sample.make(driver, pis=1)
    port = marked(spy, INTERFACE, f"{sample.name}/device/pi-01/interface/eth0")[0]
    body = {
        "address": f"12.{sample.net}.1/32",
        "assigned_object_type": "dcim.interface",
        "assigned_object_id": identity(port),
    }
    stranger = hand.create(IP_ADDRESS, [body])[0]
    left = driver.devices.delete(sample.pi().key).left
    assert any("not made by Pinion" in one.reason for one in left)
    assert only(spy, IP_ADDRESS, "id", str(identity(stranger)))
    hand.delete(IP_ADDRESS, [identity(stranger)], ["*"])


# --- errors by object -------------------------------------------------------------------------------------------------------


def test_one_bad_unit_does_not_stop_the_others(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    driver.sites.apply(sample.site())
    group = only(spy, VLAN_GROUP, "slug", sample.name)
    hand.update(VLAN_GROUP, [{"id": identity(group), "description": "x"}], ["*"])
    good, other = sample.vlan(), VlanRecord(site=sample.name, name="control", vid=100)
    bad = VlanRecord(site=sample.name, name="bad", vid=102, prefixes=(Prefix(prefix=good.prefixes[0].prefix),))
    results = driver.vlans.lists.apply([good, bad, other])
    assert [isinstance(one, ExistsError | RefusedError) for one in results] == [False, True, False]
    assert sample.name in str(results[1]) or good.prefixes[0].prefix in str(results[1])
    driver.vlans.delete(bad.key)


def test_a_missing_reference_is_named(driver: NetBoxDriver, sample: Sample) -> None:
    driver.sites.apply(sample.site())
    with pytest.raises(MissingError, match="VLAN edge"):
        driver.devices.apply(sample.switch())
    with pytest.raises(MissingError, match="interface Ethernet1 of tor-1"):
        driver.devices.apply(sample.pi())


def test_unknown_names_never_leave_the_process(spy: Spy, hand: Hand) -> None:
    with pytest.raises(UnknownNameError):
        spy.find(VLAN, {"bogus": "1"})
    with pytest.raises(UnknownNameError):
        hand.create(PREFIX, [{"prefix": "10.9.9.0/24", "site": 1}])


def test_stale_versions_are_refused(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    """Equal values move the version too, which is why we never send them."""
    from pinion.drivers.netbox.errors import ChangedError

    driver.sites.apply(sample.site())
    site = only(spy, SITE, "slug", sample.name)
    old = etag(site)
    assert old is not None
    newer = patch(hand, SITE, site, description="")
    assert etag(newer) != old
    with pytest.raises(ChangedError):
        hand.update(SITE, [{"id": identity(site), "description": "lost"}], [old])
    with pytest.raises(ChangedError):
        hand.delete(SITE, [identity(site)], [old])


def test_what_another_hand_changed_meanwhile_is_not_lost(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    """The driver may still believe the old listing: its write names the version it was decided on, is refused, and is decided anew."""
    sample.make(driver)
    assert driver.vlans.read(f"{sample.name}/edge") is not None
    vlan = marked(spy, VLAN, f"{sample.name}/vlan/edge")[0]
    spy.store.update(VLAN, [{"id": identity(vlan), "role": None}], ["*"])
    driver.vlans.apply(sample.vlan(description="other"))
    driver.forget()
    assert driver.vlans.diff(sample.vlan(description="other")).empty


# --- many at once ----------------------------------------------------------------------------------------------------------


def test_many_threads_share_bulk_calls(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    sample.make(driver)
    pis = [sample.pi(n) for n in range(1, 5)]
    spy.writes.clear()
    with ThreadPoolExecutor(len(pis)) as pool:
        results = list(pool.map(driver.devices.apply, pis))
    assert [one.observed.record for one in results] == pis
    creates = [write for write in spy.writes if write.method == "POST" and write.kind is DEVICE]
    assert sum(len(write.bodies) for write in creates) == len(pis)
    assert len(creates) < len(pis), "none of the calls were put together"
    spy.writes.clear()
    with ThreadPoolExecutor(len(pis)) as pool:
        assert [one.changes for one in pool.map(driver.devices.apply, pis)] == [()] * len(pis)
    assert spy.writes == []


def test_two_drivers_that_race_make_one_of_each(
    driver: NetBoxDriver, rival: NetBoxDriver, sample: Sample, spy: Spy
) -> None:
    driver.sites.apply(sample.site())
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(one.vlans.apply, sample.vlan()) for one in (driver, rival)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    assert errors == []
    assert len(spy.find(PREFIX, {}, "prefix", [sample.vlan().prefixes[0].prefix])) == 1
    assert len(spy.find(IP_RANGE, {}, "start_address", [sample.vlan().ranges[0].start])) == 1
    assert len(marked(spy, VLAN, f"{sample.name}/vlan/edge")) == 1
    assert driver.vlans.apply(sample.vlan()).changes == ()


def test_the_driver_keeps_its_promise_after_a_lost_answer(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    """The POST was done, its answer was lost: looking again finds it, and nothing is made twice."""
    driver.sites.apply(sample.site())
    for kind in (VLAN, PREFIX, IP_RANGE):
        spy.lose_answer("POST", kind)
    applied = driver.vlans.apply(sample.vlan())
    assert applied.observed.record == sample.vlan()
    assert {change.action for change in applied.changes} == {"add"}
    assert len(applied.changes) == 3
    for kind, name, value in (
        (PREFIX, "prefix", sample.vlan().prefixes[0].prefix),
        (IP_RANGE, "start_address", sample.vlan().ranges[0].start),
    ):
        assert len(spy.find(kind, {}, name, [value])) == 1
    spy.lose_answer("PATCH", VLAN)
    driver.vlans.apply(sample.vlan(description="other"))
    spy.lose_answer("DELETE", VLAN)
    assert driver.vlans.delete(sample.vlan().key).left == ()
    assert driver.vlans.read(sample.vlan().key) is None


def test_doubles_are_told_and_dropped(driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand) -> None:
    """Where NetBox's check is no lock, a lost race leaves two with our mark: the lowest id stays."""
    sample.make(driver)
    ours = marked(spy, IP_RANGE, f"{sample.name}/vlan/edge/range/pis")[0]
    host = sample.vlan().prefixes[0].prefix.removesuffix("0/24")
    twin = {"start_address": f"{host}10/24", "end_address": f"{host}11/24", "tags": [{"slug": TAG}]}
    hand.create(IP_RANGE, [{**twin, "custom_fields": {MARK: f"{sample.name}/vlan/edge/range/pis"}}])
    read = driver.vlans.read(f"{sample.name}/edge")
    assert read is not None
    assert read.record == sample.vlan()
    assert len(read.other_drift) == 1
    driver.vlans.apply(sample.vlan())
    assert [identity(one) for one in marked(spy, IP_RANGE, f"{sample.name}/vlan/edge/range/pis")] == [identity(ours)]


def test_a_create_that_the_server_is_still_at_is_waited_for(driver: NetBoxDriver, sample: Sample, spy: Spy) -> None:
    """Our POST timed out, the look-up found nothing yet, and by the second POST the first has got through."""
    driver.sites.apply(sample.site())
    spy.delay_effect("POST", VLAN)
    applied = driver.vlans.apply(sample.vlan())
    assert applied.observed.record == sample.vlan()
    assert len(marked(spy, VLAN, f"{sample.name}/vlan/edge")) == 1
