"""The package proxy in front of a real HTTP server: only the mirror, cached where that is safe, cut when the mirror cuts."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pinion.lab.package_proxy import PackageProxy, mirror_map, real_address, unchanging, without_login

BODY = b"package " * 40000


@dataclass
class Mirror:
    """A mirror that counts what is asked of it."""

    asked: list[str] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    state = Mirror()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # head and body are two writes: the second would wait 40 ms for an acknowledgement
        )

        def do_GET(self) -> None:
            state.asked.append(self.path)
            if self.path.endswith("missing.deb"):
                self.send_error(404)
                return
            if self.headers.get("If-Modified-Since"):
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            if "cut" in self.path:
                self.wfile.write(BODY[:1000])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(BODY)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    state.port = server.server_port
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(mirror: Mirror, tmp_path: Path) -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    # the mirror is really at a port of loopback; lab machines know it by its public name
    server = PackageProxy(
        listening, {"mirror.example/debian": f"http://127.0.0.1:{mirror.port}/debian"}, tmp_path / "apt", {}
    )
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield listening.getsockname()[1]
    server.shutdown()
    server.server_close()


def ask(proxy: int, *urls: str, headers: dict[str, str] | None = None) -> list[tuple[int, bytes]]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=10)
    answers = []
    for url in urls:
        connection.request("GET", url, headers=headers or {})
        response = connection.getresponse()
        answers.append((response.status, response.read()))
    connection.close()
    return answers


def test_one_connection_many_requests_and_packages_only_once(proxy: int, mirror: Mirror) -> None:
    deb, index = "http://mirror.example/debian/pool/a_1.deb", "http://mirror.example/debian/dists/trixie/InRelease"
    assert ask(proxy, deb, index, deb, index) == [(200, BODY)] * 4
    assert mirror.asked == ["/debian/pool/a_1.deb", "/debian/dists/trixie/InRelease", "/debian/dists/trixie/InRelease"]


def test_conditional_requests_pass_through(proxy: int, mirror: Mirror) -> None:
    url = "http://mirror.example/debian/dists/trixie/InRelease"
    assert ask(proxy, url, headers={"If-Modified-Since": "Mon, 01 Jan 2024 00:00:00 GMT"}) == [(304, b"")]


def test_a_refusal_of_the_mirror_is_passed_on_and_not_kept(proxy: int, mirror: Mirror) -> None:
    url = "http://mirror.example/debian/pool/missing.deb"
    assert [status for status, _ in ask(proxy, url, url)] == [404, 404]
    assert len(mirror.asked) == 2


def test_a_cut_answer_is_seen_as_cut_and_not_kept(proxy: int, mirror: Mirror, tmp_path: Path) -> None:
    url = "http://mirror.example/debian/pool/cut_1.deb"
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(proxy, url)
    assert [entry for entry in (tmp_path / "apt").rglob("*") if entry.is_file()] == []


@pytest.mark.parametrize(
    "url",
    [
        "http://elsewhere.example/debian/pool/a.deb",
        "http://mirror.example/debian-security/a.deb",
        "http://mirror.example/debian/../secret",
        "http://mirror.example/debian/%2e%2e/secret",
        "http://mirror.example:8080/debian/a.deb",
        "https://mirror.example/debian/a.deb",
        "http://mirror.example@elsewhere.example/debian/a.deb",
        "/debian/a.deb",
    ],
)
def test_it_is_no_way_out(proxy: int, mirror: Mirror, url: str) -> None:
    assert [status for status, _ in ask(proxy, url)] == [403]
    assert mirror.asked == []


def test_what_is_known_by_its_content_never_changes() -> None:
    assert unchanging("http://m/debian/pool/a_1.deb")
    assert unchanging("http://m/debian/dists/t/main/by-hash/SHA256/abc")
    assert not unchanging("http://m/debian/dists/t/InRelease")


def test_a_secure_mirror_is_asked_for_in_the_clear_and_reached_securely() -> None:
    mirrors = mirror_map(("https://user:pw@mirror.example/debian",))
    assert list(mirrors) == ["mirror.example/debian"]
    url = real_address("http://mirror.example/debian/x", mirrors)
    assert url is not None
    assert without_login(url) == ("https://mirror.example/debian/x", {"Authorization": "Basic dXNlcjpwdw=="})
