"""What others hang on our objects keeps them: nothing foreign goes when something of ours is deleted. Part of the driver's contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from pydantic import JsonValue

from netbox_contract.contract import marked, only, patch
from netbox_contract.others import Others
from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy
from pinion.drivers.netbox import DeniedError, NetBoxDriver, RefusedError
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    DEVICE_TYPE,
    INTERFACE,
    IP_ADDRESS,
    MANUFACTURER,
    PREFIX,
    RACK,
    SITE,
    TAG,
    VLAN,
    VLAN_GROUP,
    Kind,
)
from pinion.drivers.netbox.kinds.values import Body, Record, identity, page
from pinion.drivers.netbox.results import Deleted


@dataclass(frozen=True)
class Made:
    """A site with a VLAN, a switch and a Pi in NetBox, and another hand."""

    driver: NetBoxDriver
    sample: Sample
    spy: Spy
    others: Others

    def one(self, kind: Kind, rest: str) -> Record:
        """The record with the mark *rest* below the site's."""
        (found,) = marked(self.spy, kind, f"{self.sample.name}/{rest}")
        return found

    def id(self, kind: Kind, rest: str) -> int:
        return identity(self.one(kind, rest))

    def delete(self, kind: Kind) -> Deleted:
        """Delete the unit of which *kind* is the main object."""
        if kind is DEVICE:
            return self.driver.devices.delete(f"{self.sample.name}/pi-01")
        if kind is VLAN:
            return self.driver.vlans.delete(f"{self.sample.name}/edge")
        return self.driver.sites.delete(self.sample.name)


@pytest.fixture
def made(driver: NetBoxDriver, sample: Sample, spy: Spy, others: Others) -> Made:
    sample.make(driver, pis=1)
    return Made(driver, sample, spy, others)


def _all(made: Made) -> Deleted:
    """Delete the whole site, devices first."""
    for name in ("pi-01", "tor-1"):
        made.driver.devices.delete(f"{made.sample.name}/{name}")
    made.driver.vlans.delete(f"{made.sample.name}/edge")
    return made.delete(SITE)


@dataclass(frozen=True)
class Hung:
    """What a stranger hangs on something of ours: *path* of its list, its *fields*, what *names* ours.

    *deletion*: main kind of the unit whose deletion would take it along; *kind*, *rest*: the object of ours that must stay.
    """

    path: str
    fields: Mapping[str, JsonValue]
    names: Callable[[Made], Body]
    deletion: Kind
    kind: Kind
    rest: str

    def hang(self, made: Made) -> Record:
        """Hang it there."""
        return made.others.hang(self.path, {**self.fields, **self.names(made)})


_PI, _PORT, _CABLE = "device/pi-01", "device/pi-01/interface/eth0", "device/pi-01/cable/eth0"


def _part(made: Made) -> Body:
    return {"device": made.id(DEVICE, _PI), "name": "by hand"}


def _on(kind: Kind, rest: str, stem: str) -> Callable[[Made], Body]:
    return lambda made: {f"{stem}_type": kind.content_type, f"{stem}_id": made.id(kind, rest)}


def _on_address(made: Made) -> Body:
    return _on(IP_ADDRESS, f"{_PI}/address/{made.sample.pi().primary_address}", "assigned_object")(made)


def _of(field: str, kind: Kind, slug: str) -> Callable[[Made], Body]:
    return lambda made: {field: identity(only(made.spy, kind, "slug", slug.format(name=made.sample.name)))}


def _on_group(made: Made) -> Body:
    group = only(made.spy, VLAN_GROUP, "slug", made.sample.name)
    return {"assigned_object_type": VLAN_GROUP.content_type, "assigned_object_id": identity(group)}


def _on_device(path: str, **fields: JsonValue) -> Hung:
    return Hung(path, fields, _part, DEVICE, DEVICE, _PI)


def _entry(names: Callable[[Made], Body], deletion: Kind, kind: Kind, rest: str) -> Hung:
    return Hung("extras/journal-entries", {"comments": "by hand"}, names, deletion, kind, rest)


def _journal(deletion: Kind, kind: Kind, rest: str, keeps: tuple[Kind, str] | None = None) -> Hung:
    return _entry(_on(kind, rest, "assigned_object"), deletion, *(keeps or (kind, rest)))


_SERVICE: Mapping[str, JsonValue] = {"name": "by hand", "protocol": "tcp", "ports": [80]}
_RESERVED: Mapping[str, JsonValue] = {"units": [7], "user": 1, "description": "by hand"}
_HERE: Mapping[str, JsonValue] = {"name": "by hand", "slug": "by-hand"}
_MAKER, _MODEL = "site/manufacturer/acme-{name}", "site/device-type/acme-{name}/box-{name}"

HUNG: dict[str, Hung] = {
    "inventory item": _on_device("dcim/inventory-items"),
    "console port": _on_device("dcim/console-ports"),
    "power port": _on_device("dcim/power-ports"),
    "module bay": _on_device("dcim/module-bays"),
    "gauge of a plugin": _on_device("plugins/gauges/gauges"),
    "reading of a plugin": Hung(
        "plugins/gauges/readings", {"name": "by hand"}, _on(INTERFACE, _PORT, "measured"), DEVICE, DEVICE, _PI
    ),
    "service": Hung("ipam/services", _SERVICE, _on(DEVICE, _PI, "parent_object"), DEVICE, DEVICE, _PI),
    "journal entry": _journal(DEVICE, DEVICE, _PI),
    "journal entry of an interface": _journal(DEVICE, INTERFACE, _PORT, (DEVICE, _PI)),
    "journal entry of an address": _entry(_on_address, DEVICE, DEVICE, _PI),
    "journal entry of a cable": _journal(DEVICE, CABLE, _CABLE),
    "journal entry of a VLAN": _journal(VLAN, VLAN, "vlan/edge"),
    "journal entry of a rack": _journal(SITE, RACK, "site/rack/r1", (SITE, "site")),
    "journal entry of a VLAN group": _entry(_on_group, SITE, SITE, "site"),
    "rack reservation": Hung(
        "dcim/rack-reservations", _RESERVED, lambda made: {"rack": made.id(RACK, "site/rack/r1")}, SITE, SITE, "site"
    ),
    "location": Hung("dcim/locations", _HERE, lambda made: {"site": made.id(SITE, "site")}, SITE, SITE, "site"),
    "module type": Hung(
        "dcim/module-types", {"model": "by hand"}, _of("manufacturer", MANUFACTURER, "acme-{name}"), SITE, MANUFACTURER, _MAKER
    ),
    "template of a device type": Hung(
        "dcim/console-port-templates", {"name": "by hand"}, _of("device_type", DEVICE_TYPE, "box-{name}"), SITE, DEVICE_TYPE, _MODEL
    ),
}  # fmt: skip


def _need(others: Others, path: str) -> None:
    if not others.serves(path):
        pytest.skip(f"this NetBox has no {path}")


def _make(driver: NetBoxDriver, sample: Sample, deletion: Kind) -> None:
    """What a deletion of the unit needs to be there."""
    if deletion is DEVICE:
        sample.make(driver, pis=1)
        return
    driver.sites.apply(sample.site())
    if deletion is VLAN:
        driver.vlans.apply(sample.vlan())


@pytest.mark.parametrize("what", HUNG)
def test_what_others_hang_on_an_object_keeps_it(
    driver: NetBoxDriver, sample: Sample, spy: Spy, others: Others, what: str
) -> None:
    hung = HUNG[what]
    _need(others, hung.path)
    _make(driver, sample, hung.deletion)
    made = Made(driver, sample, spy, others)
    stranger = hung.hang(made)
    deleted = made.delete(hung.deletion)
    assert others.there(hung.path, stranger), f"{what} was deleted along"
    assert made.one(hung.kind, hung.rest.format(name=sample.name))
    told = [one for one in deleted.left if str(page(stranger)) in one.reason]
    assert told, deleted.left
    assert all("Move or delete" in one.reason for one in told)
    others.take(hung.path, stranger)
    assert made.delete(hung.deletion).left == ()


@pytest.mark.parametrize("deletion", [DEVICE, VLAN, SITE], ids=lambda kind: kind.name)
def test_all_that_others_hang_on_a_unit_at_once_stays_and_is_named(
    driver: NetBoxDriver, sample: Sample, spy: Spy, others: Others, deletion: Kind
) -> None:
    _make(driver, sample, deletion)
    made = Made(driver, sample, spy, others)
    hung = {
        what: (one.path, one.hang(made))
        for what, one in HUNG.items()
        if one.deletion is deletion and others.serves(one.path)
    }
    deleted = made.delete(deletion)
    assert {what: others.there(path, one) for what, (path, one) in hung.items()} == dict.fromkeys(hung, True)
    told = " ".join(one.reason for one in deleted.left)
    assert [what for what, (_, one) in hung.items() if str(page(one)) not in told] == []
    for path, one in hung.values():
        others.take(path, one)
    assert made.delete(deletion).left == ()


def test_a_strangers_interface_and_what_is_on_it_keep_the_device(made: Made, hand: Hand) -> None:
    body: Body = {"device": made.id(DEVICE, _PI), "name": "by-hand", "type": "virtual"}
    stranger = hand.create(INTERFACE, [body])[0]
    deleted = made.delete(DEVICE)
    assert only(made.spy, INTERFACE, "id", str(identity(stranger)))
    assert [one.again for one in deleted.left] == [True]
    assert str(page(stranger)) in deleted.left[0].reason
    hand.delete(INTERFACE, [identity(stranger)], ["*"])
    assert made.delete(DEVICE).left == ()


def test_what_was_there_before_us_keeps_what_we_made(made: Made, hand: Hand) -> None:
    """An address that was adopted, on a device that we made: NetBox would take it along."""
    from pinion.drivers.netbox.kinds import ADOPTED

    address = made.one(IP_ADDRESS, f"device/pi-01/address/{made.sample.pi().primary_address}")
    patch(hand, IP_ADDRESS, address, custom_fields={ADOPTED: True})
    made.delete(DEVICE)
    assert only(made.spy, IP_ADDRESS, "id", str(identity(address)))
    assert made.one(DEVICE, _PI)
    hand.delete(IP_ADDRESS, [identity(address)], ["*"])
    assert made.delete(DEVICE).left == ()


def test_a_device_that_stays_keeps_its_site(made: Made) -> None:
    stranger = made.others.hang("dcim/inventory-items", _part(made))
    deleted = _all(made)
    assert made.others.there("dcim/inventory-items", stranger)
    (site,) = [one for one in deleted.left if one.object.startswith("site ")]
    assert str(page(made.one(DEVICE, _PI))) in site.reason
    made.others.take("dcim/inventory-items", stranger)
    assert _all(made).left == ()


def test_the_tag_taken_off_hands_the_object_over_with_what_hangs_on_it(made: Made, hand: Hand) -> None:
    """What the message says to do."""
    stranger = made.others.hang("dcim/inventory-items", _part(made))
    patch(hand, DEVICE, made.one(DEVICE, _PI), remove_tags=[{"slug": TAG}])
    assert [one.again for one in made.delete(DEVICE).left if one.object.startswith("device ")] == [False]
    assert made.others.there("dcim/inventory-items", stranger)
    (device,) = made.spy.find(DEVICE, {}, "name", ["pi-01"])[-1:]
    hand.delete(DEVICE, [identity(device)], ["*"])


# --- parts that are not wanted any more -------------------------------------------------------------------------------------


def test_a_part_that_is_not_wanted_any_more_stays_with_what_hangs_on_it(made: Made) -> None:
    """An interface leaves the site file; somebody has written about it."""
    made.driver.devices.apply(made.sample.switch(3))
    port = f"{made.sample.name}/device/tor-1/interface/Ethernet3"
    (record,) = marked(made.spy, INTERFACE, port)
    entry = made.others.hang(
        "extras/journal-entries",
        {"comments": "by hand", "assigned_object_type": "dcim.interface", "assigned_object_id": identity(record)},
    )
    made.driver.forget()
    with pytest.raises(RefusedError, match="Move or delete") as foreseen:
        made.driver.devices.diff(made.sample.switch(2))
    with pytest.raises(RefusedError, match="Move or delete") as refused:
        made.driver.devices.apply(made.sample.switch(2))
    for error in (foreseen, refused):
        assert str(page(entry)) in str(error.value)
    assert made.others.there("extras/journal-entries", entry)
    assert marked(made.spy, INTERFACE, port)
    made.others.take("extras/journal-entries", entry)
    made.driver.devices.apply(made.sample.switch(2))
    assert not marked(made.spy, INTERFACE, port)


def test_a_prefix_and_a_rack_that_are_not_wanted_any_more_stay_with_what_hangs_on_them(made: Made) -> None:
    made.driver.sites.apply(made.sample.site(racks=[{"name": "r1", "units": 42}, {"name": "r2", "units": 42}]))
    prefix = only(made.spy, PREFIX, "prefix", made.sample.vlan().prefixes[0].prefix)
    cases = [
        (PREFIX, identity(prefix), lambda: made.driver.vlans.apply(made.sample.vlan(prefixes=[], ranges=[]))),
        (RACK, made.id(RACK, "site/rack/r2"), lambda: made.driver.sites.apply(made.sample.site())),
    ]
    for kind, number, apply in cases:
        body: Body = {"assigned_object_type": kind.content_type, "assigned_object_id": number, "comments": "by hand"}
        entry = made.others.hang("extras/journal-entries", body)
        with pytest.raises(RefusedError, match="journal entry"):
            apply()
        assert made.others.there("extras/journal-entries", entry)
        made.others.take("extras/journal-entries", entry)
        apply()
        assert made.spy.find(kind, {}, "id", [str(number)]) == []


def test_cables_that_must_make_room_stay_with_what_hangs_on_them(made: Made) -> None:
    """Two devices exchange ports: NetBox can't move a cable aside, and deleting one would delete what was written about it."""
    made.driver.devices.apply(made.sample.pi(2))
    cables = [f"device/{pi}/cable/eth0" for pi in ("pi-01", "pi-02")]
    entries = [_journal(DEVICE, CABLE, rest).hang(made) for rest in cables]
    ports = [made.sample.pi(number).interfaces[0].cable for number in (2, 1)]
    exchanged = [made.sample.pi(number, cable=port) for number, port in zip((1, 2), ports, strict=True)]
    results = made.driver.devices.lists.apply(exchanged)
    assert any("journal entry" in str(one) for one in results if isinstance(one, RefusedError)), results
    assert [made.others.there("extras/journal-entries", one) for one in entries] == [True, True]
    for one in entries:
        made.others.take("extras/journal-entries", one)
    assert [one for one in made.driver.devices.lists.apply(exchanged) if isinstance(one, Exception)] == []


# --- what must not keep anything ---------------------------------------------------------------------------------------------


def _number(record: Record, name: str) -> JsonValue:
    value = record[name]
    assert isinstance(value, dict)
    return value["id"]


def test_what_netbox_only_blanks_keeps_nothing(made: Made, hand: Hand) -> None:
    """A VLAN of ours on a port of somebody's: the port loses it and stays."""
    ours = made.one(DEVICE, _PI)
    body: Body = {"name": "by hand", "site": made.id(SITE, "site")}
    theirs = hand.create(DEVICE, [{**body, **{name: _number(ours, name) for name in ("role", "device_type")}}])[0]
    port = hand.create(INTERFACE, [{
        "device": identity(theirs), "name": "x", "type": "virtual", "mode": "access", "untagged_vlan": made.id(VLAN, "vlan/edge"),
    }])[0]  # fmt: skip
    assert made.delete(VLAN).left == ()
    assert only(made.spy, INTERFACE, "id", str(identity(port)))["untagged_vlan"] is None
    hand.delete(DEVICE, [identity(theirs)], ["*"])


def test_what_netbox_made_from_a_template_goes_with_the_device_unless_somebody_touched_it(
    driver: NetBoxDriver, sample: Sample, spy: Spy, others: Others
) -> None:
    driver.sites.apply(sample.site())
    model = identity(only(spy, DEVICE_TYPE, "slug", f"box-{sample.name}"))
    for name in ("console", "second"):
        others.hang("dcim/console-port-templates", {"device_type": model, "name": name})
    made = Made(driver, sample, spy, others)
    sample.make(driver, pis=1)
    ports = _ports(made)
    assert sorted(str(one["name"]) for one in ports) == ["console", "second"]
    others.change("dcim/console-ports", ports[0], {"description": "somebody's"})
    deleted = driver.devices.delete(sample.pi().key)
    (left,) = deleted.left
    assert str(page(ports[0])) in left.reason
    assert str(page(ports[1])) not in left.reason
    assert [others.there("dcim/console-ports", one) for one in ports] == [True, True]
    others.take("dcim/console-ports", ports[0])
    assert driver.devices.delete(sample.pi().key).left == ()
    assert not others.there("dcim/console-ports", ports[1])


def _ports(made: Made) -> list[Record]:
    query = [("device_id", str(made.id(DEVICE, _PI)))]
    return made.spy.listing("dcim/console-ports", query)


# --- what can't be asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["dcim.inventoryitem", "extras.journalentry", "pinion_gauges.gauge"])
def test_without_the_right_to_see_a_kind_nothing_is_deleted_and_the_right_is_named(
    made: Made, content_type: str
) -> None:
    app, _, model = content_type.partition(".")
    if app == "pinion_gauges":
        _need(made.others, "plugins/gauges/gauges")
    made.driver.forget()
    made.spy.writes.clear()
    with made.others.hidden(content_type):
        with pytest.raises(DeniedError, match=rf"{app}\.view_{model}") as refused:
            made.delete(DEVICE)
        assert "nothing is deleted" in str(refused.value)
    assert made.spy.writes == []
    assert made.delete(DEVICE).left == ()


def test_without_the_right_to_see_a_kind_no_part_is_deleted_and_other_units_go_on(made: Made) -> None:
    made.spy.writes.clear()
    with made.others.hidden("extras.journalentry"):
        results = made.driver.devices.lists.apply([made.sample.switch(2), made.sample.pi(2, cable=None)])
    assert isinstance(results[0], DeniedError)
    assert "extras.view_journalentry" in str(results[0])
    assert not isinstance(results[1], Exception), results[1]
    assert "DELETE" not in {write.method for write in made.spy.writes}


def test_deletions_that_come_together_ask_together(made: Made) -> None:
    """A device or twenty: as many lists are asked."""
    made.driver.devices.lists.apply([made.sample.pi(n) for n in range(2, 6)])
    before = made.spy.reads
    made.driver.devices.lists.delete([f"{made.sample.name}/pi-01"])
    one = made.spy.reads - before
    before = made.spy.reads
    made.driver.devices.lists.delete([f"{made.sample.name}/pi-{n:02d}" for n in range(2, 6)])
    assert made.spy.reads - before <= one
