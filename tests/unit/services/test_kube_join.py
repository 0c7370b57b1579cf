"""The program that brings a node's kubelet: by its digest. The rest of it is tested against a real cluster."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from unit.services.artefact_server import Artefacts, serving

from pinion.services.node_programs import kube_join

PROGRAM = Path(kube_join.__file__)
KUBELET = bytes(range(256)) * 4096


@dataclass
class Place:
    """A node's folder, and the server that its kubelet comes from."""

    folder: Path
    server: Artefacts

    @property
    def kubelet(self) -> Path:
        return self.folder / "programs/kubelet"

    def run(self, *, sha256: str | None = None, path: str = "/kubelet") -> subprocess.CompletedProcess[str]:
        """Run ``kube-join program`` for a source of the server."""
        digest = sha256 or hashlib.sha256(KUBELET).hexdigest()
        told: dict[str, Any] = dict.fromkeys(
            ("server", "node", "authority", "certificate", "serving", "address", "bootstrap"), "x"
        )
        told |= {"labels": {}, "taints": [], "program": str(self.kubelet)}
        told["source"] = {"url": f"{self.server.address}{path}", "sha256": digest}
        (self.folder / "config").write_text(json.dumps(told))
        command = [sys.executable, "-I", str(PROGRAM), "program", "--config", str(self.folder / "config")]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def left(self) -> list[str]:
        """What lies in the program's folder."""
        return sorted(path.name for path in self.kubelet.parent.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with serving() as server:
        server.files["/kubelet"] = KUBELET
        yield Place(tmp_path, server)


def test_it_is_fetched_once(place: Place) -> None:
    done = place.run()
    assert done.returncode == 0, done.stderr
    assert place.kubelet.read_bytes() == KUBELET
    assert place.kubelet.stat().st_mode & 0o777 == 0o755
    assert place.left() == ["kubelet"]
    assert place.run().returncode == 0
    assert len(place.server.asked) == 1


def test_what_breaks_off_goes_on(place: Place) -> None:
    place.server.break_after = [300_000]
    place.run()
    assert not place.kubelet.exists()
    assert place.run().returncode == 0
    assert place.server.asked[1] == ("/kubelet", "bytes=300000-")
    assert place.kubelet.read_bytes() == KUBELET


def test_another_file_is_never_used(place: Place) -> None:
    place.run()
    place.server.files["/other"] = b"worse"
    done = place.run(sha256="ab" * 32, path="/other")
    assert done.returncode == 1
    assert "it is not used" in done.stderr
    assert place.kubelet.read_bytes() == KUBELET, "the one before stays until there is another"
    assert place.left() == ["kubelet"]


def test_one_that_was_changed_on_the_disk_is_fetched_again(place: Place) -> None:
    place.run()
    place.kubelet.write_bytes(b"changed")
    assert place.run().returncode == 0
    assert place.kubelet.read_bytes() == KUBELET


def test_parts_that_lie_are_refused(place: Place) -> None:
    place.server.break_after = [1000]
    place.run()
    place.server.lies = "bytes 5-9/10"
    done = place.run()
    assert (done.returncode, "gave something else" in done.stderr) == (1, True)
    assert not place.kubelet.exists()


@pytest.mark.parametrize(("path", "said"), [("/none", "HTTP 404")])
def test_a_server_without_it_is_told(place: Place, path: str, said: str) -> None:
    done = place.run(path=path)
    assert (done.returncode, said in done.stderr) == (1, True)


def test_commands_and_check_exclude_each_other() -> None:
    for words in ([], ["good", "--check"]):
        with pytest.raises(SystemExit):
            kube_join.main(words)


def test_without_its_configuration_it_cannot_work(tmp_path: Path) -> None:
    assert kube_join.main(["good", "--config", str(tmp_path / "none")]) == 2
