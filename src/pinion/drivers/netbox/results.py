"""What the driver answers: what is there, what would change, what was changed, what was left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias

from pydantic import JsonValue

from pinion.drivers.netbox.errors import ExistsError
from pinion.drivers.netbox.wanted.records import D

Owner: TypeAlias = Literal["created", "adopted", "foreign"]
Action: TypeAlias = Literal["add", "update", "remove"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change. *path* is a property path of the unit, list items by their name (`interfaces[eth0].mtu`); "" is the unit itself."""

    path: str
    action: Action
    before: JsonValue
    after: JsonValue
    object: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """Something that a deletion left in NetBox, and why. *again*: it is Pinion's still, and another deletion may succeed."""

    object: str
    url: str | None
    reason: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Observed(Generic[D]):
    """A unit as NetBox holds it. *ids*: NetBox's ids by `kind name` (`interface eth0`). *other_drift*: what *record* cannot show."""

    key: str
    record: D
    ids: Mapping[str, int]
    url: str
    owner: Owner
    other_drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitDiff:
    """What `apply` would do. *exists*: the unit's main object is there. *conflicts*: what is there and not ours to change.

    *renamed*: it is another unit's until now, named in words.
    """

    exists: bool
    changes: tuple[Change, ...]
    conflicts: tuple[ExistsError, ...]
    renamed: str | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do and nothing in the way."""
        return not self.changes and not self.conflicts


@dataclass(frozen=True, slots=True)
class Applied(Generic[D]):
    """A unit after `apply`. No *changes*: nothing was sent. *renamed*: see `UnitDiff`."""

    observed: Observed[D]
    changes: tuple[Change, ...]
    renamed: str | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion removed, in words, and what it left."""

    deleted: tuple[str, ...]
    left: tuple[Left, ...]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server that answered. *version* is (major, minor)."""

    version: tuple[int, int]
    release: str
    url: str
    user: str
