"""The record store over HTTP: pynetbox for pages and for bulk writes, on our session.

Invariants:

* `fields` is sent with reads only: NetBox applies it to writes too and drops the rest of the body in silence.
* Names of fields and filters are checked against the table before they are sent.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack
from urllib.parse import urlencode

from pydantic import JsonValue
from pynetbox.core.query import Request

from pinion.drivers.netbox.errors import RefusedError, UnreachableError
from pinion.drivers.netbox.kinds import MARK, SUPPORTED, Kind, check_fields, check_filters
from pinion.drivers.netbox.kinds.marks import mark_of
from pinion.drivers.netbox.kinds.values import Body, Record, identity
from pinion.drivers.netbox.results import ServerFacts
from pinion.drivers.netbox.server import schema
from pinion.drivers.netbox.server.schema import EndPoint
from pinion.drivers.netbox.server.session import Call, Session, Settings

#: Records asked for in one answer: NetBox's own default for the most that it gives.
PAGE = 1000
#: gunicorn refuses a request line over 4,094 bytes; the rest of the line needs some.
_LONGEST_QUERY = 3600
_UNKNOWN_CHOICE = re.compile(r"(\w+): Select a valid choice\. (\S+) is not one of the available choices")

Query = list[tuple[str, str]]


class HttpStore:
    """A `RecordStore` on a NetBox server. *url*: without `/api`. *token*: v1 or v2. *page*: records in one answer."""

    def __init__(self, url: str, token: str, *, page: int = PAGE, **settings: Unpack[Settings]) -> None:
        self.url = url.rstrip("/")
        self._page = page
        self._session = Session(self.url, token, **settings)
        self._facts: ServerFacts | None = None
        self._end_points: tuple[EndPoint, ...] | None = None
        self._asking = threading.Lock()

    def __repr__(self) -> str:
        return f"HttpStore({self.url!r})"

    @property
    def calls(self) -> int:
        """HTTP requests sent, for figures and tests."""
        return self._session.calls

    @property
    def total_time(self) -> float:
        """Seconds that one request may take with its repetitions."""
        return self._session.total_time

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    # --- reading --------------------------------------------------------------------------------------------------------

    def facts(self) -> ServerFacts:
        """Version and user. Raises `RefusedError` for a release that this driver does not know."""
        with self._asking:
            if self._facts is None:
                release = str(self._read("NetBox", "status").get("netbox-version", ""))
                version = tuple(int(part) for part in release.split(".")[:2] if part.isdigit())
                if version not in SUPPORTED:
                    known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
                    reason = f"release {release or 'unknown'} is not supported (known: {known})"
                    raise RefusedError("NetBox", reason, self.url)
                user = str(self._read("NetBox", "authentication-check").get("username", ""))
                self._facts = ServerFacts((version[0], version[1]), release, self.url, user)
            return self._facts

    def document(self, path: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, JsonValue]:
        """One object of JSON below `/api/`."""
        return self._read(f"api/{path}", path, query)

    def _read(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, JsonValue]:
        return Call(self._session, what, self._endpoint(path)).read(dict(query))

    def end_points(self) -> tuple[EndPoint, ...]:
        """See `RecordStore.end_points`. Asks once."""
        with self._asking:
            if self._end_points is None:
                self._end_points = schema.end_points(self)
            return self._end_points

    def listing(self, path: str, query: Sequence[tuple[str, str]]) -> list[Record]:
        """See `RecordStore.listing`."""
        return self._all(f"{path} list", path, query)

    def find(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None = None, values: Sequence[str] = ()
    ) -> list[Record]:
        """See `RecordStore.find`."""
        check_filters(kind, [*fixed, *([name] if name else [])])
        query = [*fixed.items(), ("fields", ",".join(kind.reading))]
        if name is not None:
            query += [(name, one) for one in values]
        return self._all(f"{kind.name} list", kind.path, query) if name is None or values else []

    def _all(self, what: str, path: str, query: Sequence[tuple[str, str]]) -> list[Record]:
        found = {identity(record): record for piece in _pieces(query) for record in self._known(what, path, piece)}
        return [found[number] for number in sorted(found)]

    def _known(self, what: str, path: str, query: Query) -> list[Record]:
        """The records for a query, less the ids in it that are gone: NetBox refuses a whole query for one of them."""
        while True:
            try:
                return self._listed(what, path, query)
            except RefusedError as error:
                gone = _UNKNOWN_CHOICE.search(error.reason)
                rest = [pair for pair in query if not gone or pair != gone.groups()]
                if len(rest) == len(query):
                    raise
                if {name for name, _ in query} != {name for name, _ in rest}:
                    return []  # nothing is left of a filter: then nothing can match
                query = rest

    def _listed(self, what: str, path: str, query: Query) -> list[Record]:
        filters: dict[str, list[str]] = {}
        for name, value in query:
            filters.setdefault(name, []).append(value)
        call = Call(self._session, what, self._endpoint(path))
        pages = Request(self._endpoint(path), call, filters=filters, limit=self._page, pagination="cursor").get()
        return list(pages)

    # --- writing --------------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        """See `RecordStore.create`."""
        check_fields(kind, {name for body in bodies for name in body})
        made = self._request(kind).post(list(bodies))
        if not isinstance(made, list) or len(made) != len(bodies):
            reason = "NetBox's answer to a create is incomplete"
            raise UnreachableError(f"{kind.name} list", reason, self._endpoint(kind.path), maybe_applied=True)
        return _as_sent(bodies, [record for record in made if isinstance(record, dict)])

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        """See `RecordStore.update`."""
        check_fields(kind, {name for patch in patches for name in patch})
        changed = self._request(kind, etags, [identity(patch) for patch in patches]).patch(list(patches))
        return [record for record in changed if isinstance(record, dict)] if isinstance(changed, list) else []

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        """See `RecordStore.delete`."""
        self._request(kind, etags, ids).delete([{"id": number} for number in ids])

    def _request(self, kind: Kind, etags: Sequence[str] = (), ids: Sequence[int] = ()) -> Request:
        url = self._endpoint(kind.path)
        return Request(url, Call(self._session, f"{kind.name} list", url, etags=etags, ids=ids))

    def _endpoint(self, path: str) -> str:
        return f"{self.url}/api/{path.strip('/')}/"


def _as_sent(bodies: Sequence[Body], made: list[Record]) -> list[Record]:
    """New records in the order of *bodies*: by their marks where all have one, since only those say which is which."""
    marks = [fields.get(MARK) if isinstance(fields := body.get("custom_fields"), dict) else None for body in bodies]
    by_mark = {mark_of(record): record for record in made}
    if None in marks or set(by_mark) != set(marks) or len(by_mark) != len(made):
        return made
    return [by_mark[str(mark)] for mark in marks]


def _pieces(query: Sequence[tuple[str, str]]) -> Iterator[Query]:
    """The query in as many pieces as the longest request line asks for: the values of its last filter are shared among them."""
    last = query[-1][0]
    base = [pair for pair in query if pair[0] != last]
    room = left = _LONGEST_QUERY - len(urlencode(base))
    piece: Query = []
    for pair in dict.fromkeys(pair for pair in query if pair[0] == last):
        left -= len(urlencode([pair])) + 1
        if piece and left < 0:
            yield [*base, *piece]
            piece, left = [], room - len(urlencode([pair])) - 1
        piece.append(pair)
    yield [*base, *piece]
