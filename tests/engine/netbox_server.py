"""The in-memory NetBox behind HTTP, in a thread of the test: it outlives every provider, counts requests and can act at one of them.

Only the driver's part of the API is served: lists (read, create, change, delete), status and who-am-I.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

from doubles.netbox_store import MemoryStore
from engine.netbox_schema import object_types, openapi

from pinion.drivers.netbox.errors import BulkRefusedError, ChangedError, DeniedError, NetBoxError
from pinion.drivers.netbox.kinds import KINDS, Kind, UnknownNameError, check_filters
from pinion.drivers.netbox.kinds.values import Record, identity

TOKEN: Final = "nbt_enginetest01.0123456789abcdef0123456789abcdef01234567"
_BY_PATH: Final[dict[str, Kind]] = {kind.path: kind for kind in KINDS}


@dataclass
class Server:
    """The running server. *before* is called with (method, number of the write) before each write, *after* once it is done, unanswered."""

    store: MemoryStore
    url: str
    calls: Counter[str] = field(default_factory=Counter)
    writes: int = 0
    delay: float = 0.0
    token: str = TOKEN
    before: Callable[[str, int], None] = lambda _method, _number: None
    after: Callable[[str, int], None] = lambda _method, _number: None
    instead: dict[str, tuple[int, Any]] = field(
        default_factory=dict
    )  # answers by path below /api/, in place of what would come
    asked: Counter[str] = field(default_factory=Counter)  # GETs by path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def objects(self) -> Counter[str]:
        """How many records of each kind there are."""
        return Counter({kind.name: len(self.store.find(kind, {})) for kind in KINDS})

    def reads(self) -> int:
        """How many GETs there were."""
        return self.calls["GET"]

    @contextmanager
    def watching(self) -> Iterator[Counter[str]]:
        """The calls made meanwhile."""
        before = Counter(self.calls)
        seen: Counter[str] = Counter()
        yield seen
        seen.update(self.calls - before)


def _knows(kind: Kind, filters: list[tuple[str, str]]) -> bool:
    try:
        check_filters(kind, [name for name, _ in filters])
    except UnknownNameError:
        return False
    return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: the second would wait 40 ms for an acknowledgement
    server_state: ClassVar[Server]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def _serve(self) -> None:
        state = self.server_state
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        if state.delay:
            time.sleep(state.delay)
        with state.lock:
            state.calls[self.command] += 1
            number = 0
            if self.command != "GET":
                state.writes += 1
                number = state.writes
        if number:
            state.before(self.command, number)
        status, answer = self._act(body)
        if number:
            state.after(self.command, number)
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _act(self, body: Any) -> tuple[int, Any]:
        split = urlsplit(self.path)
        path = split.path.removeprefix("/api/").strip("/")
        token = self.server_state.token
        version, keyword = (2, "Bearer") if token.startswith("nbt_") else (1, "Token")
        if self.headers.get("Authorization") != f"{keyword} {token}":
            return 403, {"detail": f"Invalid v{version} token"}
        if self.command == "GET":
            self.server_state.asked[path] += 1
        if path in self.server_state.instead:
            return self.server_state.instead[path]
        if path == "status":
            return 200, {"netbox-version": "4.7.3"}
        if path == "authentication-check":
            return 200, {"username": "pinion"}
        if path == "core/object-types":
            types = object_types(self.server_state.store.end_points())
            return 200, {"count": len(types), "next": None, "previous": None, "results": types}
        if path == "schema":
            return 200, openapi(self.server_state.store.end_points())
        kind = _BY_PATH.get(path)
        try:
            if self.command == "GET" and path in {one.path for one in self.server_state.store.end_points()}:
                return self._list(path, kind, parse_qsl(split.query))
            if kind is None:
                return 404, {"detail": "Not found."}
            return self._records(kind, body, parse_qsl(split.query))
        except BulkRefusedError as error:
            errors = [{"index": index, "errors": {"__all__": [reason]}} for index, reason in error.reasons.items()]
            return error.status, {"detail": error.reason, "errors": errors}
        except ChangedError as error:
            return 412, {"detail": error.reason}
        except DeniedError as error:
            return 403, {"detail": error.reason}
        except NetBoxError as error:
            return 400, {"detail": error.reason}

    def _records(self, kind: Kind, body: Any, query: list[tuple[str, str]]) -> tuple[int, Any]:
        store = self.server_state.store
        etags = [tag.strip() for tag in (self.headers.get("If-Match") or "").split(",") if tag.strip()]
        if self.command == "POST":
            return 201, store.create(kind, body)
        if self.command == "PATCH":
            return 200, store.update(kind, body, etags)
        if self.command == "DELETE":
            store.delete(kind, [item["id"] for item in body], etags)
            return 204, None
        return self._list(kind.path, kind, query)

    def _list(self, path: str, kind: Kind | None, query: list[tuple[str, str]]) -> tuple[int, Any]:
        """One page of a list: of the driver's own kinds by the filters that it knows, of any by the fields that name others."""
        store = self.server_state.store
        paging = {name: value for name, value in query if name in ("limit", "start", "fields")}
        asked = [(name, value) for name, value in query if name not in paging]
        start, limit = int(paging.get("start", 0)), int(paging.get("limit", 50))
        if kind is None or not _knows(kind, asked):
            later = [one for one in store.listing(path, asked) if identity(one) >= start]
            shown = later[: min(limit, store.max_page_size)]
            following = identity(shown[-1]) + 1 if len(later) > len(shown) else None
            return 200, self._page(path, shown, following)
        counts = Counter(name for name, _ in asked)
        many = next((name for name, count in counts.items() if count > 1), None)
        fixed = {name: value for name, value in asked if name != many}
        values = [value for name, value in asked if name == many]
        shown, following = store.page(kind, fixed, many, values, start=start, limit=limit)
        return 200, self._page(path, shown, following)

    def _page(self, path: str, shown: list[Record], following: int | None) -> dict[str, Any]:
        more = None if following is None else f"{self.server_state.url}/api/{path}/?start={following}"
        return {"count": None, "next": more, "previous": None, "results": shown}


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no error of the server's."""


@contextmanager
def serving(store: MemoryStore | None = None) -> Iterator[Server]:
    """A NetBox on a free port of the loopback interface."""
    http = _Http(("127.0.0.1", 0), _Handler)
    state = Server(store or MemoryStore(), f"http://127.0.0.1:{http.server_port}")
    http.RequestHandlerClass = type("Handler", (_Handler,), {"server_state": state})
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
