"""Removing what a unit does not want any more: cables first, what they hang on last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinion.drivers.netbox.compared import changes
from pinion.drivers.netbox.compared.batch import Batch, Unit
from pinion.drivers.netbox.compared.renamed import same_racks
from pinion.drivers.netbox.errors import NetBoxError
from pinion.drivers.netbox.kinds import (
    CATALOGUE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS,
    MARKED_KINDS,
    PREFIX,
    RACK,
    Ends,
    Key,
    Kind,
    Ref,
)
from pinion.drivers.netbox.kinds.marks import mark_of
from pinion.drivers.netbox.kinds.values import Record, identity
from pinion.drivers.netbox.written.removal import Removal

#: Kinds whose natural keys hold no reference: what another unit of the batch wants of them is handed over instead of deleted.
_HANDED_OVER = frozenset({PREFIX, IP_RANGE, IP_ADDRESS})


def remove_unwanted(batch: Batch) -> None:
    """Delete records of ours that their unit does not want any more."""
    batch.load(*MARKED_KINDS)
    renamed = {identity(one) for one in same_racks(batch).values()}
    stale: dict[Kind, list[tuple[Unit, Record]]] = {}
    for kind in reversed(MARKED_KINDS):
        wanted = {want.mark for _, want in batch.by_kind[kind]}
        elsewhere = _wanted_elsewhere(batch, kind)
        by_unit = batch.view.by_unit(kind, [unit.mark for unit in batch.units])
        found = [
            (unit, record)
            for unit in batch.units
            for record in by_unit[unit.mark]
            if mark_of(record) not in wanted
            and not (kind is RACK and identity(record) in renamed)
            and not elsewhere.intersection(kind.natural_keys(kind.plain(record)))
        ]
        if found:
            stale[kind] = found
    if not stale:
        return
    try:
        _remove(batch, stale)
    except NetBoxError as error:  # what hangs on them can't be told: nothing was deleted
        for unit in {unit for pairs in stale.values() for unit, _ in pairs}:
            unit.fail(error.about(error.object))
    if not batch.dry:
        batch.view.forget(*KINDS)  # deletions cascade and null; what we knew may be wrong
        batch.load(*MARKED_KINDS)


def _wanted_elsewhere(batch: Batch, kind: Kind) -> set[Key]:
    if kind not in _HANDED_OVER:
        return set()
    bodies = [
        {name: value for name, value in want.body.items() if not isinstance(value, (Ref, Ends, tuple))}
        for _, want in batch.by_kind[kind]
    ]
    return {key for body in bodies for key in kind.natural_keys(body)}


def _remove(batch: Batch, stale: Mapping[Kind, Sequence[tuple[Unit, Record]]]) -> None:
    going = {kind: [record for _, record in pairs] for kind, pairs in stale.items()}
    for kind, answers in Removal(batch.store, dry=batch.dry).remove_all(going).items():
        owners = {identity(record): unit for unit, record in stale[kind]}
        for record, error, _ in answers:
            unit = owners[identity(record)]
            if error is None:
                changes.removed(unit, kind, record)
            elif kind not in CATALOGUE:  # what others still use is theirs now
                unit.fail(error)
