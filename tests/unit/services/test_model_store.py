"""The store of models on a node: the program as a host runs it, against a real server and real signatures."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import power_cut
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from thoroughness import points
from unit.services.artefact_server import Artefacts, serving

from pinion.services import node_programs
from pinion.services.node_programs import model_store
from pinion.site.node_concerns import ModelStore

HERE = Path(node_programs.__file__).parent
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl(1) is not installed")


def gguf(seed: int = 1, size: int = 400_000, architecture: str = "llama", tensor_at: int = 0) -> bytes:
    """A GGUF file with one fact and one tensor, its bytes by *seed*."""

    def text(said: str) -> bytes:
        return struct.pack("<Q", len(said)) + said.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2)
    head += text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    head += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    head += text("token_embd.weight") + struct.pack("<IQIQ", 1, 1000, 0, tensor_at)
    return head + random.Random(seed).randbytes(size - len(head))


class Node:
    """A node with the store's programs, the site's key, and what the site states."""

    def __init__(self, folder: Path, server: Artefacts) -> None:
        self.folder, self.server = folder, server
        self.store, self.config = folder / "store", folder / "model-store.json"
        self.programs = folder / "lib"
        self.programs.mkdir()
        for name in ("model_store", "model_format"):
            shutil.copy(HERE / f"{name}.py", self.programs / name.replace("_", "-"))
        self.told = folder / "systemctl.log"
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >> {self.told}\n')
        (folder / "bin/systemctl").chmod(0o755)
        self.private = Ed25519PrivateKey.generate()
        self.stated: dict[str, Any] = {}
        self.budget = 1 << 30

    def state(
        self, content: bytes, name: str = "assistant", path: str = "/model.gguf", **changes: Any
    ) -> dict[str, Any]:
        """Have the server give *content*, and the site state it as *name*, signed; *changes* are made after signing."""
        self.server.files[path] = content
        entry: dict[str, Any] = {
            "artefact": f"{name}-1", "url": self.server.address + path, "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content), "format": "gguf", "architecture": "llama", "units": ["edge.service"],
        }  # fmt: skip
        entry |= changes.pop("signed", {})
        said = ("artefact", "format", "architecture", "size", "sha256")
        statement = "pinion artefact 1\n" + "".join(f"{key} {entry[key]}\n" for key in said)
        entry["signature"] = base64.b64encode(self.private.sign(statement.encode())).decode()
        self.stated[name] = entry | changes
        return self.stated[name]

    def write(self) -> None:
        key = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        told = {"folder": str(self.store), "budget": self.budget, "key": key, "models": self.stated}
        self.config.write_text(json.dumps(told))

    def run(
        self, *arguments: str, expect: int = 0, tracer: str | None = None, environment: dict[str, str] | None = None
    ) -> str:
        """Run the program; what it printed."""
        self.write()
        command = [sys.executable, "-I", *([tracer] if tracer else []), str(self.programs / "model-store")]
        done = subprocess.run(
            [*command, "--config", str(self.config), *arguments], capture_output=True, text=True, timeout=120, check=False,
            env=os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"} | (environment or {}),
        )  # fmt: skip
        assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def current(self, name: str = "assistant", link: str = "current") -> bytes | None:
        path = self.store / name / link
        return path.read_bytes() if path.exists() else None

    @property
    def restarts(self) -> int:
        return len(self.told.read_text().splitlines()) if self.told.exists() else 0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving() as server:
        yield Node(tmp_path, server)


def test_a_model_is_fetched_checked_put_in_use_and_told_of_once(node: Node) -> None:
    content = gguf()
    node.state(content)
    assert "assistant: assistant-1" in node.run()
    assert node.current() == content
    assert node.told.read_text() == "--no-block restart edge.service\n"
    assert node.run() == ""
    assert (len(node.server.asked), node.restarts) == (1, 1)
    node.run("--check")


def test_a_new_model_is_swapped_in_and_the_one_before_is_kept_then_forgotten(node: Node) -> None:
    first, second, third = gguf(1), gguf(2), gguf(3)
    for content in (first, second):
        node.state(content)
        node.run()
    assert (node.current(), node.current(link="previous")) == (second, first)
    node.state(third)
    node.run()
    assert (node.current(), node.current(link="previous")) == (third, second)
    assert len(list((node.store / ".files").iterdir())) == len(list((node.store / ".seen").iterdir())) == 2
    node.state(second)
    node.run()
    assert (node.current(), node.current(link="previous")) == (second, third)
    assert len(node.server.asked) == 3, "the one before is still here: nothing to fetch"


def test_a_model_that_is_no_longer_stated_goes_with_its_files(node: Node) -> None:
    node.state(gguf(1))
    node.state(gguf(2), "other", "/other.gguf")
    node.run()
    del node.stated["other"]
    node.run()
    assert not (node.store / "other").exists()
    assert [path.name for path in (node.store / ".files").iterdir()] == [f"{node.stated['assistant']['sha256']}.gguf"]


def test_a_server_that_breaks_off_is_asked_for_the_rest(node: Node) -> None:
    content = gguf(size=900_000)
    node.state(content)
    node.server.break_after += [100_000, 250_000]
    node.run()
    assert node.current() == content
    assert [wanted for _, wanted in node.server.asked] == [None, "bytes=100000-", "bytes=350000-"]


def test_what_one_run_fetched_the_next_one_need_not(node: Node) -> None:
    content = gguf(size=900_000)
    node.state(content)
    node.server.break_after += [100_000, 100_000, 0, 0]
    assert "the next run goes on from" in node.run(expect=1)
    assert node.current() is None
    node.run()
    assert node.current() == content
    assert node.server.asked[-1][1] == "bytes=200000-"


def test_a_server_that_gives_no_parts_gives_the_whole(node: Node) -> None:
    content = gguf(size=900_000)
    node.state(content)
    node.server.ranges = False
    node.server.break_after += [100_000]
    node.run()
    assert node.current() == content


def test_a_server_that_is_busy_is_asked_again_and_one_that_has_nothing_is_not(node: Node) -> None:
    node.state(gguf())
    node.server.statuses += [503, 429]
    node.run()
    assert node.current() is not None
    node.state(gguf(2), path="/gone.gguf")
    del node.server.files["/gone.gguf"]
    assert "HTTP 404" in node.run(expect=1)
    assert node.server.asked[-1] == ("/gone.gguf", None)
    assert len(node.server.asked) == 4
    assert node.current() == gguf(), "the one before stays in use"


def test_a_part_of_another_file_is_thrown_away_and_the_file_fetched_anew(node: Node) -> None:
    content = gguf(size=900_000)
    entry = node.state(content)
    (node.store / ".partial").mkdir(parents=True)
    (node.store / ".partial" / entry["sha256"]).write_bytes(b"x" * 5000)
    assert "from the start" in node.run()
    assert node.current() == content
    assert [wanted for _, wanted in node.server.asked] == ["bytes=5000-", None]


@pytest.mark.parametrize("lie", ["bytes 0-9/900000", "bytes 5000-899999/7", "nonsense"])
def test_a_server_that_gives_another_part_than_asked_is_refused(node: Node, lie: str) -> None:
    entry = node.state(gguf(size=900_000))
    (node.store / ".partial").mkdir(parents=True)
    (node.store / ".partial" / entry["sha256"]).write_bytes(b"x" * 5000)
    node.server.lies = lie
    assert "REFUSED" in node.run(expect=1)
    assert node.current() is None


@pytest.mark.parametrize("change", ["truncated", "longer", "one bit"])
def test_another_file_than_stated_is_never_used(node: Node, change: str) -> None:
    content = gguf()
    node.state(content)
    other = {
        "truncated": content[:-1000],
        "longer": content + b"x" * 5000,
        "one bit": content[:-1] + bytes([content[-1] ^ 1]),
    }
    node.server.files["/model.gguf"] = other[change]
    assert "REFUSED" in node.run(expect=1)
    assert node.current() is None
    assert list((node.store / ".files").iterdir()) == []
    assert node.restarts == 0


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("artefact", "assistant-2"),
        ("size", 1234),
        ("sha256", "0" * 64),
        ("architecture", "qwen2"),
        ("signature", "bm90aGluZw=="),
        ("signature", "!"),
    ],
)
def test_what_the_sites_key_did_not_sign_is_not_even_fetched(node: Node, changed: str, value: object) -> None:
    node.state(gguf(), **{changed: value})
    assert "REFUSED: its signature" in node.run(expect=1)
    assert node.server.asked == []


def test_another_key_is_not_the_sites(node: Node) -> None:
    node.state(gguf())
    node.private = Ed25519PrivateKey.generate()
    assert "its signature is not by the site's key" in node.run(expect=1)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (gguf(architecture="qwen2"), "architecture 'qwen2', not 'llama'"),
        (b"PK\x03\x04" + bytes(5000), "does not begin with GGUF"),
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + bytes(5000), "big-endian"),
        (gguf(tensor_at=10_000_000), "last tensor lies beyond its end"),
        (gguf()[:40], "broken off"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 1 << 60) + bytes(500),
            "longer than the file may be",
        ),
    ],
)
def test_a_signed_file_of_another_kind_is_refused_and_the_one_before_stays(
    node: Node, content: bytes, why: str
) -> None:
    """A person signed the wrong file: the server would fail with it, so it never becomes `current`."""
    good = gguf(9)
    node.state(good)
    node.run()
    node.state(content)
    assert why in node.run(expect=1)
    assert node.current() == good
    assert node.restarts == 1


def test_a_file_changed_on_the_disk_is_found_and_fetched_anew(node: Node) -> None:
    content = gguf()
    entry = node.state(content)
    node.run()
    place = node.store / ".files" / f"{entry['sha256']}.gguf"
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "not as it was checked" in node.run("--check", expect=1)
    assert "was changed" in node.run("--check", "--hash", expect=1)
    assert "fetching it anew" in node.run()
    assert node.current() == content
    assert node.restarts == 2, "who serves still held the changed file"
    node.run("--check")


def test_what_seems_unchanged_is_hashed_once_a_week_and_not_by_who_only_looks(node: Node) -> None:
    content = gguf()
    entry = node.state(content)
    node.run()
    place = node.store / ".files" / f"{entry['sha256']}.gguf"
    note = node.store / ".seen" / place.name
    with place.open("r+b") as file:  # a card forgets a bit: no time, no length, no number tells
        file.seek(-1, os.SEEK_END)
        file.write(bytes([content[-1] ^ 1]))
    facts = place.stat()
    note.write_text(json.dumps([facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]))
    node.run("--check")
    assert node.run() == ""
    assert "was changed" in node.run("--check", "--hash", expect=1)
    week_ago = time.time() - 7 * 24 * 3600 - 1
    os.utime(note, (week_ago, week_ago))
    assert "fetching it anew" in node.run()
    assert node.current() == content
    assert node.restarts == 2
    os.utime(note, (week_ago, week_ago))
    assert node.run() == "", "hashed, and as it was"
    assert note.stat().st_mtime > week_ago + 60
    assert len(node.server.asked) == 2


def test_who_waits_for_a_model_hears_how_far_it_is_hashed(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = node.state(gguf())
    told: list[int] = []
    monkeypatch.setattr(model_store, "TELLS", 2 << 20)
    large, content = tmp_path / "large", random.Random(1).randbytes((5 << 20) + 1)
    large.write_bytes(content)
    assert model_store.digest_of(large, told.append) == hashlib.sha256(content).hexdigest()
    assert told == [2 << 20, 4 << 20]
    part = node.store / ".partial" / str(entry["sha256"])
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * int(entry["size"]))
    assert node.run("--check", expect=1).endswith("0.4 MiB of 0.4 MiB are here\n")
    (node.store / ".hashing").write_text("0.2 MiB are hashed")  # as `digest` leaves it while it runs
    assert node.run("--check", expect=1).endswith("0.4 MiB of 0.4 MiB are here, 0.2 MiB are hashed\n")
    node.run()
    assert not (node.store / ".hashing").exists()


def test_the_budget_holds_before_anything_is_fetched(node: Node) -> None:
    node.budget = 1_000_000
    node.state(gguf(1, 600_000))
    node.run()
    node.state(gguf(2, 600_000))
    said = node.run(expect=1)
    assert "raise concerns.model_store.budget_mib, or" in said
    assert "budget_mib" in ModelStore.model_fields, "the message names a key that the site file has"
    assert len(node.server.asked) == 1
    assert node.current() == gguf(1, 600_000)


def test_the_file_before_gives_way_where_the_budget_is_for_two(node: Node) -> None:
    node.budget = 1_300_000
    for seed in (1, 2, 3):
        node.state(gguf(seed, 600_000))
        said = node.run()
    assert "gives up its previous file" in said
    assert (node.current(), node.current(link="previous")) == (gguf(3, 600_000), gguf(2, 600_000))


def test_a_disk_that_would_fill_up_is_not_filled(node: Node) -> None:
    node.budget = 1 << 60
    node.state(gguf(), signed={"size": 1 << 50})
    assert "free, of which 256.0 MiB stay free" in node.run(expect=1)
    assert node.server.asked == []


@pytest.mark.parametrize(
    "change",
    [
        {"url": "file:///etc/shadow"}, {"url": "http://a@127.0.0.1/m"}, {"url": "http://127.0.0.1/../m"}, {"url": "http://127.0.0.1/%2e%2e/m"},
        {"url": "http://127.0.0.1/a b"}, {"url": "http://127.0.0.1/a\nb"}, {"url": "http:///m"}, {"artefact": "../../etc/passwd"},
        {"sha256": "../../etc/passwd"}, {"format": "../x"}, {"architecture": "a\nsize 1"}, {"size": 0},
    ],
)  # fmt: skip
def test_hostile_names_stop_it_before_it_does_anything(node: Node, change: dict[str, Any]) -> None:
    node.state(gguf(), **change)
    assert "ValueError" in node.run(expect=2)
    assert not node.store.exists()


@pytest.mark.parametrize("name", ["../up", "/etc", ".files", "a/b", "a\nb", ""])
def test_a_model_with_a_hostile_name_stops_it_too(node: Node, name: str) -> None:
    node.state(gguf(), name)
    assert "is no name" in node.run(expect=2)
    assert not node.store.exists()


def test_a_redirection_out_of_http_is_not_followed(node: Node) -> None:
    node.state(gguf())
    node.server.redirects["/model.gguf"] = "file:///etc/hostname"
    assert "REFUSED" in node.run(expect=1)
    node.server.redirects = {"/model.gguf": f"{node.server.address}/moved.gguf"}
    node.server.files["/moved.gguf"] = gguf()
    node.run()
    assert node.current() == gguf()


def test_one_model_that_cannot_be_had_does_not_hold_up_another(node: Node) -> None:
    node.state(gguf(1), "absent", "/absent.gguf")
    del node.server.files["/absent.gguf"]
    node.state(gguf(2), "present", "/present.gguf")
    node.run(expect=1)
    assert node.current("present") == gguf(2)


#: Ends the program at a step of those that change a file or start a program.
_CUTTER = f"""
import os, runpy, sys
sys.path.insert(0, {str(Path(power_cut.__file__).parent)!r})
import power_cut
power_cut.install(int(os.environ["CUT_AT"]), os.environ["OWN"], os.environ["SYNCED"])
program, sys.argv = sys.argv[1], sys.argv[1:]
runpy.run_path(program, run_name="__main__")
"""


def test_killed_at_any_step_the_next_run_ends_where_it_would_have(node: Node) -> None:
    """From one model to another, killed before a change of it, by turns with the power: what is in use is whole, and the end the same."""
    tracer, synced = node.folder / "cutter.py", node.folder / "synced"
    tracer.write_text(_CUTTER)
    first, second = gguf(1, 50_000), gguf(2, 50_000)
    node.state(first)
    node.run()
    before = shutil.copytree(node.store, node.folder / "before", symlinks=True)
    node.state(second)
    killed = 0
    while True:
        shutil.rmtree(node.store)
        shutil.copytree(before, node.store, symlinks=True)
        node.told.write_text("")
        told = {"CUT_AT": str(killed), "OWN": str(node.folder), "SYNCED": str(synced)}
        marks = power_cut.marks(node.store)
        try:
            node.run(tracer=str(tracer), expect=power_cut.CUT, environment=told)
        except AssertionError:
            break
        if killed % 2:
            power_cut.lose(node.store, marks, synced)
        assert node.current() in {first, second}
        swapped = node.current() == second
        node.run()
        assert node.current() == second
        assert node.restarts >= 1, f"killed at {killed} (swapped: {swapped}): nobody was told"
        assert {path.suffix for path in (node.store / ".files").iterdir()} == {".gguf"}
        assert list((node.store / ".partial").iterdir()) == []
        node.run("--check")
        killed += points(3, 1)
    assert killed > 12, "it was killed all along, and there are that many steps"
