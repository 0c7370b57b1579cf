"""What a kind of NetBox record is to Pinion. Its entry in the table says all; writing, reading back and comparing follow from it.

What is wanted is described by *words*: the properties of the model that states the thing, and those of what it is part of
(`site`, `vlan`, `device`, `interface`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from pydantic import JsonValue

from pinion.drivers.netbox.kinds.marks import MARK, mark_of
from pinion.drivers.netbox.kinds.values import Record, cable_ends, identity, plain, word

Words: TypeAlias = Mapping[str, Any]
#: A natural key: the names of its fields, and their values.
Key: TypeAlias = tuple[JsonValue, ...]
#: A search: filters that limit it, the filter that takes several values, and these.
Query: TypeAlias = tuple[dict[str, str], str, list[str]]

#: Fields of a read that are not ours to write.
_READ_ONLY = ("id", "url", "display", "display_url", "last_updated")
#: Filters that every end point knows.
_EVERYWHERE = frozenset({"id", "limit", "start", "fields"})


@dataclass(frozen=True, slots=True)
class Ref:
    """The id of the record that *words* name."""

    kind: Kind
    mark: str
    words: Words = field(compare=False)

    @property
    def label(self) -> str:
        """The record for a person."""
        return self.kind.label.format_map(self.words)

    @property
    def word(self) -> str:
        """Its name in the site file."""
        return str(self.words[self.kind.named_by])

    @property
    def natural(self) -> dict[str, Value]:
        """Fields by which to find it when nothing carries the mark."""
        return {name: self.kind.column[name].wanted(self.words) for name in self.kind.known_by}

    def refs(self) -> Iterator[Ref]:
        """Every reference of the natural key."""
        return _refs_in(self.natural.values())


@dataclass(frozen=True, slots=True)
class Ends:
    """One side of a cable: a single interface."""

    interface: Ref


Value: TypeAlias = "JsonValue | Ref | Ends | tuple[Ref, ...]"


@dataclass(frozen=True, slots=True)
class Want:
    """The record that *words* ask for, which must be as *body* says. *late*: fields set once later kinds exist."""

    kind: Kind
    mark: str
    words: Words = field(compare=False)
    body: Mapping[str, Value]
    late: Mapping[str, Value]

    @property
    def label(self) -> str:
        """The record for a person."""
        return self.kind.label.format_map(self.words)

    @property
    def path(self) -> str:
        """Where it stands in its unit."""
        return self.kind.place.format_map(self.words)

    def refs(self) -> Iterator[Ref]:
        """Every reference of body and late fields."""
        return _refs_in((*self.body.values(), *self.late.values()))


def _refs_in(values: Iterable[Value]) -> Iterator[Ref]:
    """The references among *values*."""
    for value in values:
        if isinstance(value, Ref):
            yield value
        elif isinstance(value, Ends):
            yield value.interface
        elif isinstance(value, tuple):
            yield from value


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; *name* is NetBox's. *wanted* gives its value from the words of the thing.

    *shown*: the property of the unit that it stands for, "" for the thing itself, None for what the site file does not say. *fills*: the
    property that it fills when read back, by *read* from what is served (its word, unless said). *choices*: NetBox's words for the site
    file's. *to*: the kind that it refers to. *late*: set once later kinds exist. *optional*: None leaves whatever is recorded. *drift*:
    what to say of a record where it is not as wanted, for a field that no property shows.
    *constant*: the one value that it has.
    """

    name: str
    wanted: Callable[[Words], Value]
    shown: str | None = None
    fills: str | None = None
    read: Callable[[JsonValue], JsonValue] | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    to: Kind | None = None
    late: bool = False
    optional: bool = False
    drift: str = ""
    constant: JsonValue = None

    def read_back(self, record: Record) -> JsonValue:
        """What the record says for the property that the field fills."""
        return (self.read or word)(record.get(self.name))

    def site_word(self, value: JsonValue) -> JsonValue:
        """NetBox's word for a choice in the site file's."""
        return next((ours for ours, its in self.choices.items() if its == value), value)


@dataclass(frozen=True, slots=True)
class NaturalKey:
    """Fields that no two records share. *unless*: counts only while that field of it is empty. *fold*: what of the last value counts."""

    names: tuple[str, ...]
    unless: str = ""
    fold: Callable[[JsonValue], JsonValue] | None = None

    def of(self, fields: Mapping[str, JsonValue]) -> Key:
        """This key of a record in plain form."""
        *rest, last = (fields.get(name) for name in self.names)
        return (",".join(self.names), *rest, self.fold(last) if self.fold else last)


@dataclass(frozen=True, slots=True)
class Search:
    """How to find unmarked records: *filter* takes what *values* makes of the field *of*, *within* is (filter, field) that limits it."""

    filter: str
    of: str
    within: tuple[str, str] | None = None
    values: Callable[[JsonValue], Iterable[str]] = lambda value: (str(value),)


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of record.

    *unit* is the unit that it is part of ("" for tag and custom fields, which carry no marks), *listed* the unit's property in which its
    things stand, *parts* their words. *mark*, *label*, *place* (path in the unit; *gone*: that of one that goes, if another) and *noun*
    (name among the ids) are texts with words in braces; *named_by* is the word that a reference to it states. *known_by*: fields by which
    a reference finds it. *joins*: fields whose every member is a natural key of its own. *observed* is read and never written, *filters*
    may be asked for.

    *shared*: sites share it, so it is used as found, and removed when nothing uses it. *inside*: part of a record of ours, so taken over
    without asking. *serial*: parallel creates break it (role trees). *weak*: the server's check for doubles is no lock.
    """

    name: str
    path: str
    fields: tuple[Field, ...]
    unit: str = ""
    listed: str = ""
    parts: Callable[[Any], Iterable[Words]] = lambda _: ()
    mark: str = ""
    label: str = ""
    place: str = ""
    gone: str = ""
    noun: str = ""
    named_by: str = "slug"
    known_by: tuple[str, ...] = ("slug",)
    keys: tuple[NaturalKey, ...] = (NaturalKey(("slug",)),)
    joins: tuple[str, ...] = ()
    searches: tuple[Search, ...] = (Search("slug", "slug"),)
    filters: frozenset[str] = frozenset({"slug"})
    observed: tuple[str, ...] = ()
    model: str = ""
    shared: bool = False
    inside: bool = False
    serial: bool = False
    weak: bool = False

    def __repr__(self) -> str:
        return f"<{self.name}>"

    # --- what NetBox calls it -------------------------------------------------------------------------------------------

    @property
    def content_type(self) -> str:
        """NetBox's name of the model: `dcim.devicetype`."""
        return f"{self.path.split('/')[0]}.{self.model or self.name.replace(' ', '').lower()}"

    @property
    def marked(self) -> bool:
        """Whether it carries tags and custom fields."""
        return bool(self.mark)

    @cached_property
    def column(self) -> Mapping[str, Field]:
        """The fields by NetBox's names."""
        return {one.name: one for one in self.fields}

    @property
    def columns(self) -> frozenset[str]:
        """Names of the fields that may be written, and the description that every object has."""
        return frozenset((*self.column, "description"))

    @cached_property
    def reading(self) -> tuple[str, ...]:
        """Names for the `fields` parameter of a read: all that is written or observed, and nothing that costs a count."""
        marks = ("tags", "custom_fields") if self.marked else ()
        return tuple(dict.fromkeys((*_READ_ONLY, *self.column, "description", *self.observed, *marks)))

    @cached_property
    def writing(self) -> frozenset[str]:
        """Names that the body of a POST or PATCH may hold."""
        marks = ("tags", "add_tags", "remove_tags", "custom_fields") if self.marked else ()
        return self.columns.union(marks)

    @cached_property
    def _mark_pattern(self) -> re.Pattern[str]:
        """The mark's text as a pattern: only the last word may hold a slash, and none where it is the name of a unit."""
        text = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.mark))
        return re.compile(re.sub(r"\[\^/\]\+\)$", ".+)", text) if self.place else text)

    # --- what is wanted -------------------------------------------------------------------------------------------------

    def want(self, words: Words) -> Want:
        """The record that *words* ask for."""
        values = [(one, value) for one in self.fields if not ((value := one.wanted(words)) is None and one.optional)]
        return Want(
            self, self.mark.format_map(words), words,
            {one.name: value for one, value in values if not one.late},
            {one.name: value for one, value in values if one.late},
        )  # fmt: skip

    def ref(self, words: Words) -> Ref:
        """A reference to the record that *words* name."""
        return Ref(self, self.mark.format_map(words), words)

    # --- what is there --------------------------------------------------------------------------------------------------

    def plain(self, record: Record) -> dict[str, JsonValue]:
        """The writable fields of a record, as they would be written."""
        return {one.name: plain(record[one.name]) for one in self.fields if one.name in record}

    def words_of(self, mark: str | None) -> dict[str, str]:
        """The words that a mark was made of; none when it is not one of this kind."""
        found = self._mark_pattern.fullmatch(mark or "")
        return found.groupdict() if found else {}

    def place_of(self, record: Record) -> str:
        """Where a record that nothing wants any more stood in its unit."""
        holder = record.get("assigned_object")
        interface = holder.get("name") if isinstance(holder, dict) else "?"
        words = self.words_of(mark_of(record))
        return (self.gone or self.place).format_map({"interface": interface, **words}) if words else ""

    def describe(self, record: Record) -> str:
        """A record in words."""
        return f"{self.name} {record.get('display') or identity(record)}"

    # --- by what it is found --------------------------------------------------------------------------------------------

    def natural_keys(self, fields: Mapping[str, JsonValue]) -> list[Key]:
        """The natural keys of a record in plain form: two of one kind that share any can't both exist (or must not)."""
        keys = [key.of(fields) for key in self.keys if not key.unless or fields.get(key.unless) is None]
        return keys + ([("end", *end) for end in cable_ends(fields)] if self.joins else [])

    def sought_keys(self, fields: Mapping[str, JsonValue]) -> list[Key]:
        """The natural keys by which others may hold what *fields* ask for: all whose fields are given and there already."""
        keys = [key.of(fields) for key in self.keys if all(name in fields for name in key.names)]
        keys += [("end", *end) for end in cable_ends(fields)] if self.joins else []
        return [key for key in keys if not any(isinstance(part, int) and part < 0 for part in key)]

    def is_at_home(self, record: Record, body: Mapping[str, JsonValue]) -> bool:
        """Whether a record has every natural key of *body* already: then nothing of another can be in its way."""
        return set(self.natural_keys(body)) <= set(self.natural_keys(self.plain(record)))

    def queries(self, bodies: Sequence[Mapping[str, JsonValue]]) -> list[Query]:
        """The searches that find records of natural keys like those of *bodies*: one for each value of a limiting field."""
        found: dict[tuple[str, str], Query] = {}
        for search in self.searches:
            for body in bodies:
                value, holder = body.get(search.of), body.get(search.within[1]) if search.within else 0
                if value is None or not _is_there(value) or holder is None or not _is_there(holder):
                    continue
                limit = {search.within[0]: str(holder)} if search.within else {}
                _, _, values = found.setdefault((search.filter, str(limit)), (limit, search.filter, []))
                values += search.values(value)
        return list(found.values())


def _is_there(value: JsonValue) -> bool:
    """False for the negative number that a preview gives what is yet to be made."""
    return not isinstance(value, int) or value >= 0


class UnknownNameError(ValueError):
    """A field or filter that this driver has no business sending: NetBox would ignore it in silence."""


def check_fields(kind: Kind, names: Iterable[str]) -> None:
    """Raise `UnknownNameError` for a body key that NetBox does not have on *kind*."""
    if unknown := sorted(set(names) - kind.writing - {"id"}):
        raise UnknownNameError(f"{kind.name}: NetBox has no writable field {', '.join(unknown)}")


def check_filters(kind: Kind, names: Iterable[str]) -> None:
    """Raise `UnknownNameError` for a filter that NetBox would ignore on *kind* (and answer with everything)."""
    known = kind.filters | _EVERYWHERE | ({f"cf_{MARK}", f"cf_{MARK}__isw", "tag"} if kind.marked else set())
    if unknown := sorted(set(names) - known):
        raise UnknownNameError(f"{kind.name}: NetBox would ignore the filter {', '.join(unknown)}")
