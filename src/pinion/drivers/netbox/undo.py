"""Taking an apply back: what it added is deleted, what it changed gets its old values, what it removed is made again.

Newest first, and only where nobody touched the record since (If-Match on what we read now, and our mark must still be there).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import ADOPTED, KINDS, MARK, Kind
from pinion.drivers.netbox.plain import mark_of, page, plain
from pinion.drivers.netbox.removal import Removal, release
from pinion.drivers.netbox.results import Deleted, Left, Step
from pinion.drivers.netbox.store import Body, Record, RecordStore, etag, identity
from pinion.drivers.netbox.words import describe
from pinion.drivers.netbox.writes import Writes

_BY_NAME = {kind.name: kind for kind in KINDS}


def take_back(store: RecordStore, journal: Sequence[Step]) -> Deleted:
    """Undo *journal*; says what was deleted and what could not be taken back."""
    writes = Writes(store)
    removal = Removal(store, writes)
    deleted: list[str] = []
    left: list[Left] = []
    for step in reversed(journal):
        kind = _BY_NAME[step.kind]
        if step.action == "remove":
            left += _make_again(writes, kind, step.before)
            continue
        record = next(iter(store.find(kind, {}, "id", [str(step.id)])), None)
        if record is None or (kind.marked and mark_of(record) is None):
            continue  # gone, or not ours any more
        if step.action == "add":
            (outcome,) = removal.remove(kind, [record])
            if outcome.left is None:
                deleted.append(describe(kind, record))
            else:
                left.append(outcome.left)
        else:
            left += _put_back(writes, kind, record, step.before)
    return Deleted(tuple(deleted), tuple(left))


def _put_back(writes: Writes, kind: Kind, record: Record, before: Mapping[str, JsonValue]) -> list[Left]:
    patch: Body = {name: plain(value) for name, value in before.items() if name in kind.fields}
    patch["id"] = identity(record)
    if "mark" in before:
        patch.update(release(record) if before["mark"] is None else {"custom_fields": {MARK: before["mark"]}})
    answer = writes.update(kind, [patch], [etag(record) or "*"])[0]
    return (
        [Left(describe(kind, record), page(record), f"could not get its old values: {answer}")]
        if isinstance(answer, Exception)
        else []
    )


def _make_again(writes: Writes, kind: Kind, before: Mapping[str, JsonValue]) -> list[Left]:
    body: Body = {
        name: plain(before[name])
        for name in kind.fields
        if before.get(name) is not None and not name.startswith("primary_")
    }
    fields = before.get("custom_fields")
    if isinstance(fields, Mapping):
        body["custom_fields"] = {name: fields.get(name) for name in (MARK, ADOPTED) if fields.get(name) is not None}
        body["tags"] = (
            [{"slug": tag["slug"]} for tag in tags if isinstance(tag, Mapping)]
            if isinstance(tags := before.get("tags"), list)
            else []
        )
    answer = writes.create(kind, [body])[0]
    name = f"{kind.name} {before.get('display')}"
    return [Left(name, None, f"could not be made again: {answer}")] if isinstance(answer, Exception) else []
