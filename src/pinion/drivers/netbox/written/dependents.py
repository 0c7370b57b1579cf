"""What hangs on records that are about to be deleted: all that NetBox would take along, or leave with nothing where it stood.

NetBox deletes an interface with its device, a location with its site and a journal entry with whatever it is about, and names none of
them beforehand. So all lists are asked whose records can name one of ours (`schema`), before anything is deleted:

* What carries our marks and is of the same unit goes along, and what hangs on it is asked for in turn.
* What NetBox made with the device from a template of its type, and nobody touched since, goes along, too.
* Anything else is a stranger: it keeps what it hangs on, and what that hangs on.
* What NetBox only blanks (`BLANKED`) and what it keeps for itself (`BOOKKEEPING`) is not asked for. An optional field of a plugin's may
  be blanked or not, which the schema does not tell: it counts as a stranger.

A list that may not be seen is an error: then nothing is known, and nothing may be deleted. What somebody hangs on in the moment between
the question and the deletion goes: NetBox has no way to ask and delete in one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias

from pydantic import JsonValue

from pinion.drivers.netbox.errors import DeniedError
from pinion.drivers.netbox.kinds import CABLE, DEVICE, INTERFACE, KINDS, TAG, Kind
from pinion.drivers.netbox.kinds.marks import is_adopted, mark_of, unit_of, unit_words
from pinion.drivers.netbox.kinds.values import Record, identity, page, plain
from pinion.drivers.netbox.server.schema import EndPoint, Reference
from pinion.drivers.netbox.server.store import RecordStore

#: Lists asked at the same time. NetBox's usual two workers have four threads each; more would only queue.
_PARALLEL = 6
#: How many of Pinion's own objects one message names.
_OF_OURS = 5
#: Seconds between a device's creation and that of what its templates make, in one request.
_WITH_ITS_DEVICE = 30.0
#: Seconds between `created` and `last_updated` of what nobody touched: NetBox takes the two moments one after the other.
_UNTOUCHED = 0.1

#: Fields that NetBox empties when what they name is deleted (`SET_NULL` in its models), or computes from others: no record is lost by it.
#: A test compares them with the models of the running NetBox.
BLANKED: Mapping[str, frozenset[str]] = {
    content_type: frozenset(fields.split())
    for content_type, fields in {
        "circuits.circuit": "termination_a termination_z",
        "circuits.circuittermination": "cable",
        "dcim.consoleport": "cable",
        "dcim.consoleserverport": "cable",
        "dcim.device": "platform primary_ip primary_ip4 primary_ip6 oob_ip parent_device",
        "dcim.devicebay": "installed_device",
        "dcim.devicetype": "default_platform",
        "dcim.frontport": "cable",
        "dcim.interface": "cable untagged_vlan qinq_svlan primary_mac_address bridge lag",
        "dcim.powerfeed": "cable",
        "dcim.poweroutlet": "cable",
        "dcim.powerport": "cable",
        "dcim.rearport": "cable",
        "dcim.site": "region",
        "dcim.virtualdevicecontext": "primary_ip primary_ip4 primary_ip6",
        "ipam.asn": "role",
        "ipam.ipaddress": "nat_inside",
        "ipam.iprange": "role",
        "ipam.prefix": "role",
        "ipam.vlan": "role",
        "virtualization.virtualmachine": "platform primary_ip primary_ip4 primary_ip6",
        "virtualization.virtualmachinetype": "default_platform",
        "virtualization.vminterface": "untagged_vlan qinq_svlan primary_mac_address",
    }.items()
}  # fmt: skip

#: What NetBox writes for itself or a user keeps for himself, and the ends of cables, which are asked for as cables.
BOOKKEEPING = frozenset(
    {
        "core.job", "core.objectchange", "dcim.cabletermination", "extras.bookmark", "extras.eventrule", "extras.notification",
        "extras.subscription", "extras.taggeditem",
    }
)  # fmt: skip

_KIND_OF = {kind.content_type: kind for kind in KINDS}

#: A record anywhere in NetBox: content type and id.
Node: TypeAlias = tuple[str, int]


class Stranger(NamedTuple):
    """Something that is not ours to delete: in words, with its page and why it is not. *ours*: it is Pinion's, of another unit."""

    text: str
    ours: bool


class _Unmarked(NamedTuple):
    """A record without marks that names *holder*."""

    end: EndPoint
    record: Record
    holder: Node


@dataclass(slots=True)
class _Found:
    """What is known so far. *units*: the unit of each node that goes; *children*: what goes with a node; *strangers*: what keeps it."""

    units: dict[Node, str]
    children: dict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))
    strangers: dict[Node, dict[Node, Stranger]] = field(default_factory=lambda: defaultdict(dict))
    unmarked: list[_Unmarked] = field(default_factory=list)


def kept(store: RecordStore, going: Mapping[Kind, Sequence[Record]]) -> dict[Kind, dict[int, str]]:
    """Which of the records *going* must stay, by kind and id, with what hangs on them and what to do.

    Raises `DeniedError` when a list may not be seen, naming the permission, and other `NetBoxError` when the schema can't be read.
    """
    stay: dict[Kind, dict[int, str]] = {kind: {} for kind in going}
    roots = {(kind.content_type, identity(one)): unit_of(mark_of(one) or "") for kind in going for one in going[kind]}
    if not roots:
        return stay
    found = _Found(dict(roots))
    level = list(roots)
    ends = store.end_points()
    while level:
        known = set(found.units)
        _look(store, ends, level, found)
        _made_from_templates(store, ends, found)
        level = [node for node in found.units if node not in known]
    for node in roots:
        if strangers := _beneath(node, found):
            stay[_KIND_OF[node[0]]][node[1]] = _sentence(strangers)
    return stay


def _sentence(strangers: Sequence[Stranger]) -> str:
    """What keeps a record: each stranger; of what is Pinion's own elsewhere the first few, which go with their own units."""
    foreign, ours = ([one.text for one in strangers if one.ours is mine] for mine in (False, True))
    told = [*foreign, *ours[:_OF_OURS]]
    if len(ours) > _OF_OURS:
        told.append(f"{len(ours) - _OF_OURS} more of Pinion's own")
    advice = f" Move or delete what is not Pinion's, or take the tag {TAG} off what it hangs on; then run again"
    return "; ".join(told) + ("." + advice if foreign else "")


def _beneath(node: Node, found: _Found) -> list[Stranger]:
    """Strangers on a node and on all that goes with it."""
    seen, waiting = {node}, [node]
    told: dict[Node, Stranger] = {}
    while waiting:
        one = waiting.pop()
        told |= found.strangers.get(one, {})
        fresh = found.children.get(one, set()) - seen
        seen |= fresh
        waiting += sorted(fresh)
    return [told[one] for one in sorted(told)]


# --- asking -------------------------------------------------------------------------------------------------------------


def _look(store: RecordStore, ends: Sequence[EndPoint], level: Sequence[Node], found: _Found) -> None:
    """Ask for all that names the nodes of *level*, and judge it."""
    by_type: dict[str, set[int]] = defaultdict(set)
    for content_type, number in level:
        by_type[content_type].add(number)
    asks: list[tuple[EndPoint, Reference, list[int]]] = []
    for end in ends:
        for one in end.references if end.content_type not in BOOKKEEPING else ():
            named = [ids for name, ids in by_type.items() if not one.targets or name in one.targets]
            if named and one.field not in BLANKED.get(end.content_type, ()):
                asks.append((end, one, sorted(set().union(*named))))
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="netbox-dependents") as pool:
        answers = list(pool.map(lambda ask: _asked(store, *ask), asks))
    for (end, reference, _), records in zip(asks, answers, strict=True):
        for record in records:
            for node in _named(reference, record, by_type):
                _judge(end, record, node, found)
    for kind, name in ((DEVICE, "device_id"), (INTERFACE, "interface_id")):
        ids = sorted(by_type.get(kind.content_type, ()))
        for cable in store.find(CABLE, {}, name, list(map(str, ids))) if ids else ():
            for node in _ends(cable):
                if node[1] in by_type.get(node[0], ()):
                    _judge_cable(cable, node, found)


def _asked(store: RecordStore, end: EndPoint, reference: Reference, ids: Sequence[int]) -> list[Record]:
    own = (f"{reference.field}_type", f"{reference.field}_id") if reference.pair else (reference.field,)
    query = [("fields", ",".join((*_FIELDS, *own)))]
    if reference.by is not None:
        query += [(reference.by, str(one)) for one in ids]
    try:
        return store.listing(end.path, query)
    except DeniedError as error:
        if error.token:
            raise
        app, _, model = end.content_type.partition(".")
        raise DeniedError(
            f"{end.name} list",
            f"the token's user lacks the permission {app}.view_{model} ({error.reason}): what would be deleted along can't be seen,"
            " so nothing is deleted. Give the user that permission; then run again",
            error.url,
        ) from None


_FIELDS = ("id", "display", "display_url", "url", "name", "tags", "custom_fields", "created", "last_updated")


def _named(reference: Reference, record: Record, level: Mapping[str, set[int]]) -> Iterator[Node]:
    """The nodes that the field names: every answer is checked, since NetBox answers a filter that it does not know with everything."""
    if reference.pair:
        name, number = plain(record.get(f"{reference.field}_type")), record.get(f"{reference.field}_id")
        if isinstance(name, str) and isinstance(number, int) and number in level.get(name, ()):
            yield name, number
        return
    value = record.get(reference.field)
    number = value.get("id") if isinstance(value, dict) else value
    address = value.get("url") if isinstance(value, dict) else None
    for name in reference.targets or level:
        if isinstance(number, int) and number in level.get(name, ()) and _is_at(address, name, number):
            yield name, number


def _is_at(address: JsonValue, content_type: str, number: int) -> bool:
    """Whether an object's own address is of that kind; one without an address may be."""
    kind = _KIND_OF.get(content_type)
    return not isinstance(address, str) or kind is None or address.endswith(f"/{kind.path}/{number}/")


def _ends(cable: Record) -> Iterator[Node]:
    """What a cable ends on, and the devices that these are part of."""
    for side in ("a_terminations", "b_terminations"):
        ends = cable.get(side)
        for end in ends if isinstance(ends, list) else ():
            thing = end.get("object") if isinstance(end, dict) else None
            if isinstance(end, dict) and isinstance(number := end.get("object_id"), int):
                yield str(end.get("object_type")), number
            device = thing.get("device") if isinstance(thing, dict) else None
            if isinstance(device, dict):
                yield DEVICE.content_type, identity(device)


# --- judging ------------------------------------------------------------------------------------------------------------


def _judge(end: EndPoint, record: Record, holder: Node, found: _Found) -> None:
    """Note what a record that names *holder* is: of the same unit, to be looked at again (templates), or a stranger."""
    node = (end.content_type, identity(record))
    if node == holder:
        return
    mark = mark_of(record) if end.content_type in _KIND_OF else None
    unit = found.units[holder]
    if mark is None:
        found.unmarked.append(_Unmarked(end, record, holder))
    elif unit_of(mark) != unit:
        found.strangers[holder][node] = _stranger(end.name, record, f"is of {unit_words(mark)}", ours=True)
    elif is_adopted(record):
        found.strangers[holder][node] = _stranger(end.name, record, "was there before Pinion")
    else:
        found.children[holder].add(node)
        found.units.setdefault(node, unit)


def _judge_cable(cable: Record, holder: Node, found: _Found) -> None:
    """A cable does not go along, but it would lose its end. One of ours is deleted before, whichever unit it is of."""
    if mark_of(cable) is None:
        reason = "hangs on it and was not made by Pinion"
    elif is_adopted(cable):
        reason = "hangs on it and was there before Pinion"
    else:
        return
    found.strangers[holder][(CABLE.content_type, identity(cable))] = _stranger(CABLE.name, cable, reason)


def _stranger(name: str, record: Record, reason: str, *, ours: bool = False) -> Stranger:
    where = f" ({url})" if (url := page(record)) else ""
    return Stranger(f"{name} {record.get('display') or identity(record)} {reason}{where}", ours)


def _made_from_templates(store: RecordStore, ends: Sequence[EndPoint], found: _Found) -> None:
    """Tell apart, among what carries no mark, what a device's type made with the device; the rest are strangers.

    A port `Console` of a device type becomes a port `Console` of each device. Its own list holds the templates: the content type's name
    with `template` behind it.
    """
    lists = {end.content_type: end for end in ends}
    asked = [
        one
        for one in found.unmarked
        if one.holder[0] == DEVICE.content_type and f"{one.end.content_type}template" in lists
    ]
    devices = _devices(store, {one.holder[1] for one in asked})
    names: dict[tuple[str, int], set[str]] = {}
    for one in found.unmarked:
        node = (one.end.content_type, identity(one.record))
        device = devices.get(one.holder[1]) if one in asked else None
        model = plain(device.get("device_type")) if device else None
        if device and isinstance(model, int) and _made_together(device, one.record):
            templates = lists[f"{one.end.content_type}template"]
            if (templates.path, model) not in names:
                names[templates.path, model] = _names(store, templates, model)
            if one.record.get("name") in names[templates.path, model]:
                found.children[one.holder].add(node)
                found.units.setdefault(node, found.units[one.holder])
                continue
        found.strangers[one.holder][node] = _stranger(
            one.end.name, one.record, "hangs on it and was not made by Pinion"
        )
    found.unmarked.clear()


def _devices(store: RecordStore, numbers: Collection[int]) -> dict[int, Record]:
    """Devices by id, with their type and the moment of their creation."""
    query = [("fields", "id,created,device_type"), *(("id", str(one)) for one in sorted(numbers))]
    return {identity(one): one for one in store.listing(DEVICE.path, query)} if numbers else {}


def _names(store: RecordStore, templates: EndPoint, model: int) -> set[str]:
    """Names of the templates of one kind that a device type has."""
    reference = next((one for one in templates.references if one.field == "device_type"), None)
    if reference is None:
        return set()
    records = _asked(store, templates, reference, [model])
    return {str(one.get("name")) for one in records if plain(one.get("device_type")) == model}


def _made_together(device: Record, part: Record) -> bool:
    """Whether a part was made with its device and is as it was made: NetBox moves `last_updated` with every change."""
    moments = [device.get("created"), part.get("created"), part.get("last_updated")]
    if not all(isinstance(one, str) for one in moments):
        return False
    begin, made, changed = (datetime.fromisoformat(str(one)) for one in moments)
    return (
        abs((made - begin).total_seconds()) <= _WITH_ITS_DEVICE and abs((changed - made).total_seconds()) <= _UNTOUCHED
    )
