"""What the server's own schema and models say, and its rules against deleting: only a real NetBox can tell."""

from __future__ import annotations

import base64

import pytest
import requests
from netbox_contract.contract import marked, patch
from netbox_contract.others import Administrator
from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy

from netbox.conftest import LOCKED, PROTECTED, Server
from pinion.drivers.netbox import NetBoxDriver
from pinion.drivers.netbox.kinds import ADOPTED, DEPENDENTS, DEVICE, MARKED_KINDS, VLAN
from pinion.drivers.netbox.kinds.values import identity
from pinion.drivers.netbox.server.http_store import HttpStore
from pinion.drivers.netbox.written.dependents import BLANKED, BOOKKEEPING

pytestmark = pytest.mark.netbox

_OURS = tuple(kind.content_type for kind in MARKED_KINDS)
#: NetBox's own copies of what `scope`, `termination` and `interface_a` say, and what it has no list for: mappings of ports go with their
#: ports, and a circuit's end is found by its `termination`.
_COPIES = frozenset({"_site", "_region", "_rack", "_device", "_location", "_interface_a_device", "_interface_b_device"})
_NO_LIST = frozenset({"dcim.portmapping", "dcim.porttemplatemapping", "extras.taggeditem"})


@pytest.fixture(scope="module")
def relations(server: Server) -> list[tuple[str, str, str, str]]:
    """(kind of ours, kind that names it, field, what a deletion does to the latter), from Django's models in the running NetBox."""
    answer = requests.get(
        f"{server.url}/api/plugins/gauges/relations/",
        params=[("of", name) for name in _OURS],
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=60,
    )
    if answer.status_code == 404:
        pytest.skip("the plugin that tells is in the tests' own NetBox only")
    answer.raise_for_status()
    return [tuple(one) for one in answer.json()]


def test_all_that_goes_along_by_the_models_is_asked_for_by_the_schema(
    store: HttpStore, relations: list[tuple[str, str, str, str]]
) -> None:
    asked = {(end.content_type, one.field): one.targets for end in store.end_points() for one in end.references}
    assert len(relations) > 100
    missing = [
        (of, by, field)
        for of, by, field, fate in relations
        if fate in ("CASCADE", "RESTRICT")
        and by not in BOOKKEEPING | _NO_LIST
        and field not in _COPIES
        and of not in (asked.get((by, field)) or (of if (by, field) in asked else ()))
    ]
    assert missing == []


def test_what_counts_as_blanked_is_blanked_by_the_models(relations: list[tuple[str, str, str, str]]) -> None:
    """Else a relation that a later NetBox lets cascade would go unasked."""
    fates = {(by, field): fate for _, by, field, fate in relations}
    fields = {(by, field) for by, names in BLANKED.items() for field in names}
    wrong = {one: fates[one] for one in fields if fates.get(one, "SET_NULL") != "SET_NULL"}
    assert wrong == {}
    blanked = {one for one, fate in fates.items() if fate == "SET_NULL" and one[1] not in _COPIES}
    assert blanked - fields == set(), "these would keep an object for ever, and need not"


def test_the_rights_are_those_that_asking_takes(store: HttpStore) -> None:
    needed = {
        end.content_type
        for end in store.end_points()
        if end.content_type not in BOOKKEEPING
        for one in end.references
        if one.field not in BLANKED.get(end.content_type, ()) and (not one.targets or set(one.targets) & set(_OURS))
    }
    own = {one for one in needed if one.startswith("pinion_gauges.")}
    assert sorted(needed - own - set(_OURS)) == sorted(DEPENDENTS)


def test_an_image_of_a_device_keeps_it(driver: NetBoxDriver, sample: Sample, spy: Spy, others: Administrator) -> None:
    sample.make(driver, pis=1)
    (device,) = marked(spy, DEVICE, f"{sample.name}/device/pi-01")
    pixel = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    fields = {"object_type": "dcim.device", "object_id": str(identity(device)), "name": "front"}
    image = others.upload("extras/image-attachments", fields, "front.png", pixel)
    (left,) = driver.devices.delete(sample.pi().key).left
    assert "image attachment" in left.reason
    assert others.there("extras/image-attachments", image)
    others.take("extras/image-attachments", image)
    assert driver.devices.delete(sample.pi().key).left == ()


def test_a_protection_rule_is_told_and_the_device_is_whole_when_it_goes(
    driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand, others: Administrator
) -> None:
    """NetBox itself refuses; with the rule's reason met, the next run deletes it."""
    sample.make(driver, pis=1)
    (device,) = marked(spy, DEVICE, f"{sample.name}/device/pi-01")
    patch(hand, DEVICE, device, description=PROTECTED)
    (left,) = driver.devices.delete(sample.pi().key).left
    assert left.again
    assert left.url == device["display_url"]
    assert "protection rule" in left.reason
    patch(hand, DEVICE, device, description="")
    assert driver.devices.delete(sample.pi().key).left == ()


def test_a_validation_rule_that_keeps_our_marks_on_is_told(
    driver: NetBoxDriver, sample: Sample, spy: Spy, hand: Hand, others: Administrator
) -> None:
    """An adopted VLAN is given back by taking our marks off; a rule of the server's may refuse that change."""
    del others  # the rule is there where the administrator is
    driver.sites.apply(sample.site())
    driver.vlans.apply(sample.vlan())
    (vlan,) = marked(spy, VLAN, f"{sample.name}/vlan/edge")
    vlan = patch(hand, VLAN, vlan, custom_fields={ADOPTED: True}, description=LOCKED)
    left = [one for one in driver.vlans.delete(sample.vlan().key).left if one.url == vlan["display_url"]]
    assert [one.again for one in left] == [True]
    assert "whoever adopts this VLAN keeps it" in left[0].reason
    patch(hand, VLAN, vlan, description="")
    left = driver.vlans.delete(sample.vlan().key).left
    assert [(one.url, one.again) for one in left] == [(vlan["display_url"], False)]
    hand.delete(VLAN, [identity(vlan)], ["*"])
