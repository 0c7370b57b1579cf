"""What places a model in a pod: the program as the image has it, against a real server and real signatures."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from unit.lab.models.engines import few_steps
from unit.services.artefact_server import Artefacts, serving

from pinion.lab.triton.image import programs

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl(1) is not installed")

CONFIG = 'name: "tiny"\n'


class Pod:
    """The init container: the programs, a key, what it is told, and an empty repository."""

    def __init__(self, folder: Path, server: Artefacts) -> None:
        self.folder, self.server = folder, server
        self.programs, self.repository = folder / "programs", folder / "models"
        self.repository.mkdir()
        for path, content in programs().items():
            (self.programs / path).parent.mkdir(parents=True, exist_ok=True)
            (self.programs / path).write_bytes(content)
        self.private = Ed25519PrivateKey.generate()
        self.content = few_steps().onnx.read_bytes()
        self.server.files["/tiny.onnx"] = self.content
        self.stated = self.signed(self.content)

    def signed(self, content: bytes) -> dict[str, Any]:
        """What the site says of *content*."""
        entry: dict[str, Any] = {
            "artefact": "tiny-1", "url": f"{self.server.address}/tiny.onnx", "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content), "format": "onnx", "architecture": "llama", "units": [],
        }  # fmt: skip
        said = ("artefact", "format", "architecture", "size", "sha256")
        statement = "pinion artefact 1\n" + "".join(f"{key} {entry[key]}\n" for key in said)
        return entry | {"signature": base64.b64encode(self.private.sign(statement.encode())).decode()}

    def run(self, *, expect: int = 0) -> str:
        """Run the program; what it said."""
        key = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        told = {"folder": "", "budget": 1, "key": key, "models": {"tiny": self.stated}}
        settings, config = self.folder / "settings.json", self.folder / "config.pbtxt"
        settings.write_text(json.dumps(told))
        config.write_text(CONFIG)
        command = [
            sys.executable,
            "-m",
            "pinion.services.triton_model.place",
            str(settings),
            str(config),
            str(self.repository),
        ]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.programs), "PYTHONSAFEPATH": "1"}
        done = subprocess.run(
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def placed(self) -> list[str]:
        return sorted(str(path.relative_to(self.repository)) for path in self.repository.rglob("*") if path.is_file())


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with serving() as server:
        yield Pod(tmp_path, server)


def test_the_model_lies_beside_what_runs_it_and_all_may_read_it(pod: Pod) -> None:
    pod.run()
    version = pod.repository / "tiny/1"
    assert (version / "model.onnx").read_bytes() == pod.content
    assert (pod.repository / "tiny/config.pbtxt").read_text() == CONFIG
    assert {"model.py", "model.onnx", "pinion"} == {path.name for path in version.iterdir()}
    assert all(path.stat().st_mode & 0o004 for path in pod.repository.rglob("*"))
    assert [path.name for path in pod.repository.iterdir()] == ["tiny"]


def test_a_break_is_gone_on_from(pod: Pod) -> None:
    pod.server.break_after = [1000]
    pod.run()
    assert pod.server.asked[1] == ("/tiny.onnx", "bytes=1000-")


def test_it_runs_again_over_what_is_there(pod: Pod) -> None:
    pod.run()
    first = pod.placed()
    pod.run()
    assert pod.placed() == first


def other(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("wrong", ["digest", "signature", "not there", "not a model", "too long"])
def test_what_is_not_the_signed_file_is_refused_and_nothing_is_placed(pod: Pod, wrong: str) -> None:
    said = {
        "digest": "its SHA-256 is not",
        "signature": "not by the site's key",
        "not there": "HTTP 404",
        "not a model": "no onnx file",
        "too long": f"{len(pod.content)} are stated",
    }
    if wrong == "digest":
        pod.server.files["/tiny.onnx"] = other(pod.content)
    elif wrong == "signature":
        pod.stated["sha256"] = hashlib.sha256(other(pod.content)).hexdigest()
    elif wrong == "not there":
        del pod.server.files["/tiny.onnx"]
    elif wrong == "too long":
        pod.server.files["/tiny.onnx"] += b"x"
    else:
        pod.server.files["/tiny.onnx"] = b"no model " * 100
        pod.stated = pod.signed(b"no model " * 100)
    answer = pod.run(expect=1)
    assert "REFUSED" in answer
    assert said[wrong] in answer
    assert list(pod.repository.iterdir()) == []


def test_settings_that_make_no_sense_are_an_error_of_their_own(pod: Pod) -> None:
    pod.stated["sha256"] = "short"
    assert "sha256" in pod.run(expect=2)
