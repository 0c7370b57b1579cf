"""The record store: all that the driver needs of NetBox, as a small Protocol. One implementation speaks HTTP, one lives in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pinion.drivers.netbox.kinds import Kind
from pinion.drivers.netbox.kinds.values import Body, Record
from pinion.drivers.netbox.results import ServerFacts
from pinion.drivers.netbox.server.schema import EndPoint


class RecordStore(Protocol):
    """Reads and writes of records. Safe for many threads. Writes of a list are all or none.

    Raises: `NetBoxError` (its subclasses) for what concerns the whole call, `BulkRefusedError` for refused content,
    `ChangedError` when the world moved.
    """

    @property
    def url(self) -> str:
        """The server's address, for messages."""

    def facts(self) -> ServerFacts:
        """Who answers, and as whom. Asks once."""

    def find(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None = None, values: Sequence[str] = ()
    ) -> list[Record]:
        """Records that match *fixed* and, when *name* is given, one of *values* of that filter. Ordered by id, complete."""

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        """Create all or none; the records in the order of *bodies*."""

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        """PATCH all or none. Each patch has `id`; *etags* are the versions that the decision was based on."""

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        """Delete all or none."""

    def end_points(self) -> tuple[EndPoint, ...]:
        """Every list of the server, with the fields by which its records name others."""

    def listing(self, path: str, query: Sequence[tuple[str, str]]) -> list[Record]:
        """Records of the list *path* below `/api/`, of whatever kind, complete."""
