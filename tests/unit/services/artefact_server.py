"""A real HTTP server on loopback that gives artefacts in parts, and breaks off, lies or refuses where a test says so."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Artefacts:
    """What the server has, by path, and how it behaves. *asked* are the requests: path and Range.

    *break_after*: bytes of a body until the connection is cut, one for each request to come. *ranges*: whether parts are given.
    *statuses*: answers for the requests to come instead of the file. *redirects*: path to address. *lies*: a Content-Range for parts.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    break_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    lies: str | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@contextmanager
def serving() -> Iterator[Artefacts]:
    """The server, until the block ends."""
    told = Artefacts()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # head and body are two writes: the second would wait 40 ms for an acknowledgement
        )

        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            told.asked.append((self.path, wanted))
            body = told.files.get(self.path)
            if self.path in told.redirects:
                self._head(302, 0, ("Location", told.redirects[self.path]))
            elif told.statuses:
                self._head(told.statuses.pop(0), 0)
            elif body is None:
                self._head(404, 0)
            elif wanted and told.ranges and (match := re.fullmatch(r"bytes=(\d+)-", wanted)):
                start = int(match[1])
                if start >= len(body):
                    self._head(416, 0)
                    return
                stated = told.lies or f"bytes {start}-{len(body) - 1}/{len(body)}"
                self._head(206, len(body) - start, ("Content-Range", stated))
                self._body(body[start:])
            else:
                self._head(200, len(body))
                self._body(body)

        def _head(self, status: int, length: int, *more: tuple[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            for name, value in more:
                self.send_header(name, value)
            self.end_headers()

        def _body(self, body: bytes) -> None:
            if told.break_after:
                body, self.close_connection = body[: told.break_after.pop(0)], True
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that hangs up is what tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    told.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
