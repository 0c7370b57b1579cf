"""Making room between the units of one site: what must be done before a record can be taken over, or a value that another still has.

NetBox refuses a second VID, name, rack unit, port or range, and to move an address that is another device's primary one. So whatever of
ours is in the way makes room first: a VLAN leaves its group, a device gets a passing name or leaves its rack unit, a primary address is
cleared, a cable or a range is deleted. Each of these is one write, after which a repeated run finds its way from what is there: the unit
that lost something is either gone from the site file, or the same `up` brings it to its new state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from pinion.drivers.netbox.compared import changes
from pinion.drivers.netbox.compared.batch import Batch, Item
from pinion.drivers.netbox.compared.matching import Match, Others, candidates, overlapping, own
from pinion.drivers.netbox.compared.renamed import has_place
from pinion.drivers.netbox.errors import NetBoxError, RefusedError
from pinion.drivers.netbox.kinds import CABLE, DEVICE, DEVICE_TYPE, INTERFACE, IP_ADDRESS, IP_RANGE, MARK, VLAN, Kind
from pinion.drivers.netbox.kinds.marks import is_adopted, is_of_site, mark_of, site_of
from pinion.drivers.netbox.kinds.values import Body, Record, etag, identity, page, plain
from pinion.drivers.netbox.written.dependents import kept

#: Decided items: each with the record that it gets, None when it is to be created.
Decisions = Sequence[tuple[Item, Match | None]]


@dataclass(frozen=True, slots=True)
class _Step:
    """What a record must do to make room for an item: *patch*, None to be deleted."""

    item: Item
    kind: Kind
    record: Record
    patch: Body | None


class Room:
    """Makes room for the records of one run. *inherited*: marks whose new cable stands for one that was there before us."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._view = batch.view
        self.inherited: set[str] = set()
        self._placed: list[Record] | None = None
        self._finders: dict[Kind, Callable[[Item, Match | None, Others], list[_Step]]] = {
            VLAN: self._vlans,
            DEVICE: self._devices,
            CABLE: self._cables,
            IP_RANGE: self._ranges,
            IP_ADDRESS: self._primary,
        }

    # --- making room ----------------------------------------------------------------------------------------------------

    def make(self, kind: Kind, decisions: Decisions, others: Others) -> bool:
        """Exchange marks and move aside what is in the way. True when something was written: then decide anew."""
        written = False
        moved: set[int] = set()  # decided on marks that an exchange of this round has changed since
        for item, found in decisions:
            if found is None or found.displaced is None:
                continue
            pair = {identity(found.record), identity(found.displaced)}
            if not pair & moved and self._exchange(kind, item, found):
                written = True
                moved |= pair
        groups: dict[tuple[Kind, bool], dict[int, _Step]] = {}
        for step in self._steps(kind, decisions, others):
            groups.setdefault((step.kind, step.patch is None), {})[identity(step.record)] = step
        for (target, _), steps in groups.items():
            written |= self._write(target, list(steps.values()))
        return written

    def foresee(self, kind: Kind, decisions: Decisions, others: Others) -> None:
        """In a preview: tell what would be deleted."""
        for step in self._steps(kind, decisions, others):
            if step.patch is None and identity(step.record) not in others.gone:
                others.gone.add(identity(step.record))
                changes.removed(step.item.unit, kind, step.record, step.item.want.path)

    def _steps(self, kind: Kind, decisions: Decisions, others: Others) -> list[_Step]:
        find = self._finders.get(kind)
        self._placed = None
        return [step for item, found in decisions for step in find(item, found, others)] if find else []

    def _rivals(self, kind: Kind, item: Item, found: Match | None, others: Others) -> list[Record]:
        """Records of ours, of the same site, that share a natural key with the wanted one."""
        mine = {identity(found.record)} if found else set()
        mine |= {identity(one) for one in own(self._view, item.want, others)} | others.gone
        hits = candidates(self._view, kind, item.body)
        return [one for one in hits if identity(one) not in mine and is_of_site(one, item.want.mark)]

    def _vlans(self, item: Item, found: Match | None, others: Others) -> list[_Step]:
        group = item.body.get("group")
        rivals = [one for one in self._rivals(VLAN, item, found, others) if plain(one.get("group")) == group]
        return [_Step(item, VLAN, one, {"group": None}) for one in rivals]

    def _devices(self, item: Item, found: Match | None, others: Others) -> list[_Step]:
        rivals = self._rivals(DEVICE, item, found, others)
        steps = [_Step(item, DEVICE, one, {"name": _passing_name(one)}) for one in rivals]
        position = item.body.get("position")
        if isinstance(position, (int, float)) and not (found and has_place(found.record, item.body)):
            mine = identity(found.record) if found else None
            rack, mark = item.body.get("rack"), item.want.mark
            near = [one for one in self._in_racks() if plain(one.get("rack")) == rack and is_of_site(one, mark)]
            near = [one for one in near if identity(one) != mine]
            end = position + self._height(item.body.get("device_type")) if near else position
            for one in near:
                start = one["position"]
                assert isinstance(start, (int, float))
                if start < end and position < start + self._height(plain(one.get("device_type"))):
                    steps.append(_Step(item, DEVICE, one, {"position": None, "face": None}))
        return _merged(steps)

    def _in_racks(self) -> list[Record]:
        """Our devices that fill a rack unit."""
        if self._placed is None:
            sites = {site_of(unit.mark) for unit in self._batch.units}
            ours = [one for site in sites for one in self._view.beneath(DEVICE, f"{site}/device")]
            self._placed = [one for one in ours if one.get("position") is not None]
        return self._placed

    def _height(self, number: JsonValue) -> float:
        """Rack units that devices of a type fill."""
        if not isinstance(number, int) or number < 0:
            return 1.0
        height = (self._fetched(DEVICE_TYPE, number) or {}).get("u_height")
        return float(height) if isinstance(height, (int, float)) else 1.0

    def _cables(self, item: Item, found: Match | None, others: Others) -> list[_Step]:
        return [_Step(item, CABLE, one, None) for one in self._rivals(CABLE, item, found, others)]

    def _ranges(self, item: Item, found: Match | None, others: Others) -> list[_Step]:
        if found is not None and IP_RANGE.is_at_home(found.record, item.body):
            return []
        mine = {identity(found.record)} if found else set()
        parts = overlapping(self._view, item.body, item.want.mark, others)
        return [_Step(item, IP_RANGE, one, None) for one in parts if identity(one) not in mine and not is_adopted(one)]

    def _primary(self, item: Item, found: Match | None, _: Others) -> list[_Step]:
        """The device whose primary address it is, when it moves to another one."""
        if found is None or plain(found.record.get("assigned_object_id")) == item.body.get("assigned_object_id"):
            return []
        holder = _device_of(found.record)
        target = item.body.get("assigned_object_id")
        new = self._view.get(INTERFACE, target) if isinstance(target, int) else None
        if holder is None or (new is not None and plain(new.get("device")) == holder):
            return []
        device = self._fetched(DEVICE, holder)
        if device is None or not is_of_site(device, item.want.mark):
            return []
        number = identity(found.record)
        fields: Body = {name: None for name in ("primary_ip4", "primary_ip6") if plain(device.get(name)) == number}
        return [_Step(item, DEVICE, device, fields)] if fields else []

    def _fetched(self, kind: Kind, number: int) -> Record | None:
        if self._view.get(kind, number) is None:
            self._view.look_at(kind, [number])
        return self._view.get(kind, number)

    # --- writes ---------------------------------------------------------------------------------------------------------

    def _write(self, kind: Kind, steps: Sequence[_Step]) -> bool:
        """True when any was done. What was refused or changed meanwhile shows in the write that it was to make room for."""
        tags = [etag(one.record) or "*" for one in steps]
        writes = self._batch.writes
        done = False
        if steps[0].patch is None:
            steps = self._deletable(kind, steps)
            tags = [etag(one.record) or "*" for one in steps]
            answers = writes.delete(kind, [identity(one.record) for one in steps], tags)
            for step, gone in zip(steps, answers, strict=True):
                if gone is None:
                    done = True
                    self._view.drop(kind, identity(step.record))
                    changes.removed(step.item.unit, kind, step.record, step.item.want.path)
                    if is_adopted(step.record):
                        self.inherited.add(self._heir(kind, step))
            return done
        stale: list[int] = []
        patches: list[Body] = [{"id": identity(one.record), **(one.patch or {})} for one in steps]
        for step, answer in zip(steps, writes.update(kind, patches, tags), strict=True):
            if not isinstance(answer, NetBoxError):
                done = True
                self._view.put(kind, answer)
            else:
                stale.append(identity(step.record))
        self._view.look_at(kind, stale)
        return done

    def _deletable(self, kind: Kind, steps: Sequence[_Step]) -> list[_Step]:
        """Those on which nobody hung anything; for the others their unit has failed."""
        try:
            stay = kept(self._batch.store, {kind: [one.record for one in steps]})[kind]
        except NetBoxError as error:
            for one in steps:
                one.item.unit.fail(error.about(error.object))
            return []
        for one in steps:
            if (reason := stay.get(identity(one.record))) is not None:
                one.item.unit.fail(RefusedError(kind.describe(one.record), reason, page(one.record)))
        return [one for one in steps if identity(one.record) not in stay]

    def _heir(self, kind: Kind, step: _Step) -> str:
        """Mark of what will stand for a record that was there before us: its own want, else the one in whose way it was."""
        mark = mark_of(step.record) or ""
        return mark if mark in {want.mark for _, want in self._batch.by_kind[kind]} else step.item.want.mark

    def _exchange(self, kind: Kind, item: Item, found: Match) -> bool:
        """Two records exchange their marks, both or none: one alone would leave two with the same mark."""
        assert found.displaced is not None
        assert found.predecessor is not None
        pair = [(found.record, item.want.mark), (found.displaced, found.predecessor)]
        patches: list[Body] = [{"id": identity(record), "custom_fields": {MARK: mark}} for record, mark in pair]
        try:
            answers = self._batch.store.update(kind, patches, [etag(record) or "*" for record, _ in pair])
        except NetBoxError:
            self._view.forget(kind)  # whatever became of it: the next look shows it
            self._batch.load(kind)
            return False
        for answer in answers:
            self._view.put(kind, answer)
        changes.succeeded(item, found.record, found.predecessor)
        return True


def _merged(steps: Sequence[_Step]) -> list[_Step]:
    """One step a record, with all that it must do."""
    found: dict[int, _Step] = {}
    for one in steps:
        earlier = found.get(identity(one.record))
        patch: Body = {**((earlier.patch or {}) if earlier else {}), **(one.patch or {})}
        found[identity(one.record)] = _Step(one.item, one.kind, one.record, patch)
    return list(found.values())


def _passing_name(record: Record) -> str:
    """A name that no other device can have, for as long as it takes."""
    return f"{str(record.get('name'))[:40]} (moved, {identity(record)})"


def _device_of(address: Record) -> int | None:
    """The device that an address is on, from the nested objects of the answer."""
    interface = address.get("assigned_object")
    device = interface.get("device") if isinstance(interface, dict) else None
    number = device.get("id") if isinstance(device, dict) else None
    return number if isinstance(number, int) else None
