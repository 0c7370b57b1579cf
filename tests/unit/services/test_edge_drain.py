"""The program that takes the edge runtime out of service, with nft's real rules in a network namespace of its own."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pinion.services.node_programs import edge_drain, edge_pod

PORT = 8080
#: Run in the namespace: the test called argv[1] of this file.
INSIDE = (
    "import sys; sys.path[:0] = sys.argv[2:]; from unit.services import test_edge_drain as t; getattr(t, sys.argv[1])()"
)


class Runtime:
    """A server with llama-server's words: `/metrics` says how many it is answering, `/slow` answers when it may."""

    def __init__(self, *, metrics: bool = True) -> None:
        self.may_end, self.busy = threading.Event(), 0
        runtime = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                said = b"ok"
                if self.path == "/slow":
                    runtime.busy += 1
                    runtime.may_end.wait(20)
                    runtime.busy -= 1
                if self.path == "/metrics":
                    said = f"llamacpp:requests_processing {runtime.busy}\nllamacpp:requests_deferred 0\n".encode()
                self.send_response(404 if self.path == "/metrics" and not metrics else 200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def ask(path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def in_the_background(work: object, *arguments: object) -> tuple[threading.Thread, list[object]]:
    """*work* in a thread, and what it returns."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work(*arguments)), daemon=True)  # type: ignore[operator]
    thread.start()
    return thread, found


def until(true: object) -> None:
    deadline = time.monotonic() + 60
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, true
        time.sleep(0.02)


def refused() -> bool:
    try:
        ask("/health")
    except ConnectionRefusedError:
        return True
    return False


def whole(*, metrics: bool = True) -> None:
    runtime = Runtime(metrics=metrics)
    slow, said = in_the_background(ask, "/slow")
    until(lambda: runtime.busy)
    draining, code = in_the_background(edge_drain.drain, f"http://127.0.0.1:{PORT}/health", 20.0)
    until(refused)
    time.sleep(0.5)
    assert draining.is_alive(), "somebody is still being answered"
    runtime.may_end.set()
    draining.join(60)
    slow.join(60)
    assert (code, said) == ([0], ["ok"])
    assert refused(), "until the server is gone"
    edge_drain.end()
    edge_drain.end()
    assert ask("/health") == "ok"


def beside_kube_proxy() -> None:
    """Which takes the bit of its mark off all that leaves, this program's packets to its own host too: its KUBE-POSTROUTING."""
    changed = "meta mark & 0x4000 == 0x4000 meta mark set meta mark ^ 0x4000"
    hook = "type filter hook postrouting priority srcnat; policy accept;"
    table = f"table ip kube_proxy {{\n chain postrouting {{\n  {hook}\n  {changed}\n }}\n}}\n"
    assert edge_drain.nft("-f", "-", given=table) is None
    whole()


def a_pod_on_its_way_down() -> None:
    """It listens until the kubelet has ended it, whoever is kept out meanwhile."""
    Runtime()
    assert edge_drain.drain(f"http://127.0.0.1:{PORT}/health", 20.0) == 0
    assert refused()
    assert edge_pod.listens("127.0.0.1", PORT)
    assert not edge_pod.listens("127.0.0.2", PORT)
    assert not edge_pod.listens("127.0.0.1", PORT + 1)
    edge_drain.end()


def without_metrics() -> None:
    whole(metrics=False)


def bounded() -> None:
    runtime = Runtime()
    in_the_background(ask, "/slow")
    until(lambda: runtime.busy)
    began = time.monotonic()
    assert edge_drain.main(["--for", "1", f"http://127.0.0.1:{PORT}/health"]) == 1
    assert 0.9 < time.monotonic() - began < 15, "the request lasts for 20"


def nobody_there() -> None:
    began = time.monotonic()
    assert edge_drain.main(["--for", "20", f"http://127.0.0.1:{PORT}/health"]) == 0
    assert time.monotonic() - began < 15, "it does not wait for 20"
    assert edge_drain.main(["--end"]) == 0


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="a network namespace and its rules need root and nft(8)"
)
@pytest.mark.parametrize(
    "name", ["whole", "without_metrics", "beside_kube_proxy", "a_pod_on_its_way_down", "bounded", "nobody_there"]
)
def test_nobody_new_is_let_in_and_who_is_being_answered_gets_the_answer(name: str) -> None:
    tests = Path(__file__).parents[2]
    inside = [sys.executable, "-c", INSIDE, name, str(tests)]
    done = subprocess.run(
        ["unshare", "--net", "/bin/sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inside],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_request_that_the_server_had_not_read_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([0, 1, 1, 0, 0])
    monkeypatch.setattr(edge_drain, "nft", lambda *_, **__: None)
    monkeypatch.setattr(edge_drain, "under_way", lambda *_: next(said))
    monkeypatch.setattr(edge_drain, "PAUSE", 0.0)
    assert edge_drain.drain("http://127.0.0.1:1", 30.0) == 0
    assert list(said) == []


def test_where_nobody_can_be_kept_out_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nft").write_text("#!/bin/sh\necho 'no such family' >&2\nexit 1\n")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert edge_drain.main(["--for", "1", "http://127.0.0.1:9/health"]) == 0, "there is nobody to wait for"
    assert edge_drain.nft("list", "ruleset") == "no such family"


def test_a_rule_that_cannot_be_taken_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nft").write_text("#!/bin/sh\necho 'device busy' >&2\nexit 1\n")
    (tmp_path / "nft").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert edge_drain.main(["--end"]) == 1
    assert capsys.readouterr().err == "new requests may still be kept out: device busy\n"


@pytest.mark.parametrize("words", [[], ["--end", "http://127.0.0.1/"]])
def test_it_is_told_one_thing(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        edge_drain.main(words)
    assert ended.value.code == 2
