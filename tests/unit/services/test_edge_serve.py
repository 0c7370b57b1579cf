"""The program that starts the edge runtime: only with a model as it was checked, and systemd hears of it when it answers."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.services.node_programs import edge_serve, model_store

PROGRAM = Path(edge_serve.__file__)


def serve(*words: str, expect: int = 0, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-IS", str(PROGRAM), *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=environment,
    )
    assert done.returncode == expect, done
    return done.stdout + done.stderr


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """`current` of a model that model-store has put in use."""
    wanted = model_store.Settings(tmp_path, 1 << 30, "", ())
    store = model_store.Store(wanted)
    store.prepare()
    stated = model_store.Model("tiny", "tiny-1", "", "ab" * 32, 5, "", "gguf", "llama", ())
    place = store.files / stated.file
    place.write_bytes(b"model")
    store.note(place)
    assert store.use(stated)
    return tmp_path / "tiny/current"


def test_the_command_takes_its_place_with_its_own_options_and_exit(model: Path) -> None:
    said = serve("--usable", str(model), "/bin/sh", "-c", 'echo "$0 $@"; exit 7', "--usable", "none", expect=7)
    assert said == "--usable none\n"
    pid = subprocess.Popen(
        [sys.executable, "-IS", str(PROGRAM), "/bin/sh", "-c", "echo $$"], stdout=subprocess.PIPE, text=True
    )
    assert pid.communicate(timeout=30)[0] == f"{pid.pid}\n", "systemd's main process is the engine"


@pytest.mark.parametrize("change", ["written", "touched", "replaced", "unnoted", "gone"])
def test_nothing_starts_with_a_file_that_is_not_as_it_was_checked(model: Path, change: str) -> None:
    place = model.resolve()
    status = place.stat()
    if change == "written":
        place.write_bytes(b"modeL")
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "touched":
        os.utime(place)
    elif change == "replaced":
        other = place.with_name("other")
        other.write_bytes(b"model")
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(place)
    elif change == "unnoted":
        (model.parents[1] / ".seen" / place.name).unlink()
    else:
        place.unlink()
    said = serve("--usable", str(model), "/bin/echo", "started", expect=1)
    assert "started" not in said
    assert ("was not checked" if change in {"unnoted", "gone"} else "is not as it was checked") in said


@pytest.mark.parametrize("words", [(), ("--usable", "x"), ("--other", "x", "/bin/true"), ("/not/there",)])
def test_what_cannot_start_says_why(words: tuple[str, ...]) -> None:
    assert "edge-serve" in serve(*words, expect=2)


class Health(http.server.BaseHTTPRequestHandler):
    """Says 503 until `ready` is set, then 200."""

    ready = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200 if self.ready.is_set() and self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def health() -> Iterator[str]:
    Health.ready.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/health"
    server.shutdown()
    server.server_close()


def test_systemd_hears_that_it_has_started_when_it_answers_and_not_before(health: str, tmp_path: Path) -> None:
    """systemd-notify is the real one; here is the socket that systemd gives, and the engine is a program that sleeps."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        engine = subprocess.Popen(
            [sys.executable, "-IS", str(PROGRAM), "--answers", health, "/bin/sleep", "60"],
            env={"NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        try:
            told.settimeout(1.5)
            with pytest.raises(TimeoutError):
                told.recv(1000)
            assert engine.poll() is None
            Health.ready.set()
            told.settimeout(20)
            assert b"READY=1" in told.recv(1000).split(b"\n")
            children = Path(f"/proc/{engine.pid}/task/{engine.pid}/children")
            assert children.read_text() == "", "the engine is given no child to wait for"
        finally:
            engine.kill()
            engine.wait()


def test_without_systemd_nobody_is_told_and_nothing_waits(health: str) -> None:
    began = time.monotonic()
    assert serve("--answers", health, "/bin/echo", "started", environment={}) == "started\n"
    assert time.monotonic() - began < 20
