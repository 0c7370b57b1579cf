"""The table of kinds: its entries hold together, and an entry is all that a new kind takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from pinion.drivers.netbox import device_record, site_records, vlan_record
from pinion.drivers.netbox.found.units import _drift, _properties
from pinion.drivers.netbox.kinds import DEVICE, KINDS, MAC_ADDRESS, MARK, MARKED_KINDS, TAG, Kind, Want
from pinion.drivers.netbox.kinds.values import Record
from pinion.drivers.netbox.kinds.writing import always, found_by, key, refers, stated
from pinion.drivers.netbox.wanted.units import DEVICE_UNIT, IDENTITIES, SITE_UNIT, VLAN_UNIT
from pinion.plan import plan
from pinion.site.loader import load

INVENTORIES = Path(__file__).parents[4] / "inventories"


@pytest.fixture(scope="module", params=["lab", "dc-rack-12"])
def wants(request: pytest.FixtureRequest) -> list[Want]:
    """Every record that a plan asks for."""
    site = plan(load(INVENTORIES / request.param / "site.yml"))
    found = SITE_UNIT.wants(site_records(site))
    found += [want for one in site.vlans for want in VLAN_UNIT.wants(vlan_record(site, one.name))]
    return found + [want for one in site.devices for want in DEVICE_UNIT.wants(device_record(site, one.name))]


@pytest.mark.parametrize("kind", MARKED_KINDS, ids=lambda kind: kind.name)
def test_what_an_entry_names_is_there(kind: Kind) -> None:
    for natural in kind.keys:
        assert set(natural.names) <= set(kind.columns)
        assert natural.unless in ("", *kind.columns)
    assert set(kind.joins) <= set(kind.columns)
    for search in kind.searches:
        assert search.of in kind.columns
        assert search.filter in kind.filters
        assert search.within is None or (search.within[0] in kind.filters and search.within[1] in kind.columns)
    # A cable and a range are never referred to, so nothing says by what.
    assert set(kind.known_by) <= set(kind.columns) or kind.name in ("cable", "IP range")


def test_a_kind_comes_after_what_it_refers_to(wants: list[Want]) -> None:
    """What refers to later kinds is late."""
    order = {kind: place for place, kind in enumerate(KINDS)}
    missing = set(MARKED_KINDS) - {want.kind for want in wants}
    assert missing <= {MAC_ADDRESS}, "the plan has one of each"
    for want in wants:
        early = replace(want, late={})
        assert all(order[ref.kind] < order[want.kind] for ref in early.refs()), want


def test_references_lead_to_what_is_wanted(wants: list[Want]) -> None:
    """Else the second of two units would make a thing anew that the first has made."""
    made = {(want.kind, want.mark) for want in wants}
    for want in wants:
        for ref in want.refs():
            assert (ref.kind, ref.mark) in made, f"{want.label} refers to {ref.label}"


def test_a_mark_names_one_record_and_says_its_words(wants: list[Want]) -> None:
    assert len({(want.kind, want.mark) for want in wants}) == len(wants)
    for want in wants:
        words = want.kind.words_of(want.mark)
        assert want.kind.mark.format_map(words) == want.mark
        others = [kind for kind in MARKED_KINDS if kind is not want.kind and kind.words_of(want.mark)]
        assert others == [], f"{want.mark} is also a mark of {others}"


def test_each_thing_that_stands_in_a_list_has_a_name() -> None:
    for model, name in IDENTITIES.items():
        assert name in model.model_fields


class _ConsolePort(BaseModel):
    name: str
    type: str
    speed: int | None = None
    description: str = ""


def test_a_new_kind_is_one_entry() -> None:
    """What is written, searched, compared with and read back for a console port, with no other word about it anywhere."""
    ports = Kind(
        "console port", "dcim/console-ports",
        (refers("device", DEVICE, "device"), stated("name"), stated("type"), stated("speed"),
         always("mark_connected", False, drift="counts as connected"), stated("description")),
        unit="device", listed="console_ports", mark="{site}/device/{device}/console-port/{name}",
        label="console port {name} of {device}", place="console_ports[{name}]", noun="console port {name}", named_by="name",
        known_by=("device", "name"), keys=(key("device", "name"),), searches=(found_by("device_id", "device"),),
        filters=frozenset({"device_id", "name"}), inside=True,
    )  # fmt: skip
    want = ports.want({"site": "lab", "device": "tor-1", **dict(_ConsolePort(name="con0", type="rj-45", speed=9600))})
    assert (ports.content_type, want.mark, want.path) == (
        "dcim.consoleport", "lab/device/tor-1/console-port/con0", "console_ports[con0]",
    )  # fmt: skip
    assert [ref.mark for ref in want.refs()] == ["lab/device/tor-1"]
    body = {**want.body, "device": 7}
    assert ports.natural_keys(body) == [("device,name", 7, "con0")]
    assert ports.queries([body]) == [({}, "device_id", ["7"])]
    served: Record = {
        "id": 3, "display": "con0", "device": {"id": 7, "name": "tor-1"}, "name": "con0", "type": {"value": "rj-45", "label": "RJ-45"},
        "speed": {"value": 9600, "label": "9600"}, "mark_connected": True, "description": "", "tags": [{"slug": TAG}],
        "custom_fields": {MARK: want.mark},
    }  # fmt: skip
    assert ports.is_at_home(served, body)
    assert ports.place_of(served) == want.path
    assert _properties(_ConsolePort, ports, served) == {
        "name": "con0",
        "type": "rj-45",
        "speed": 9600,
        "description": "",
    }
    assert _drift("tor-1", {ports: [served]}) == ["console port con0 counts as connected"]
