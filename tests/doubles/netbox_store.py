"""A NetBox in memory: the record store for tests, with the traps of the real one.

It answers as the server does, status and body, and turns them into exceptions by the same code as the HTTP store. What the
driver must survive is here too: fields ignored in silence, checks that are no locks, lists refused without a word on which item,
deletions that take others along, versions that move without a change. The contract suite runs against this and the real server.
"""

from __future__ import annotations

import ipaddress
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from doubles.netbox_rules import (
    BLANKED,
    CHOICES,
    DEFAULTS,
    PROTECTED,
    REFERENCES,
    REQUIRED,
    Errors,
    cascade,
    model_errors,
    unique_keys,
    weak_conflict,
)
from pinion.drivers.netbox.answers import write_error
from pinion.drivers.netbox.kinds import (
    CABLE,
    CATALOGUE,
    CUSTOM_FIELDS,
    DEVICE,
    DEVICE_TYPE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS,
    MAC_ADDRESS,
    TAGS,
    VLAN,
    Kind,
    check_fields,
    check_filters,
)
from pinion.drivers.netbox.plain import cable_ends
from pinion.drivers.netbox.results import ServerFacts
from pinion.drivers.netbox.store import Body, Record, etag, identity

_COUNTS: dict[str, str] = {
    "site_count": "region",
    "devicetype_count": "manufacturer",
    "vlan_count": "role",
    "prefix_count": "role",
}


class _RefusalError(Exception):
    """An answer other than success: status and body, as the server sends them."""

    def __init__(self, status: int, body: JsonValue) -> None:
        self.status = status
        self.body = body
        super().__init__(status, body)


class MemoryStore:
    """A `RecordStore` in memory. *version*: whose behaviour. *between*: called between check and insert, for races made on purpose.

    *max_page_size*: the server's setting `MAX_PAGE_SIZE`, which cuts a page (see `page`) without a word.
    """

    def __init__(
        self,
        version: tuple[int, int] = (4, 7),
        between: Callable[[Kind], None] | None = None,
        max_page_size: int = 1000,
    ) -> None:
        self._version = version
        self.max_page_size = max_page_size
        self.between = between or (lambda _: None)
        self._tables: dict[Kind, dict[int, Body]] = {kind: {} for kind in KINDS}
        self._ids = {kind: itertools.count(1) for kind in KINDS}
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._lock = threading.RLock()
        self._templates: dict[int, list[Body]] = {}
        self.calls = 0
        self.writes: list[tuple[str, str, int]] = []

    @property
    def url(self) -> str:
        """Where it would be."""
        return "memory://netbox"

    def facts(self) -> ServerFacts:
        """See `RecordStore.facts`."""
        return ServerFacts(self._version, f"{self._version[0]}.{self._version[1]}.0", self.url, "memory")

    def add_interface_template(self, device_type: int, name: str, kind: str) -> None:
        """Devices of this type get such an interface when they are created, unmarked, as NetBox does from component templates."""
        self._templates.setdefault(device_type, []).append({"name": name, "type": kind})

    # --- reading --------------------------------------------------------------------------------------------------------

    def find(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None = None, values: Sequence[str] = ()
    ) -> list[Record]:
        """See `RecordStore.find`."""
        check_filters(kind, [*fixed, *([name] if name else [])])
        with self._lock:
            self.calls += 1
            rows = [self._tables[kind][key] for key in sorted(self._tables[kind])]
            for field, wanted in fixed.items():
                rows = [row for row in rows if self._matches(kind, row, field, [wanted])]
            if name is not None:
                rows = [row for row in rows if self._matches(kind, row, name, values)]
            return [self._served(kind, row) for row in rows]

    def page(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None, values: Sequence[str], *, start: int, limit: int
    ) -> tuple[list[Record], int | None]:
        """One page as the server cuts it: the records from id *start* on, and the id that the next page starts with, None for the last."""
        later = [one for one in self.find(kind, fixed, name, values) if identity(one) >= start]
        shown = later[: min(limit, self.max_page_size)]
        return shown, identity(shown[-1]) + 1 if len(later) > len(shown) else None

    def _matches(self, kind: Kind, row: Body, field: str, values: Sequence[str]) -> bool:
        if field.startswith("cf_"):
            name, _, lookup = field[3:].partition("__")
            if not any(one.get("name") == name for one in self._tables[CUSTOM_FIELDS].values()):
                return True  # NetBox ignores a filter that it does not know
            held = row.get("custom_fields")
            text = str(held.get(name) or "") if isinstance(held, dict) else ""
            return any(text.lower().startswith(one.lower()) for one in values) if lookup == "isw" else text in values
        if field in ("device_id", "interface_id"):
            return bool({str(number) for number in self._holders(kind, row, field)} & set(values))
        if field == "parent":
            start = ipaddress.ip_interface(str(row.get("start_address"))).ip
            return any(start in ipaddress.ip_network(one) for one in values)
        value = row.get(field if field == "scope_id" else field.removesuffix("_id")) if field != "id" else row.get("id")
        if field == "address":
            return any(str(value) == one or str(value).split("/")[0] == one for one in values)
        if field == "name" and kind is DEVICE:
            return str(value).lower() in {one.lower() for one in values}
        return str(value) in values

    def _holders(self, kind: Kind, row: Body, field: str) -> list[JsonValue]:
        """The interfaces, or their devices, that a record hangs on."""
        if kind is INTERFACE:
            return [row.get("device")] if field == "device_id" else [row.get("id")]
        ends = [number for _, number in cable_ends(row)] if kind is CABLE else [row.get("assigned_object_id")]
        interfaces = [number for number in ends if isinstance(number, int) and number in self._tables[INTERFACE]]
        return (
            list(interfaces)
            if field == "interface_id"
            else [self._tables[INTERFACE][number].get("device") for number in interfaces]
        )

    def _served(self, kind: Kind, row: Body) -> Record:
        record: Record = dict.fromkeys(kind.reading)
        for name, value in row.items():
            record[name] = self._served_value(kind, name, value)
        record["display"] = self._display(kind, row)
        record["url"] = record["display_url"] = f"{self.url}/{kind.path}/{row['id']}/"
        if kind is INTERFACE:
            mine = [one for one in self._tables[MAC_ADDRESS].values() if one.get("assigned_object_id") == row["id"]]
            record["mac_addresses"] = [self._brief(MAC_ADDRESS, one["id"]) for one in mine]
        if kind is IP_ADDRESS:
            record["assigned_object"] = self._interface_object(row.get("assigned_object_id"))
        if kind in CATALOGUE:
            for name in kind.observed:
                record[name] = self._count(kind, name, row["id"])
        return record

    def _served_value(self, kind: Kind, name: str, value: JsonValue) -> JsonValue:
        if name in REFERENCES.get(kind, {}):
            return self._brief(REFERENCES[kind][name], value)
        if name in CHOICES and isinstance(value, str) and value and not (kind is CABLE and name == "type"):
            return {"value": value, "label": value.title()}
        if name == "tagged_vlans" and isinstance(value, list):
            return [self._brief(VLAN, one) for one in value]
        if name in ("a_terminations", "b_terminations") and isinstance(value, list):
            return [
                {**one, "object": self._interface_object(one.get("object_id"))}
                for one in value
                if isinstance(one, dict)
            ]
        if name == "tags" and isinstance(value, list):
            return [{"id": 0, "slug": one, "name": one} for one in value]
        return value

    def _interface_object(self, number: JsonValue) -> JsonValue:
        row = self._tables[INTERFACE].get(number) if isinstance(number, int) else None
        return {"id": number, "name": row["name"], "device": self._brief(DEVICE, row["device"])} if row else None

    def _brief(self, kind: Kind, number: JsonValue) -> JsonValue:
        row = self._tables[kind].get(number) if isinstance(number, int) else None
        if row is None:
            return None
        names = ("name", "slug", "vid", "address", "mac_address", "model")
        brief: Body = {
            "id": number,
            "display": self._display(kind, row),
            **{name: row[name] for name in names if name in row},
        }
        if kind is DEVICE_TYPE:
            (maker,) = REFERENCES[DEVICE_TYPE].values()
            brief["manufacturer"] = self._brief(maker, row["manufacturer"])
        return brief

    def _display(self, kind: Kind, row: Body) -> str:
        if kind is VLAN:
            return f"{row['name']} ({row['vid']})"
        if kind is CABLE:
            return f"#{row['id']}"
        if kind is IP_RANGE:
            return f"{row['start_address']}-{row['end_address']}"
        return str(
            next(
                (row[name] for name in ("name", "model", "prefix", "address", "mac_address") if name in row), row["id"]
            )
        )

    def _count(self, kind: Kind, name: str, number: JsonValue) -> int:
        referring = {"device_count": DEVICE, "prefix_count": None}.get(name)
        total = 0
        for other, fields in REFERENCES.items():
            wanted = referring is other or (
                referring is None and other.name.replace(" ", "").lower() == name.removesuffix("_count")
            )
            for field, target in fields.items():
                if wanted and target is kind:
                    total += sum(1 for row in self._tables[other].values() if row.get(field) == number)
        return total

    # --- writing --------------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        """See `RecordStore.create`."""
        check_fields(kind, {name for body in bodies for name in body})
        return self._write("POST", kind, bodies, lambda: self._create(kind, bodies))

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        """See `RecordStore.update`."""
        check_fields(kind, {name for patch in patches for name in patch})
        return self._write(
            "PATCH", kind, patches, lambda: self._update(kind, patches, etags), [identity(one) for one in patches]
        )

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        """See `RecordStore.delete`."""
        items: list[Body] = [{"id": number} for number in ids]
        self._write("DELETE", kind, items, lambda: self._delete(kind, ids, etags), ids)

    def _write(
        self, method: str, kind: Kind, items: Sequence[Body], work: Callable[[], list[Record]], ids: Sequence[int] = ()
    ) -> list[Record]:  # fmt: skip
        """All or nothing: rows are replaced, never changed in place, so a shallow copy brings the old state back."""
        with self._lock:
            self.calls += 1
            self.writes.append((method, kind.name, len(items)))
            before = {name: dict(table) for name, table in self._tables.items()}
        try:
            return work()
        except _RefusalError as refusal:
            with self._lock:
                if self._version >= (4, 7) or method != "POST":
                    self._tables = before
            raise write_error(
                refusal.status, refusal.body, f"{kind.name} list", f"{self.url}/{kind.path}/", ids
            ) from None

    def _create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        if self._version >= (4, 7):
            return self._create_one_by_one(kind, bodies)
        rows, errors = [], []
        with self._lock:  # 4.6: all are checked before any is saved
            for body in bodies:
                row = self._row(kind, body)
                errors.append(self._errors(kind, row))
                rows.append(row)
        if any(errors):
            first: JsonValue = next(dict(one) for one in errors if one)
            raise _RefusalError(400, first if kind is DEVICE else [dict(one) for one in errors])
        self.between(kind)
        with self._lock:
            before = {name: dict(table) for name, table in self._tables.items()}
            for row in rows:
                if self._unique_errors(kind, row):
                    self._tables = before
                    raise _RefusalError(
                        500, {"error": "duplicate key value violates unique constraint", "exception": "IntegrityError"}
                    )
                self._insert(kind, row)
            return [self._served(kind, row) for row in rows]

    def _create_one_by_one(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        made: list[Body] = []
        errors: list[JsonValue] = []
        for index, body in enumerate(bodies):
            with self._lock:
                row = self._row(kind, body)
                wrong = self._errors(kind, row)
            if wrong:
                errors.append({"index": index, "errors": dict(wrong)})
                continue
            self.between(kind)
            with self._lock:
                if self._unique_errors(kind, row):
                    raise _RefusalError(
                        500, {"error": "duplicate key value violates unique constraint", "exception": "IntegrityError"}
                    )
                self._insert(kind, row)
                made.append(row)
        if errors:
            raise _RefusalError(
                400, {"detail": f"{len(errors)} of {len(bodies)} objects could not be created.", "errors": errors}
            )
        with self._lock:
            return [self._served(kind, row) for row in made]

    def _row(self, kind: Kind, body: Body) -> Body:
        known = {**DEFAULTS.get(kind, {}), **{name: value for name, value in body.items() if name in kind.fields}}
        row: Body = {
            **known,
            "id": next(self._ids[kind]),
            "last_updated": self._tick(),
            "description": known.get("description", ""),
        }
        if kind.marked:
            row["tags"] = _slugs(body.get("tags"))
            row["custom_fields"] = {**self._no_values(), **_mapping(body.get("custom_fields"))}
        return row

    def _no_values(self) -> Body:
        return {str(one["name"]): None for one in self._tables[CUSTOM_FIELDS].values()}

    def _insert(self, kind: Kind, row: Body) -> None:
        number = identity(row)
        self._tables[kind][number] = row
        if kind is DEVICE and isinstance(model := row.get("device_type"), int):
            for template in self._templates.get(model, ()):
                self._insert(INTERFACE, self._row(INTERFACE, {**template, "device": number}))

    def _errors(self, kind: Kind, row: Body) -> Errors:
        missing = [name for name in REQUIRED[kind] if row.get(name) in (None, "")]
        if missing:
            return {name: ["This field is required."] for name in missing}
        for name, target in REFERENCES.get(kind, {}).items():
            if (number := row.get(name)) is not None and number not in self._tables[target]:
                return {name: [f"Related object not found using the provided numeric ID: {number}"]}
        for field in _mapping(row.get("custom_fields")):
            if field not in self._no_values():
                return {"custom_fields": {field: f"Custom field '{field}' does not exist for this object type."}}
        known = {one["slug"] for one in self._tables[TAGS].values()}
        if unknown := [slug for slug in _list(row.get("tags")) if slug not in known]:
            return {"tags": [f"Related object not found using the provided attributes: {unknown}"]}
        others = [one for key, one in self._tables[kind].items() if key != row["id"]]
        return (
            model_errors(kind, row, self._tables) or weak_conflict(kind, row, others) or self._unique_errors(kind, row)
        )

    def _unique_errors(self, kind: Kind, row: Body) -> Errors:
        mine = list(unique_keys(kind, row))
        for key, other in self._tables[kind].items():
            if key == row["id"]:
                continue
            theirs = {one for one, _ in unique_keys(kind, other)}
            for one, error in mine:
                if one in theirs:
                    return error
        return {}

    def _update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        with self._lock:
            self._no_unknown(kind, [identity(patch) for patch in patches])
            done: list[int] = []
            errors: list[JsonValue] = []
            for patch in sorted(patches, key=identity):  # in model order, as NetBox does
                number = identity(patch)
                old = self._tables[kind].get(number)
                if old is None:
                    continue  # 4.6 skips unknown ids in silence
                self._precondition(old, etags)
                row = self._patched(kind, old, patch)
                if wrong := self._errors(kind, row):
                    errors.append({"id": number, "errors": dict(wrong)})
                    continue
                self._tables[kind][number] = row
                done.append(number)
            if errors and self._version >= (4, 7):
                raise _RefusalError(
                    400, {"detail": f"{len(errors)} of {len(patches)} objects could not be updated.", "errors": errors}
                )
            if errors:
                raise _RefusalError(400, _mapping(_mapping(errors[0]).get("errors")))
            return [self._served(kind, self._tables[kind][number]) for number in done]

    def _patched(self, kind: Kind, old: Body, patch: Body) -> Body:
        row: Body = {
            **old,
            **{name: value for name, value in patch.items() if name in kind.fields},
            "last_updated": self._tick(),
        }
        if kind is INTERFACE and row.get("device") != old.get("device"):
            row["device"] = old["device"]
        tags = _slugs(patch["tags"]) if "tags" in patch else _list(old.get("tags"))
        tags = [one for one in tags if one not in _slugs(patch.get("remove_tags"))]
        row["tags"] = [*tags, *(one for one in _slugs(patch.get("add_tags")) if one not in tags)]
        row["custom_fields"] = {**_mapping(old.get("custom_fields")), **_mapping(patch.get("custom_fields"))}
        return row

    def _no_unknown(self, kind: Kind, ids: Sequence[int]) -> None:
        unknown = [number for number in ids if number not in self._tables[kind]]
        if unknown and self._version >= (4, 7):
            errors: list[JsonValue] = [
                {"id": one, "errors": {"id": [f"Object with ID {one} does not exist"]}} for one in unknown
            ]
            raise _RefusalError(
                400, {"detail": f"{len(unknown)} of {len(ids)} objects could not be found.", "errors": errors}
            )

    def _precondition(self, row: Body, etags: Sequence[str]) -> None:
        if etags and "*" not in etags and etag(row) not in etags:
            raise _RefusalError(412, {"detail": "Precondition failed."})

    def _delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> list[Record]:
        with self._lock:
            self._no_unknown(kind, ids)
            errors: list[JsonValue] = []
            for number in ids:
                row = self._tables[kind].get(number)
                if row is None:
                    continue
                self._precondition(row, etags)
                holders = self._protecting(kind, number)
                if holders:
                    text = f"Unable to delete: {holders} dependent object(s) prevent deletion."
                    errors.append({"id": number, "errors": {"__all__": [text]}})
                else:
                    self._erase(kind, number)
            if errors and self._version >= (4, 7):
                raise _RefusalError(
                    409, {"detail": f"{len(errors)} of {len(ids)} objects could not be deleted.", "errors": errors}
                )
            if errors:
                raise _RefusalError(409, {"detail": "Unable to delete object. 1 dependent objects were found"})
            return []

    def _protecting(self, kind: Kind, number: int) -> int:
        """How many records prevent a deletion, those of what would be deleted along included."""
        found = sum(
            1 for other, field in PROTECTED.get(kind, ()) for row in self._tables[other].values() if row.get(field) == number
        )  # fmt: skip
        return found + sum(self._protecting(other, key) for other, key in cascade(kind, number, self._tables))

    def _erase(self, kind: Kind, number: int) -> None:
        for other, key in list(cascade(kind, number, self._tables)):
            self._erase(other, key)
        for other, field in BLANKED.get(kind, ()):
            for key, row in list(self._tables[other].items()):
                if row.get(field) == number:
                    self._tables[other][key] = {**row, field: None}
        if kind is INTERFACE:  # the cable stays, with nothing at this end
            for key, row in list(self._tables[CABLE].items()):
                ends = {
                    side: [one for one in _list(row.get(side)) if _mapping(one).get("object_id") != number]
                    for side in ("a_terminations", "b_terminations")
                }
                self._tables[CABLE][key] = {**row, **ends}
        self._tables[kind].pop(number, None)

    def _tick(self) -> str:
        self._now += timedelta(microseconds=7)
        return self._now.isoformat().replace("+00:00", "Z")


def _mapping(value: JsonValue) -> Body:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _slugs(value: JsonValue) -> list[JsonValue]:
    return [_mapping(one).get("slug") if isinstance(one, dict) else one for one in _list(value)]
