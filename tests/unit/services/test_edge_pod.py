"""The program that has the kubelet run the edge runtime: one whole file that says which model, and nobody on the port when it is gone."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pinion.services.node_programs import edge_pod


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose host has one of two optional folders, and a model in use."""
    (tmp_path / "there").mkdir()
    (tmp_path / "sha-1").touch()
    (tmp_path / "current").symlink_to("sha-1")
    names = ("there", "not", "models")
    pod = {
        "metadata": {"name": "edge-runtime"},
        "spec": {
            "volumes": [{"name": name} for name in names],
            "containers": [{"name": "c", "volumeMounts": [{"name": name} for name in names]}],
        },
    }
    told = {
        "pod": pod,
        "placed": str(tmp_path / "pods/edge-runtime.json"),
        "if_there": {name: str(tmp_path / name) for name in names[:2]},
        "model": str(tmp_path / "current"),
        "address": "127.0.0.1",
        "port": 1,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(told))
    return path


def run(config: Path, *words: str) -> int:
    return edge_pod.main([*words, "--config", str(config)])


def placed(config: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((config.parent / "pods/edge-runtime.json").read_text())
    return found


def test_it_leaves_out_what_this_host_has_not_and_names_the_model(config: Path) -> None:
    assert run(config, "place", "--check") == 1
    assert not (config.parent / "pods").exists(), "a check changes nothing"
    assert run(config, "place") == 0
    pod = placed(config)
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["there", "models"]
    assert [mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]] == ["there", "models"]
    assert pod["metadata"]["annotations"] == {"pinion/model": "sha-1"}
    assert run(config, "place", "--check") == 0
    assert [path.name for path in (config.parent / "pods").iterdir()] == ["edge-runtime.json"]
    assert (config.parent / "pods").stat().st_mode & 0o777 == 0o700


def test_another_model_is_another_pod(config: Path) -> None:
    run(config, "place")
    (config.parent / "sha-2").touch()
    (config.parent / "current").unlink()
    (config.parent / "current").symlink_to("sha-2")
    assert run(config, "place", "--check") == 1
    assert run(config, "place") == 0
    assert placed(config)["metadata"]["annotations"] == {"pinion/model": "sha-2"}


def test_without_a_model_nothing_is_placed(config: Path) -> None:
    (config.parent / "sha-1").unlink()
    assert run(config, "place") == 2
    assert not (config.parent / "pods").exists()


def test_it_is_gone_when_nobody_listens_any_more(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(config, "place")
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = json.loads(config.read_text()) | {"port": server.getsockname()[1]}
        config.write_text(json.dumps(told))
        monkeypatch.setattr(edge_pod, "PATIENCE", 0.5)
        assert run(config, "remove") == 1, "somebody still answers"
        monkeypatch.setattr(edge_pod, "PATIENCE", 20.0)
        threading.Timer(0.5, server.close).start()
        assert run(config, "remove") == 0
    assert run(config, "remove", "--check") == 0
    assert run(config, "remove") == 0, "gone already"


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_who_listens_everywhere_listens_at_the_address_too(address: str) -> None:
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        assert edge_pod.listens("127.0.0.1", server.getsockname()[1])


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ((192, 168, 101, 10), "192.168.101.10"),
        ((0xFD, *[0] * 14, 1), "fd00::1"),
        ((*[0] * 10, 255, 255, 192, 168, 101, 10), "192.168.101.10"),
    ],
)
def test_addresses_are_as_the_kernel_writes_them(words: tuple[int, ...], address: str) -> None:
    """Words of 32 bits in the processor's order, an IPv4 address in IPv6's words too."""
    raw = bytes(words)
    told = "".join(f"{int.from_bytes(raw[at : at + 4], sys.byteorder):08X}" for at in range(0, len(raw), 4))
    assert str(edge_pod.decoded(told)) == address
