"""Tools to test with: recipe files of tiny tools, and a loopback server that hands out their release files."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
OBTAIN = REPOSITORY / "tools" / "obtain.py"


def release(program: str, answer: str) -> bytes:
    """Return a release archive with one program, a shell script that prints `answer`."""
    content = f"#!/bin/sh\necho '{answer}'\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(f"release/{program}")
        member.size, member.mode = len(content), 0o755
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def recipe(program: str, url: str, sha256: str, version: str = "1.2.3") -> str:
    """Return the entry of a tool with a release file; the same checksum serves both architectures."""
    return f"""
[[tool]]
name = "{program}"
purpose = "test"
version = "{version}"
programs = ["{program}"]
probe = ["{program}", "version"]
accept = '^{program} {version}'
minutes = 0
[tool.archive]
url = "{url}"
members = {{ {program} = "release/{program}" }}
sha256.amd64 = "{sha256}"
sha256.arm64 = "{sha256}"
checksum_from = "this test"
"""


HEAD = """schema = 1
[toolchain]
version = "1.26.6"
minimum = "1.20"
[modules]
"""


@dataclass
class Workshop:
    """A folder with a recipe file and a cache, and obtain.py to run on them."""

    folder: Path
    entries: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def recipes(self) -> Path:
        path = self.folder / "tools.toml"
        path.write_text(HEAD + "\n".join(self.modules) + "\n" + "\n".join(self.entries))
        return path

    def add_local(self, program: str, answer: str | None = None, sha256: str | None = None) -> Path:
        """Add a tool whose release file lies in this folder; returns that file."""
        packed = release(program, answer or f"{program} 1.2.3")
        file = self.folder / f"{program}.tar.gz"
        file.write_bytes(packed)
        self.entries.append(recipe(program, file.as_uri(), sha256 or hashlib.sha256(packed).hexdigest()))
        return file

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(OBTAIN), "--recipes", str(self.recipes), "--cache", str(self.cache), *arguments]

    def run(self, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ, PATH=path) if path else None
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=120, env=environment
        )

    def answer(self, program: str) -> str:
        """Run the program from the cache's PATH folder."""
        return subprocess.run(
            [str(self.cache / "bin" / program), "version"], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    def leftovers(self) -> list[Path]:
        """Return staging folders and partial downloads that no run should leave behind."""
        return [
            *self.cache.glob("tools/*/.new-*"),
            *self.cache.glob("downloads/*"),
            *self.cache.glob("downloads/.*.part"),
        ]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@dataclass
class Server:
    """A loopback HTTP server: `files` by path; each request is counted; `gate` holds answers back after their first half."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    status: int = 200
    gate: threading.Event = field(default_factory=threading.Event)
    half_sent: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server("")
    state.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            body = state.files.get(self.path, b"")
            self.send_response(state.status if self.path in state.files or state.status != 200 else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                state.half_sent.set()
                state.gate.wait(60)
                self.wfile.write(body[len(body) // 2 :])
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client was killed: the point of the test

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            """Keep quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield state
    state.gate.set()
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def add_served(workshop: Workshop, server: Server) -> Callable[[str], None]:
    """Return a function that adds a tool whose release file comes from the loopback server."""

    def add(program: str) -> None:
        packed = release(program, f"{program} 1.2.3")
        server.files[f"/{program}.tar.gz"] = packed
        workshop.entries.append(recipe(program, f"{server.url}/{program}.tar.gz", hashlib.sha256(packed).hexdigest()))

    return add
