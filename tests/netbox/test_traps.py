"""What NetBox does that the driver is built around, seen on the server itself: when one of these changes, the driver must follow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from netbox_contract.samples import Sample

from pinion.drivers.netbox import NetBoxDriver
from pinion.drivers.netbox.errors import ChangedError
from pinion.drivers.netbox.kinds import (
    CATALOGUE,
    DEVICE,
    DEVICE_ROLE,
    IP_ADDRESS,
    KINDS,
    MARK,
    PREFIX,
    SITE,
    VLAN,
    VLAN_GROUP,
    Kind,
)
from pinion.drivers.netbox.kinds.values import etag, identity
from pinion.drivers.netbox.server.http_store import HttpStore

pytestmark = pytest.mark.netbox


@pytest.fixture
def raw(server) -> Iterator[requests.Session]:  # noqa: ANN001 - the fixture of conftest
    """Plain HTTP, with no care taken."""
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {server.token}"
        session.base = f"{server.url}/api"  # type: ignore[attr-defined]
        yield session


def get(raw: requests.Session, kind: Kind, **query: str) -> requests.Response:
    return raw.get(f"{raw.base}/{kind.path}/", params=query, timeout=60)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_our_table_is_the_servers(raw: requests.Session, kind: Kind) -> None:
    """Each field that we write is one that the server says it takes; each that we read, one that it serves."""
    answer = raw.options(f"{raw.base}/{kind.path}/", timeout=60)  # type: ignore[attr-defined]
    fields = answer.json()["actions"]["POST"]
    writable = {name for name, facts in fields.items() if not facts.get("read_only")}
    # On 4.7 OPTIONS does not name these two; that they work is in the contract (what is taken over by hand is released again).
    assert kind.writing - {"add_tags", "remove_tags"} <= writable
    known = set(fields) | {"display", "url", "display_url", "last_updated"}
    assert set(kind.reading) <= known, set(kind.reading) - known


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_each_filter_that_we_use_does_filter(raw: requests.Session, kind: Kind, populated: Sample) -> None:
    """A filter that NetBox does not know is ignored in silence; so each of ours must turn away what it should."""
    assert populated.name
    everything = get(raw, kind, limit="1").json()["count"]
    assert everything > 0, f"nothing to filter among {kind.path}"
    never = {
        "scope_type": "dcim.region", "prefix": "203.0.113.0/30", "parent": "203.0.113.0/30", "address": "203.0.113.1", "slug": "no-such",
        "mac_address": "02:FF:FF:FF:FF:FF", "vid": "4000", "start_address": "203.0.113.1", "end_address": "203.0.113.9", "name": "no such",
    }  # fmt: skip
    for name in kind.filters:
        if name == "scope_id":
            continue  # means something together with scope_type only
        answer = get(raw, kind, limit="1", **{name: never.get(name, "999999")})
        refused = answer.status_code == 400 and "Select a valid choice" in answer.text
        assert refused or answer.json()["count"] == 0, f"{kind.path}?{name}= is ignored"
    if kind.marked:
        for name in (f"cf_{MARK}", f"cf_{MARK}__isw"):
            assert get(raw, kind, limit="1", **{name: "no-such-site/"}).json()["count"] == 0
    assert get(raw, kind, limit="1", bogus="1").json()["count"] == everything, (
        "NetBox has begun to tell unknown filters: use that"
    )


def test_unknown_fields_are_ignored_without_a_word(
    raw: requests.Session, driver: NetBoxDriver, sample: Sample, store: HttpStore
) -> None:
    driver.sites.apply(sample.site())
    body = {"prefix": f"12.{sample.net}.0/24", "site": 1, "bogus": True}
    answer = raw.post(f"{raw.base}/{PREFIX.path}/", json=body, timeout=60)  # type: ignore[attr-defined]
    assert answer.status_code == 201
    assert answer.json()["scope_id"] is None
    store.delete(PREFIX, [answer.json()["id"]], ["*"])


def test_an_id_that_is_gone_does_not_spoil_a_query(store: HttpStore, populated: Sample) -> None:
    """NetBox refuses the whole query with 400 for one unknown id; the store leaves that id out."""
    (address,) = store.find(IP_ADDRESS, {}, "address", [str(populated.pi().primary_address)])
    (device,) = store.find(DEVICE, {}, f"cf_{MARK}", [f"{populated.name}/device/pi-01"])
    found = store.find(IP_ADDRESS, {}, "device_id", [str(identity(device)), "999999"])
    assert [identity(one) for one in found] == [identity(address)]
    assert store.find(VLAN_GROUP, {}, "slug", ["no-such"]) == []
    assert store.find(VLAN, {"site_id": "999999"}, "vid", ["1"]) == []


def test_lists_longer_than_a_page_are_complete(server, driver: NetBoxDriver, sample: Sample) -> None:  # noqa: ANN001
    store = HttpStore(server.url, server.token, page=7)
    driver.sites.apply(sample.site())
    (group,) = store.find(VLAN_GROUP, {}, "slug", [sample.name])
    made = store.create(VLAN, [{"vid": vid, "name": f"v{vid}", "group": identity(group)} for vid in range(200, 221)])
    found = store.find(VLAN, {"group_id": str(identity(group))})
    assert [one["vid"] for one in found] == list(range(200, 221))
    store.delete(VLAN, [identity(one) for one in made], [etag(one) or "*" for one in made])


def test_etags_computed_from_a_listing_are_the_servers(
    raw: requests.Session, store: HttpStore, driver: NetBoxDriver, sample: Sample
) -> None:
    driver.sites.apply(sample.site())
    (site,) = store.find(SITE, {}, "slug", [sample.name])
    answer = raw.get(f"{raw.base}/{SITE.path}/{identity(site)}/", timeout=60)  # type: ignore[attr-defined]
    assert answer.headers["ETag"] == etag(site)


def test_one_stale_item_refuses_the_whole_list(store: HttpStore, driver: NetBoxDriver, sample: Sample) -> None:
    driver.sites.apply(sample.site())
    (group,) = store.find(VLAN_GROUP, {}, "slug", [sample.name])
    first, second = store.create(
        VLAN, [{"vid": vid, "name": f"v{vid}", "group": identity(group)} for vid in (300, 301)]
    )
    store.update(VLAN, [{"id": identity(second), "description": "other hand"}], ["*"])
    patches = [{"id": identity(one), "description": "ours"} for one in (first, second)]
    with pytest.raises(ChangedError):
        store.update(VLAN, patches, [etag(first) or "", etag(second) or ""])
    now = store.find(VLAN, {}, "id", [str(identity(first)), str(identity(second))])
    assert [one["description"] for one in now] == ["", "other hand"]
    store.delete(VLAN, [identity(one) for one in now], ["*"])


def test_parallel_prefixes_double_and_the_driver_mends_it(
    driver: NetBoxDriver, rival: NetBoxDriver, sample: Sample, store: HttpStore
) -> None:
    """NetBox's own check is no lock. Doubles with our mark: the lowest id stays."""
    sample.make(driver)
    prefix = sample.vlan().prefixes[0].prefix
    (ours,) = store.find(PREFIX, {}, "prefix", [prefix])
    store.delete(PREFIX, [identity(ours)], ["*"])
    body = {
        "prefix": prefix,
        "tags": [{"slug": "pinion"}],
        "custom_fields": {MARK: f"{sample.name}/vlan/edge/prefix/{prefix}"},
    }
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(store.create, PREFIX, [body]) for _ in range(8)]
    made = [future for future in futures if future.exception() is None]
    assert made
    driver.forget()
    driver.vlans.apply(sample.vlan())
    left = store.find(PREFIX, {}, "prefix", [prefix])
    assert len(left) == 1
    assert identity(left[0]) == min(identity(future.result()[0]) for future in made)


def test_roles_are_made_one_list_at_a_time(
    rival: NetBoxDriver, driver: NetBoxDriver, sample: Sample, store: HttpStore
) -> None:
    """Parallel creates of roles break their tree on 4.6; the driver never sends two at once."""
    assert DEVICE_ROLE.serial
    assert DEVICE_ROLE in CATALOGUE
    other = Sample.new()
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(one.sites.apply, unit.site()) for one, unit in ((driver, sample), (rival, other))]:
            future.result()
    for unit in (sample, other):
        (role,) = store.find(DEVICE_ROLE, {}, "slug", [f"pi-{unit.name}"])
        assert role["name"] == f"Pi {unit.name}"
    other.clear(rival)
