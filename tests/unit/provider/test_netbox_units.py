"""`pinion:netbox:Site`, `Vlan` and `Device` over a real channel, with NetBox in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from doubles.netbox_store import MemoryStore
from doubles.plugin_engine import Client, partial_of, started
from pydantic import BaseModel

from pinion.drivers.netbox import NetBoxDriver, UnreachableError, device_record, site_records, vlan_record
from pinion.drivers.netbox.desired import DeviceRecord, SiteRecords, VlanRecord
from pinion.drivers.netbox.kinds import (
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS,
    PREFIX,
    SITE,
    VLAN,
    VLAN_GROUP,
    Kind,
)
from pinion.drivers.netbox.store import Body, Record, identity
from pinion.plan import Plan, plan
from pinion.provider import main as provider
from pinion.provider.main import PinionPlugin
from pinion.provider.netbox import IDENTITIES, LOST_MARK
from pinion.provider.plugin import Value
from pinion.provider.plugin.values import decode
from pinion.provider.shape import Shape
from pinion.site.loader import load

REPOSITORY = Path(__file__).parents[3]


@dataclass
class Records(PinionPlugin):
    """The provider, with NetBox in memory instead of a connection."""

    store: MemoryStore
    adopting: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def netbox_driver(self) -> NetBoxDriver:
        with self._lock:
            if self._netbox is None:
                self._netbox = NetBoxDriver.on(self.store, window=0.01)
            return self._netbox

    def adopts(self) -> bool:
        return self.adopting


@pytest.fixture(scope="module")
def lab() -> Plan:
    return plan(load(REPOSITORY / "inventories/lab/site.yml"))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def records(store: MemoryStore) -> Records:
    return Records(store)


@pytest.fixture
def client(records: Records) -> Iterator[Client]:
    with started(records) as client:
        yield client


@dataclass
class Unit:
    """One resource as the engine would keep it."""

    client: Client
    token: str
    name: str
    inputs: dict[str, Value]
    id: str = ""
    outputs: dict[str, Value] | None = None

    @property
    def state(self) -> dict[str, Value]:
        assert self.outputs is not None
        return self.outputs

    def create(self) -> dict[str, Value]:
        self.id, self.outputs = self.client.create(self.token, self.name, self.inputs)
        return self.outputs

    def foresee(self) -> str:
        before = len(self.client.engine.lines)
        self.client.create(self.token, self.name, self.inputs, preview=True)
        return "\n".join(f"{line.severity}: {line.message}" for line in self.client.engine.lines[before:])

    def diff(self, news: dict[str, Value] | None = None, **state: dict[str, Value]) -> dict[str, str]:
        known = {"old_inputs": self.inputs, "olds": self.state, **state}
        return self.client.diff(self.token, self.name, self.id, news=self.inputs if news is None else news, **known)

    def read(self) -> tuple[dict[str, Value], dict[str, Value]]:
        found = self.client.read(self.token, self.name, self.id, inputs=self.inputs, olds=self.outputs)
        assert found is not None
        return found

    def drift(self) -> dict[str, str]:
        """What a refresh would show: the way from what is there to what was declared."""
        inputs, outputs = self.read()
        return self.diff(old_inputs=inputs, olds=outputs)

    def update(self, news: dict[str, Value]) -> dict[str, Value]:
        self.outputs = self.client.update(
            self.token, self.name, self.id, old_inputs=self.inputs, olds=self.state, news=news
        )
        self.inputs = news
        return self.outputs

    def delete(self) -> None:
        self.client.delete(self.token, self.name, self.id, old_inputs=self.inputs, olds=self.state)


def _unit(client: Client, token: str, name: str, record: BaseModel, origin: str = "") -> Unit:
    shape = Shape(type(record), IDENTITIES)
    stated: dict[str, Value] = {**shape.properties(record), **({"origin": origin} if origin else {})}
    checked = client.check(token, name, stated)
    assert not checked.failures
    return Unit(client, token, name, decode(checked.inputs))


@pytest.fixture
def site(client: Client, lab: Plan) -> Unit:
    return _unit(client, provider.SITE, "lab", site_records(lab))


@pytest.fixture
def vlan(client: Client, lab: Plan) -> Unit:
    return _unit(client, provider.VLAN, "edge", vlan_record(lab, "edge-inference"), origin="networks.edge-inference")


@pytest.fixture
def vlans(client: Client, lab: Plan) -> list[Unit]:
    return [_unit(client, provider.VLAN, one.name, vlan_record(lab, one.name)) for one in lab.vlans]


def _device(client: Client, lab: Plan, name: str) -> Unit:
    return _unit(client, provider.DEVICE, name, device_record(lab, name), origin=lab.device(name).origin)


@pytest.fixture
def rack(client: Client, lab: Plan, site: Unit, vlans: list[Unit]) -> dict[str, Unit]:
    """The whole lab, made."""
    site.create()
    for vlan in vlans:
        vlan.create()
    units = {device.name: _device(client, lab, device.name) for device in lab.devices}
    units["tor-1"].create()
    for name, unit in units.items():
        if name != "tor-1":
            unit.create()
    return {"site": site, **{vlan.name: vlan for vlan in vlans}, **units}


def _one(store: MemoryStore, kind: Kind, **fields: object) -> Record:
    found = [
        record for record in store.find(kind, {}) if all(record.get(key) == value for key, value in fields.items())
    ]
    assert len(found) == 1, f"{len(found)} {kind.name}s with {fields}"
    return found[0]


def _by_hand(store: MemoryStore, kind: Kind, record: Record, **fields: Any) -> None:
    body: Body = {"id": identity(record), **fields}
    store.update(kind, [body], [])


def _count(store: MemoryStore) -> int:
    return sum(len(store.find(kind, {})) for kind in KINDS)


# --- create, nothing to do, preview -----------------------------------------------------------------------------------


def test_a_whole_rack_comes_and_a_second_look_finds_nothing(store: MemoryStore, rack: dict[str, Unit]) -> None:
    for unit in rack.values():
        assert unit.state["owner"] == "created"
        assert unit.diff() == {}
        assert unit.drift() == {}
    writes = len(store.writes)
    for unit in rack.values():
        unit.update(unit.inputs)
        unit.create()
    assert len(store.writes) == writes


def test_the_state_tells_where_and_what(rack: dict[str, Unit]) -> None:
    pi = rack["pi-01"]
    assert pi.id == "lab/pi-01"
    assert str(pi.state["url"]).startswith("memory://netbox")
    ids = pi.state["netbox_ids"]
    assert isinstance(ids, dict)
    assert {"device", "interface eth0"} <= set(ids)
    assert pi.state["interfaces"] == pi.inputs["interfaces"]


def test_a_preview_of_an_empty_netbox_says_nothing_and_writes_nothing(
    store: MemoryStore, site: Unit, vlan: Unit, client: Client, lab: Plan
) -> None:
    device = _device(client, lab, "pi-01")
    assert [
        unit.foresee() for unit in (site, vlan, device) if "ERROR" in unit.foresee() or "INFO" in unit.foresee()
    ] == []
    assert not store.writes


def test_a_preview_tells_what_exists_and_what_to_do(
    store: MemoryStore, site: Unit, vlan: Unit, records: Records
) -> None:
    site.create()
    group = identity(_one(store, VLAN_GROUP, slug="lab"))
    store.create(VLAN, [{"vid": 101, "name": "edge-inference", "group": group, "description": "an old one"}])
    writes = len(store.writes)
    told = vlan.foresee()
    assert told.startswith("ERROR: VLAN edge-inference (lab) (memory://netbox/ipam/vlans/1/): exists already")
    assert "pulumi config set pinion:adopt true" in told
    with pytest.raises(grpc.RpcError) as caught:
        vlan.create()
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "VLAN lab/edge-inference (networks.edge-inference): " in str(caught.value.details())

    records.adopting = True
    told = vlan.foresee()
    assert told.startswith("INFO: exists in NetBox; up will change:")
    assert "~ description: 'an old one' -> " in told
    assert "+ prefixes[10.77.101.0/24]" in told
    assert len(store.writes) == writes
    assert vlan.create()["owner"] == "adopted"
    assert "adopted from NetBox: memory://netbox" in vlan.client.engine.text("INFO")
    assert vlan.drift() == {}


def test_a_device_is_made_by_many_at_once_in_few_requests(
    store: MemoryStore, client: Client, lab: Plan, site: Unit, vlans: list[Unit]
) -> None:
    site.create()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(Unit.create, vlans))
        _device(client, lab, "tor-1").create()
        units = [_device(client, lab, f"pi-{n:02}") for n in range(1, 5)]
        before = store.calls
        list(pool.map(Unit.create, units))
    alone = store.calls
    assert store.calls - before < 4 * 15, f"{store.calls - before} requests for four devices ({alone})"
    assert all(unit.drift() == {} for unit in units)


# --- renames ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def next_run(store: MemoryStore) -> Iterator[Client]:
    """The provider as the next run of the engine starts it: it has seen nothing of the site file yet."""
    with started(Records(store)) as client:
        yield client


def _new_name(client: Client, token: str, record: VlanRecord | DeviceRecord, name: str) -> Unit:
    return _unit(client, token, name, record.model_copy(update={"name": name}))


def test_a_rename_is_told_and_keeps_the_objects(
    store: MemoryStore, rack: dict[str, Unit], next_run: Client, lab: Plan
) -> None:
    pairs = [
        (_new_name(next_run, provider.DEVICE, device_record(lab, "pi-01"), "pi-a"), rack["pi-01"]),
        (_new_name(next_run, provider.VLAN, vlan_record(lab, "edge-inference"), "edge-ai"), rack["edge-inference"]),
    ]
    for new, old in pairs:
        writes = len(store.writes)
        told = new.foresee()
        noun = "VLAN" if new.token == provider.VLAN else "device"
        assert told.startswith(f"INFO: {noun} {old.id} is renamed; up will change what NetBox holds:\n")
        assert len(store.writes) == writes
        assert new.create()["owner"] == "created"
        assert f"{noun} {old.id} was renamed: memory://netbox" in next_run.engine.text("INFO")
        main = "vlan" if noun == "VLAN" else "device"
        assert new.state["netbox_ids"][main] == old.state["netbox_ids"][main]  # type: ignore[index, call-overload]
        assert next_run.read(old.token, old.name, old.id, inputs=old.inputs, olds=old.outputs) is None
        count = _count(store)
        next_run.delete(old.token, old.name, old.id, old_inputs=old.inputs, olds=old.state)
        assert _count(store) == count
        assert new.drift() == {}


def test_what_is_left_of_a_renamed_vlan_stays_in_the_state_until_it_is_removed(
    store: MemoryStore, rack: dict[str, Unit], next_run: Client, lab: Plan
) -> None:
    new = _new_name(
        next_run, provider.VLAN, vlan_record(lab, "edge-inference").model_copy(update={"ranges": ()}), "edge-ai"
    )
    new.create()
    old = rack["edge-inference"]
    found = next_run.read(old.token, old.name, old.id, inputs=old.inputs, olds=old.outputs)
    assert found is not None
    assert "left of it: IP range" in str(found[1]["drift"])
    old.outputs = found[1]
    next_run.delete(old.token, old.name, old.id, old_inputs=old.inputs, olds=old.state)
    assert store.find(IP_RANGE, {}, "parent", ["10.77.101.0/24"]) == []
    assert next_run.read(old.token, old.name, old.id, inputs=old.inputs, olds=old.outputs) is None
    assert new.drift() == {}


def test_a_new_device_tells_what_it_takes_over(rack: dict[str, Unit], next_run: Client, lab: Plan) -> None:
    """Another serial number: not the same device, but in the same place."""
    assert rack
    rack["pi-01"].update({**rack["pi-01"].inputs, "serial": "A"})
    new = _unit(
        next_run,
        provider.DEVICE,
        "pi-a",
        device_record(lab, "pi-01").model_copy(update={"name": "pi-a", "serial": "B"}),
    )
    told = new.foresee()
    assert told.startswith("INFO: up will take over what others have until now:\n"), told
    assert "interfaces[eth0].cable: 'of device lab/pi-01' -> 'of device lab/pi-a'" in told
    assert "ERROR" not in told


def test_what_is_in_another_sites_file_is_refused_with_a_hint(rack: dict[str, Unit], client: Client, lab: Plan) -> None:
    assert rack
    other = _unit(client, provider.SITE, "dc", site_records(lab).model_copy(update={"site": "dc", "name": "dc"}))
    other.create()
    vlan = vlan_record(lab, "edge-inference").model_copy(update={"site": "dc", "role": None})
    told = _unit(client, provider.VLAN, "thief", vlan).foresee()
    assert "is managed by Pinion already, as lab/vlan/edge-inference/prefix/10.77.101.0/24" in told
    assert "it is in another site's file: one of the two has to give it up" in told


# --- changes and drift ------------------------------------------------------------------------------------------------


def test_a_change_is_told_by_its_property_and_done(store: MemoryStore, rack: dict[str, Unit]) -> None:
    pi = rack["pi-01"]
    interfaces = pi.inputs["interfaces"]
    assert isinstance(interfaces, dict)
    news: dict[str, Value] = {**pi.inputs, "serial": "X1", "interfaces": {"eth0": {**interfaces["eth0"], "mtu": 9000}}}  # type: ignore[dict-item]
    assert pi.diff(news) == {"interfaces.eth0.mtu": "UPDATE", "serial": "ADD"}
    pi.update(news)
    assert _one(store, DEVICE, name="pi-01")["serial"] == "X1"
    assert pi.drift() == {}


def test_identity_needs_a_new_object_and_the_place_in_the_site_file_is_no_change(rack: dict[str, Unit]) -> None:
    pi = rack["pi-01"]
    assert pi.diff({**pi.inputs, "name": "pi-09"}) == {"name": "UPDATE_REPLACE"}
    assert pi.diff({**pi.inputs, "site": "other"}) == {"site": "UPDATE_REPLACE"}
    assert pi.diff({**pi.inputs, "origin": "pis.other 1"}) == {}


def test_a_refresh_shows_every_drift_in_words_of_the_site_file(store: MemoryStore, rack: dict[str, Unit]) -> None:
    _by_hand(store, VLAN, _one(store, VLAN, vid=101), name="renamed")
    _by_hand(store, SITE, _one(store, SITE, slug="lab"), description="by hand")
    device = _one(store, DEVICE, name="pi-02")
    interface = next(one for one in store.find(INTERFACE, {}) if one["device"]["id"] == identity(device))  # type: ignore[index,call-overload]
    _by_hand(store, INTERFACE, interface, mtu=1400)
    address = next(one for one in store.find(IP_ADDRESS, {}) if str(one["address"]).startswith("10.77.101.12/"))
    store.delete(IP_ADDRESS, [identity(address)], [])
    assert rack["edge-inference"].drift() == {"name": "UPDATE"}
    assert set(rack["site"].drift()) == {"description"}
    assert rack["pi-01"].drift() == {}
    assert rack["pi-02"].drift() == {"interfaces.eth0.mtu": "UPDATE"}
    assert rack["pi-03"].drift() == {"primary_address": "ADD", "interfaces.eth0.addresses": "ADD"}
    for name in ("edge-inference", "site", "pi-02", "pi-03"):
        unit = rack[name]
        unit.update(unit.inputs)
        assert unit.drift() == {}
    assert _one(store, VLAN, vid=101)["name"] == "edge-inference"


def test_what_is_gone_is_gone(store: MemoryStore, rack: dict[str, Unit]) -> None:
    pi = rack["pi-01"]
    store.delete(DEVICE, [identity(_one(store, DEVICE, name="pi-01"))], [])
    assert pi.client.read(pi.token, pi.name, pi.id, inputs=pi.inputs, olds=pi.state) is None


def test_taking_off_our_mark_is_drift(store: MemoryStore, rack: dict[str, Unit]) -> None:
    prefix = next(one for one in store.find(PREFIX, {}) if one["prefix"] == "10.77.101.0/24")
    _by_hand(store, PREFIX, prefix, tags=[])
    assert list(rack["edge-inference"].drift()) == ["prefixes"], "it is not ours any more"
    unit = rack["edge-inference"]
    with pytest.raises(grpc.RpcError, match="set pinion:adopt to take it over"):
        unit.update(unit.inputs)


def test_what_somebody_made_anew_is_told_and_taken_back(store: MemoryStore, rack: dict[str, Unit]) -> None:
    """Who is in our state was ours: no leave to adopt is needed."""
    vlan = rack["edge-inference"]
    _by_hand(store, VLAN, _one(store, VLAN, vid=101), tags=[], custom_fields={"pinion_id": None})
    inputs, outputs = vlan.read()
    assert outputs["owner"] == "foreign"
    assert LOST_MARK in list(outputs["drift"].values())  # type: ignore[union-attr]
    assert vlan.diff(old_inputs=inputs, olds=outputs)
    vlan.outputs = outputs
    vlan.update(vlan.inputs)
    assert vlan.drift() == {}


# --- import, removal --------------------------------------------------------------------------------------------------


def test_an_import_reads_all_of_it_by_its_natural_key(client: Client, rack: dict[str, Unit]) -> None:
    for name, key in (("site", "lab"), ("edge-inference", "lab/edge-inference"), ("pi-01", "lab/pi-01")):
        unit = rack[name]
        found = client.read(unit.token, name, key)
        assert found is not None
        wanted = {key: value for key, value in unit.inputs.items() if key != "origin"}
        assert found[0] == wanted
        assert found[1]["owner"] == "created"
    assert client.read(provider.DEVICE, "pi-99", "lab/pi-99") is None


def test_an_imported_stranger_is_taken_over_by_the_next_change(
    store: MemoryStore, client: Client, site: Unit, vlan: Unit
) -> None:
    site.create()
    group, place = identity(_one(store, VLAN_GROUP, slug="lab")), identity(_one(store, SITE, slug="lab"))
    store.create(VLAN, [{"vid": 101, "name": "edge-inference", "group": group, "site": place, "description": "theirs"}])
    found = client.read(provider.VLAN, "edge", "lab/edge-inference")
    assert found is not None
    assert found[1]["owner"] == "foreign"
    vlan.id, vlan.outputs = "lab/edge-inference", found[1]
    assert "description" in vlan.diff(old_inputs=found[0])
    assert vlan.update(vlan.inputs)["owner"] == "adopted"


def test_destroying_leaves_nothing_of_ours_and_everything_else(store: MemoryStore, rack: dict[str, Unit]) -> None:
    foreign = store.create(SITE, [{"name": "other", "slug": "other"}])
    for unit in reversed(rack.values()):
        unit.delete()
        unit.delete()
    assert [record["slug"] for record in store.find(SITE, {})] == ["other"]
    assert not store.find(DEVICE, {})
    assert not store.find(VLAN, {})
    assert identity(foreign[0])


def test_what_was_there_before_us_stays_and_is_told(
    store: MemoryStore, site: Unit, vlan: Unit, records: Records
) -> None:
    records.adopting = True
    site.create()
    group = identity(_one(store, VLAN_GROUP, slug="lab"))
    store.create(VLAN, [{"vid": 101, "name": "edge-inference", "group": group}])
    vlan.create()
    vlan.delete()
    assert _one(store, VLAN, vid=101)["tags"] == []
    told = vlan.client.engine.text("WARNING")
    assert "edge-inference" in told
    assert "stays in NetBox" in told


# --- mistakes and failures --------------------------------------------------------------------------------------------


def test_mistakes_are_all_told_by_path(client: Client) -> None:
    bad: dict[str, Value] = {
        "site": "lab",
        "name": "a/b",
        "vid": 5000,
        "prefixes": {"10.0.0.1/24": {}, "10.1.0.0/24": {"vrf": 1}},
        "colour": "red",
    }
    reasons = [failure.reason for failure in client.check(provider.VLAN, "v", bad).failures]
    assert [reason.partition(": ")[0] for reason in reasons] == [
        "colour",
        "name",
        'prefixes["10.0.0.1/24"].prefix',
        'prefixes["10.1.0.0/24"].vrf',
        "vid",
    ]


def test_missing_references_are_named(client: Client, lab: Plan) -> None:
    device = _device(client, lab, "pi-01")
    with pytest.raises(grpc.RpcError) as caught:
        device.create()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "device lab/pi-01 (pis.pi 1): " in str(caught.value.details())


class _Breaking(MemoryStore):
    """Answers no write any more after so many of them."""

    writes_left = 10**9

    def _spend(self, kind: Kind) -> None:
        if self.writes_left <= 0:
            raise UnreachableError(f"{kind.name} list", "NetBox answers 500", "https://netbox/api", maybe_applied=False)
        self.writes_left -= 1

    def create(self, kind: Kind, bodies: Any) -> list[Record]:
        self._spend(kind)
        return super().create(kind, bodies)

    def update(self, kind: Kind, patches: Any, etags: Any) -> list[Record]:
        self._spend(kind)
        return super().update(kind, patches, etags)


@pytest.mark.parametrize("writes", range(8))
def test_a_create_that_breaks_off_keeps_what_exists_and_can_go_on(lab: Plan, writes: int) -> None:
    store = _Breaking()
    with started(Records(store)) as client:
        _unit(client, provider.SITE, "lab", site_records(lab)).create()
        for one in lab.vlans:
            _unit(client, provider.VLAN, one.name, vlan_record(lab, one.name)).create()
        _device(client, lab, "tor-1").create()
        device = _device(client, lab, "pi-01")
        store.writes_left = writes
        try:
            device.create()
        except grpc.RpcError as error:
            partial = partial_of(error)
            assert (partial is not None) == bool([one for one in store.find(DEVICE, {}) if one["name"] == "pi-01"])
            if partial is not None:
                assert partial.id == "lab/pi-01"
                assert "NetBox answers 500" in partial.reasons[0]
                device.id, device.outputs = partial.id, partial.outputs
                assert device.diff() != {} or partial.outputs["interfaces"] == device.inputs["interfaces"]
        else:
            assert writes > 3
        store.writes_left = 10**9
        if device.id:
            device.update(device.inputs)
        else:
            device.create()
        assert device.drift() == {}
        assert len([one for one in store.find(DEVICE, {}) if one["name"] == "pi-01"]) == 1


def test_records_models_are_covered() -> None:
    """Every list of models in a unit has names, or a diff would speak of positions."""
    for model in (SiteRecords, VlanRecord, DeviceRecord):
        for name in model.model_fields:
            from pinion.provider.shape import _item_model

            item, in_list = _item_model(model, name)
            assert not in_list or item is None or item in IDENTITIES
