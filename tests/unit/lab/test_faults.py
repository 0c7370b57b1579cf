"""The fault proxy: each fault does what it says, and a test can rely on whether the server saw the request."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from http.client import IncompleteRead, RemoteDisconnected
from urllib.error import HTTPError, URLError

import pytest
from doubles.faults import BadCertificate, Fault, FaultProxy, Request, Script, Seeded, too_many


class Counting(http.server.BaseHTTPRequestHandler):
    """Counts what it did, and answers with the number, once with a length and once in chunks."""

    protocol_version = "HTTP/1.1"
    done = 0

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        type(self).done += 1
        body = json.dumps({"done": type(self).done, "path": self.path, "padding": "x" * 5000}).encode()
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (body[:10], body[10:]):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - names of the library

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def target() -> Iterator[str]:
    Counting.done = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def ask(url: str, path: str = "/x", timeout: float = 3.0, context: ssl.SSLContext | None = None) -> dict[str, object]:
    with urllib.request.urlopen(
        urllib.request.Request(url + path, data=b"body"), timeout=timeout, context=context
    ) as answer:
        result: dict[str, object] = json.loads(answer.read())
        return result


def test_passes_everything_on_when_nothing_is_wrong(target: str) -> None:
    with FaultProxy(target) as proxy:
        assert ask(proxy.url)["done"] == 1
        assert ask(proxy.url, "/chunked")["path"] == "/chunked"
        assert [(request.method, request.path) for request, _ in proxy.log] == [("POST", "/x"), ("POST", "/chunked")]


@pytest.mark.parametrize(
    ("fault", "seen", "error"),
    [
        (Fault("answer", 500), 0, HTTPError),
        (Fault("answer-after", 502), 1, HTTPError),
        (Fault("drop"), 0, RemoteDisconnected | ConnectionResetError | URLError),
        (Fault("drop-after"), 1, RemoteDisconnected | ConnectionResetError | URLError),
        (Fault("cut"), 1, IncompleteRead | ConnectionResetError),
        (Fault("hang", seconds=5), 0, TimeoutError | URLError),
        (Fault("hang-after", seconds=5), 1, TimeoutError | URLError),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_fault_and_whether_the_server_saw_the_request(
    target: str, fault: Fault, seen: int, error: type[BaseException]
) -> None:
    with FaultProxy(target, Script([fault])) as proxy:
        with pytest.raises(BaseException) as raised:
            ask(proxy.url, timeout=0.7)
        assert isinstance(raised.value, error), raised.value
        assert Counting.done == seen
        assert ask(proxy.url)["done"] == seen + 1, "one fault in the script, one fault"


def test_retry_after_is_passed(target: str) -> None:
    with FaultProxy(target, Script([too_many(7)])) as proxy:
        with pytest.raises(HTTPError) as raised:
            ask(proxy.url)
        assert (raised.value.code, raised.value.headers["Retry-After"]) == (429, "7")


def test_seeded_faults_repeat_and_never_come_in_long_rows() -> None:
    def run(seed: int) -> list[Fault | None]:
        schedule = Seeded(seed, rate=0.6, in_a_row=2)
        return [schedule(Request(number, "GET", "/")) for number in range(200)]

    assert run(3) == run(3)
    assert run(3) != run(4)
    rows = "".join("x" if fault else "." for fault in run(3))
    assert "xx" in rows
    assert "xxx" not in rows


@pytest.mark.parametrize("what", ["unknown-authority", "expired", "other-name"])
def test_bad_certificates_are_bad_in_the_way_they_say(target: str, what: BadCertificate) -> None:
    with FaultProxy(target, certificate=what) as proxy:
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(proxy.url)
        trusting = ssl.create_default_context(cadata=proxy.certificate.decode().split("-----BEGIN PRIVATE")[0])
        if what == "unknown-authority":
            assert ask(proxy.url, context=trusting)["done"] == 1
        else:
            with pytest.raises(URLError, match={"expired": "expired", "other-name": "match"}[what]):
                ask(proxy.url, context=trusting)


def test_delay_is_added_to_each_way(target: str) -> None:
    import time

    with FaultProxy(target, delay=0.1) as proxy:
        start = time.monotonic()
        ask(proxy.url)
        assert time.monotonic() - start >= 0.2
