"""The one algorithm behind every apply and every preview: for each kind in order, look, compare, write what differs.

Invariants:

* Preview and apply run the same code; a preview stops short of the writes.
* A POST follows a look-up that found nothing, and is never repeated without another look-up.
* Nothing is written where nothing differs, since NetBox moves `last_updated` even for equal values.
* Every write names the version it was decided on (If-Match); when that moved, we look again and decide again.
* A unit that fails takes nothing with it but what refers to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    MissingError,
    NetBoxError,
    RefusedError,
    StaleError,
    UnreachableError,
)
from pinion.drivers.netbox.kinds import (
    CATALOGUE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    KINDS,
    KINDS_OF_UNIT,
    MARK,
    MARKED_KINDS,
    TAG,
    Kind,
)
from pinion.drivers.netbox.matching import Match, candidates, compare, describe, match
from pinion.drivers.netbox.plain import mark_of, page
from pinion.drivers.netbox.removal import Removal, in_use
from pinion.drivers.netbox.resolve import Resolver
from pinion.drivers.netbox.results import Change, Conflict, Step
from pinion.drivers.netbox.retry import Budget
from pinion.drivers.netbox.store import Body, Record, RecordStore, etag, identity
from pinion.drivers.netbox.wants import Ref, Want
from pinion.drivers.netbox.world import World
from pinion.drivers.netbox.writes import Writes

#: How often we look again at records that keep changing under us.
ATTEMPTS = 5


@dataclass(slots=True, eq=False)
class Unit:
    """One unit on its way: what it wants, what came of it."""

    key: str
    mark: str
    wants: Sequence[Want]
    adopt: bool = False
    error: NetBoxError | None = None
    exists: bool = False
    conflicts: list[Conflict] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    journal: list[Step] = field(default_factory=list)

    def fail(self, error: NetBoxError) -> None:
        """Note the first error; what comes after it follows from it."""
        if self.error is None:
            error.unit = self.key
            self.error = error


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    unit: Unit
    want: Want
    body: dict[str, JsonValue]


class Engine:
    """One run over a batch of units. *dry*: a preview."""

    def __init__(
        self, store: RecordStore, world: World, units: Sequence[Unit], *, dry: bool, total_time: float = 120.0,
        budget: Callable[[float], Budget] = Budget,
    ) -> None:  # fmt: skip
        self._store = store
        self._world = world
        self._units = units
        self._dry = dry
        self._writes = Writes(store)
        self._resolver = Resolver(world, dry=dry)
        self._budget = budget
        self._total_time = total_time
        self._by_kind: dict[Kind, list[tuple[Unit, Want]]] = defaultdict(list)
        self._outside: dict[Kind, dict[str, Ref]] = defaultdict(dict)
        self._tried: set[tuple[Kind, str]] = set()
        self._plan()

    def _plan(self) -> None:
        own = {(want.kind, want.mark) for unit in self._units for want in unit.wants}
        for unit in self._units:
            for want in unit.wants:
                self._by_kind[want.kind].append((unit, want))
                for ref in want.refs():
                    if (ref.kind, ref.mark) not in own:
                        self._outside[ref.kind][ref.mark] = ref

    def run(self) -> None:
        """Bring every unit to its wish, or note in it why not."""
        self._remove_stale()
        for kind in KINDS:
            self._settle_outside(kind)
            self._settle(kind)
            if (
                kind is IP_ADDRESS
            ):  # all that late fields refer to is there; cables move the interfaces' version, so they come after
                self._settle_late(INTERFACE)
                self._settle_late(DEVICE)

    # --- what is no longer wanted ---------------------------------------------------------------------------------------

    def _remove_stale(self) -> None:
        """Delete records of ours that their unit does not want any more: cables first, what they hang on last."""
        removed = False
        self._load(*MARKED_KINDS)
        for kind in reversed(MARKED_KINDS):
            wanted = {want.mark for _, want in self._by_kind[kind]}
            by_unit = self._world.by_unit(kind, [unit.mark for unit in self._units])
            stale = [
                (unit, record) for unit in self._units for record in by_unit[unit.mark] if mark_of(record) not in wanted
            ]
            if stale:
                removed = True
                self._remove(kind, stale)
        if removed and not self._dry:
            self._world.forget(*KINDS)  # deletions cascade and null; what we knew may be wrong
            self._load(*MARKED_KINDS)

    def _remove(self, kind: Kind, stale: Sequence[tuple[Unit, Record]]) -> None:
        owners = {identity(record): unit for unit, record in stale}
        records = [record for _, record in stale]
        if self._dry:
            used = in_use(self._store, kind, records)
            gone = [record for record in records if identity(record) not in used]
        else:
            answers = Removal(self._store, self._writes).remove(kind, records)
            gone = [record for record, error in answers if error is None]
            for record, error in answers:
                if error is not None and kind not in CATALOGUE:  # what others still use is theirs now
                    owners[identity(record)].fail(error)
        for record in gone:
            unit = owners[identity(record)]
            unit.changes.append(
                Change(
                    _stale_path(unit, record),
                    "remove",
                    record.get("display"),
                    None,
                    describe(kind, record),
                    page(record),
                )
            )
            unit.journal.append(Step("remove", kind.name, identity(record), record))

    # --- what is wanted -------------------------------------------------------------------------------------------------

    def _load(self, *kinds: Kind) -> None:
        relevant = {want.kind for unit in self._units for want in unit.wants}
        relevant |= {kind for unit in self._units for kind in KINDS_OF_UNIT[unit.mark.split("/")[1]]}
        units = [unit.mark for unit in self._units]
        wanted = {}
        for kind in kinds:
            marks = [want.mark for _, want in self._by_kind[kind]] + list(self._outside[kind])
            if marks or kind in relevant:
                wanted[kind] = (marks, units if kind in relevant else [])
        self._world.load_all(wanted)

    def _settle_outside(self, kind: Kind) -> None:
        """Find the ids of what our wants refer to and nobody in this batch makes."""
        waiting: list[tuple[Ref, dict[str, JsonValue]]] = []
        for ref in self._outside[kind].values():
            if found := self._world.marked(kind, ref.mark):
                self._resolver.know(ref, identity(found[0]))
                continue
            fields: dict[str, JsonValue] = {}
            for name, value in ref.natural:
                resolved = self._resolver.value(value)
                if not isinstance(resolved, MissingError):
                    fields[name] = resolved
            if ref.natural and len(fields) == len(ref.natural):
                waiting.append((ref, fields))
            else:
                self._resolver.miss(ref)
        self._look_up(kind, [fields for _, fields in waiting])
        for ref, fields in waiting:
            hits = candidates(self._world, kind, fields)
            if hits:
                self._resolver.know(ref, identity(hits[0]))
            else:
                self._resolver.miss(ref)

    def _settle(self, kind: Kind) -> None:
        """Make every record of one kind as wanted."""
        todo = [(unit, want) for unit, want in self._by_kind[kind] if self._alive(unit)]
        budget = self._budget(self._total_time)
        for attempt in range(ATTEMPTS):
            items = self._resolved(todo)
            if not items:
                return
            self._load(kind)
            creates, updates = self._decide(kind, items)
            if self._dry:
                self._pretend(creates, updates)
                return
            again = self._create(kind, creates, attempt) + self._update(kind, updates, attempt)
            if not again:
                return
            todo = [(item.unit, item.want) for item, _ in again]
            patient = attempt + 1 < ATTEMPTS and budget.pause()
            self._world.forget(kind)
            if not patient:
                self._give_up(kind, again)
                return

    def _give_up(self, kind: Kind, again: Sequence[tuple[_Item, Exception]]) -> None:
        """A last look: what our lost POSTs have made by now is made; the rest has failed."""
        self._load(kind)
        for item, reason in again:
            records = self._world.marked(kind, item.want.mark)
            if records and (kind, item.want.mark) in self._tried:
                self._note(item, records[0])
                self._account_creation(item, records[0])
            else:
                item.unit.fail(_given_up(item.want, reason))

    def _alive(self, unit: Unit) -> bool:
        return unit.error is None or self._dry

    def _resolved(self, todo: Iterable[tuple[Unit, Want]]) -> list[_Item]:
        items = []
        for unit, want in todo:
            body: dict[str, JsonValue] = {}
            missing: MissingError | None = None
            for name, value in want.body.items():
                resolved = self._resolver.value(value)
                if isinstance(resolved, MissingError):
                    missing = missing or resolved
                else:
                    body[name] = resolved
            if missing is not None:
                unit.fail(MissingError(want.label, missing.reason, missing.url))
            else:
                items.append(_Item(unit, want, body))
        return items

    def _decide(self, kind: Kind, items: Sequence[_Item]) -> tuple[list[_Item], list[tuple[_Item, Match]]]:
        """Match each want with what is there: what to create, what to compare. Conflicts end their unit."""
        unmatched = [item for item in items if not self._world.marked(kind, item.want.mark)]
        self._look_up(kind, [item.body for item in unmatched])
        creates: list[_Item] = []
        updates: list[tuple[_Item, Match]] = []
        for item in items:
            inside = self._resolver.value(item.want.inside) if item.want.inside else None
            found = match(self._world, item.want, item.body, adopt=item.unit.adopt, inside=inside)
            if isinstance(found, Conflict):
                item.unit.conflicts.append(found)
                item.unit.fail(ExistsError(found.object, found.reason, found.url))
                if item.want.mark == item.unit.mark:
                    item.unit.exists = True
                if self._dry:
                    self._resolver.pretend(Ref(kind, item.want.mark, item.want.label))
            elif found is None:
                creates.append(item)
            else:
                self._note(item, found.record)
                if (kind, item.want.mark) in self._tried:  # an earlier attempt got through although its answer was lost
                    self._account_creation(item, found.record)
                self._drop_doubles(kind, item, found)
                updates.append((item, found))
        return creates, updates

    def _look_up(self, kind: Kind, bodies: Sequence[Mapping[str, JsonValue]]) -> None:
        for fixed, name, values in self._resolver.searches(kind, bodies):
            self._world.look_up(kind, fixed, name, values)

    def _note(self, item: _Item, record: Record) -> None:
        self._resolver.know(Ref(item.want.kind, item.want.mark, item.want.label), identity(record))
        if item.want.mark == item.unit.mark:
            item.unit.exists = True

    def _drop_doubles(self, kind: Kind, item: _Item, found: Match) -> None:
        """Two creators raced past a check that is no lock: the lowest id stays, whoever sees the others deletes them."""
        if self._dry or not found.doubles:
            return
        for double, error in Removal(self._store, self._writes).remove(kind, found.doubles):
            self._world.drop(kind, identity(double))
            if error is not None:
                item.unit.fail(_as_error(error, f"second {item.want.label}", page(double)))

    # --- writes ---------------------------------------------------------------------------------------------------------

    def _create(self, kind: Kind, items: Sequence[_Item], attempt: int) -> list[tuple[_Item, Exception]]:
        """Create; the items to look at again, with the reason."""
        again: list[tuple[_Item, Exception]] = []
        made: list[_Item] = []
        bodies = [_creation(item) for item in items]
        for item, answer in zip(items, self._writes.create(kind, bodies, attempt=attempt), strict=True):
            if isinstance(answer, Exception):
                # Taken by now: by another's hand, or by our own earlier POST whose answer was lost and which the server was still at.
                if _passing(answer) or (isinstance(answer, RefusedError) and _looks_taken(answer)):
                    again.append((item, answer))
                    self._tried.add((kind, item.want.mark))
                else:
                    item.unit.fail(_as_error(answer, item.want.label, None))
                continue
            made.append(item)
            self._world.put(kind, answer)
            self._note(item, answer)
            self._account_creation(item, answer)
        if kind.weak and made:
            self._verify(kind, made)
        return again

    def _account_creation(self, item: _Item, record: Record) -> None:
        kind = item.want.kind
        self._tried.discard((kind, item.want.mark))
        item.unit.changes.append(Change(item.want.path, "add", None, self._shown(item), item.want.label, page(record)))
        item.unit.journal.append(Step("add", kind.name, identity(record)))

    def _shown(self, item: _Item) -> dict[str, JsonValue]:
        """The properties of a new record, in words of the unit."""
        return {
            path or "value": self._resolver.show(item.want.body[name])
            for name, path in item.want.paths.items()
            if name in item.want.body
        }

    def _verify(self, kind: Kind, items: Sequence[_Item]) -> None:
        """After a create that no constraint guards: look whether another one got in beside it, and let the higher id go."""
        self._look_up(kind, [item.body for item in items])
        for item in items:
            hits = candidates(self._world, kind, item.body)
            ours = [record for record in hits if mark_of(record) == item.want.mark]
            strangers = [record for record in hits if mark_of(record) != item.want.mark]
            if not strangers:
                found = match(self._world, item.want, item.body, adopt=False, inside=None)
                if isinstance(found, Match):
                    self._note(item, found.record)
                    self._drop_doubles(kind, item, found)
                continue
            first = strangers[0]
            if ours and identity(ours[0]) > identity(first):
                for record in ours:
                    self._writes.delete(kind, [identity(record)], [etag(record) or "*"])
                    self._world.drop(kind, identity(record))
                reason = "was created by someone else at the same moment"
                item.unit.fail(ExistsError(item.want.label, reason, page(first)))

    def _update(self, kind: Kind, pairs: Sequence[tuple[_Item, Match]], attempt: int) -> list[tuple[_Item, Exception]]:
        again: list[tuple[_Item, Exception]] = []
        work: list[tuple[_Item, Match, Body]] = []
        for item, found in pairs:
            if patch := compare(item.want, item.body, found):
                work.append((item, found, {"id": identity(found.record), **patch}))
        tags = [etag(found.record) or "*" for _, found, _ in work]
        answers = self._writes.update(kind, [patch for _, _, patch in work], tags, attempt=attempt)
        for (item, found, patch), answer in zip(work, answers, strict=True):
            if isinstance(answer, Exception):
                # "Not permitted" is also what NetBox says of an object that goes while it works on it.
                if _passing(answer) or (isinstance(answer, DeniedError) and not answer.token and attempt == 0):
                    again.append((item, answer))
                else:
                    item.unit.fail(_as_error(answer, item.want.label, page(found.record)))
                continue
            item.unit.changes += self._changes(item, found, patch)
            item.unit.journal.append(Step("update", kind.name, identity(answer), _before(found.record, patch)))
            self._world.put(kind, answer)
        return again

    def _pretend(self, creates: Sequence[_Item], updates: Sequence[tuple[_Item, Match]]) -> None:
        for item in creates:
            self._resolver.pretend(Ref(item.want.kind, item.want.mark, item.want.label))
            item.unit.changes.append(Change(item.want.path, "add", None, self._shown(item), item.want.label, None))
        for item, found in updates:
            if patch := compare(item.want, item.body, found):
                item.unit.changes += self._changes(item, found, {"id": identity(found.record), **patch})

    def _changes(self, item: _Item, found: Match, patch: Mapping[str, JsonValue]) -> list[Change]:
        changes = []
        where = page(found.record)
        for name in patch:
            if name in ("id", "custom_fields") or name not in found.differing:
                continue
            path = _join(item.want.path, item.want.paths.get(name))
            value = item.want.body[name] if name in item.want.body else item.want.late.get(name)
            changes.append(
                Change(
                    path,
                    "update",
                    _site_word(name, served_word(found.record.get(name))),
                    _site_word(name, self._resolver.show(value)),
                    item.want.label,
                    where,
                )
            )
        if "add_tags" in patch or "custom_fields" in patch:
            changes.append(
                Change(item.want.path, "update", "not marked as Pinion's", "marked as Pinion's", item.want.label, where)
            )
        return changes

    # --- late fields ----------------------------------------------------------------------------------------------------

    def _settle_late(self, kind: Kind) -> None:
        """Set the fields that refer to later kinds (primary address, primary MAC)."""
        todo = [(unit, want) for unit, want in self._by_kind[kind] if want.late and self._alive(unit)]
        budget = self._budget(self._total_time)
        for attempt in range(ATTEMPTS):
            pairs = self._late_pairs(kind, todo)
            if self._dry:
                self._pretend([], pairs)
                return
            again = self._update(kind, pairs, attempt)
            if not again:
                return
            todo = [(item.unit, item.want) for item, _ in again]
            if attempt + 1 == ATTEMPTS or not budget.pause():
                for item, reason in again:
                    item.unit.fail(_given_up(item.want, reason))
                return
            self._world.forget(kind)
            self._load(kind)

    def _late_pairs(self, kind: Kind, todo: Iterable[tuple[Unit, Want]]) -> list[tuple[_Item, Match]]:
        pairs = []
        for unit, want in todo:
            records = self._world.marked(kind, want.mark)
            if not records:
                continue  # a preview of something new, or taken away meanwhile: the next run sees it
            body: dict[str, JsonValue] = {}
            for name, value in want.late.items():
                resolved = self._resolver.value(value)
                if isinstance(resolved, MissingError):
                    unit.fail(MissingError(want.label, resolved.reason, resolved.url))
                else:
                    body[name] = resolved
            pairs.append((_Item(unit, want, body), Match(records[0])))
        return pairs


def served_word(value: JsonValue) -> JsonValue:
    """A served value in a word: the slug, name or address of a related object, the bare value of a choice."""
    if isinstance(value, Mapping):
        for name in ("value", "slug", "name", "address", "mac_address", "display"):
            if name in value:
                return value[name]
        return None
    if isinstance(value, list):
        return [_end_word(item) for item in value]
    return value


def _site_word(name: str, word: JsonValue) -> JsonValue:
    """NetBox's word for a choice in the site file's."""
    return "trunk" if name == "mode" and word == "tagged" else word


def _end_word(item: JsonValue) -> JsonValue:
    if isinstance(item, Mapping) and isinstance(thing := item.get("object"), Mapping):
        device = thing.get("device")
        return f"{served_word(device)} {thing.get('name')}" if device else thing.get("name")
    return served_word(item)


def _creation(item: _Item) -> Body:
    body: Body = {name: value for name, value in item.body.items() if value is not None}
    body["tags"] = [{"slug": TAG}]
    body["custom_fields"] = {MARK: item.want.mark}
    return body


def _before(record: Record, patch: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: record.get(name) for name in patch if name in record and name != "id"} | (
        {"taken": True} if "custom_fields" in patch and mark_of(record) is None else {}
    )


def _join(path: str, name: str | None) -> str:
    if not name:
        return path
    return f"{path}.{name}" if path else name


def _stale_path(unit: Unit, record: Record) -> str:
    """Where a record that nothing wants any more stood in its unit: from its mark."""
    rest = (mark_of(record) or "").removeprefix(unit.mark).strip("/")
    stem, _, name = rest.partition("/")
    return {
        "prefix": f"prefixes[{name}]", "range": f"ranges[{name}]", "interface": f"interfaces[{name}]", "rack": f"racks[{name}]",
        "cable": f"interfaces[{name}].cable", "mac": f"interfaces[{name}].mac", "device-type": f"device_types[{name.rpartition('/')[2]}]",
        "device-role": f"device_roles[{name}]", "platform": f"platforms[{name}]", "vlan-role": f"vlan_roles[{name}]", "region": "region",
        "address": f"interfaces[{_holder(record)}].addresses[{name}]",
    }.get(stem, rest)  # fmt: skip


def _holder(record: Record) -> JsonValue:
    thing = record.get("assigned_object")
    return thing.get("name") if isinstance(thing, Mapping) else "?"


def _passing(error: Exception) -> bool:
    """Whether looking again may help."""
    return isinstance(error, (ChangedError, UnreachableError))


def _looks_taken(error: RefusedError) -> bool:
    """Whether a refused create may mean that the object exists by now: then a look-up finds it."""
    text = error.reason.lower()
    return any(word in text for word in ("already", "duplicate", "unique", "overlap"))


def _given_up(want: Want, reason: Exception) -> NetBoxError:
    if isinstance(reason, UnreachableError):
        return UnreachableError(want.label, reason.reason, reason.url, maybe_applied=reason.maybe_applied)
    if isinstance(reason, NetBoxError):
        return RefusedError(want.label, reason.reason, reason.url)
    text = reason.reason if isinstance(reason, ChangedError) else str(reason)
    return StaleError(want.label, f"kept changing while we worked on it: {text}")


def _as_error(answer: Exception, label: str, url: str | None) -> NetBoxError:
    if isinstance(answer, NetBoxError):
        copy = type(answer)(label, answer.reason, url or answer.url)
        for name in ("token", "maybe_applied"):
            if hasattr(answer, name):
                setattr(copy, name, getattr(answer, name))
        return copy
    return StaleError(label, str(answer), url)
