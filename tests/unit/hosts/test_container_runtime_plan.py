"""What the plan says of the concern container_runtime, read by a parser of its own and by a real containerd."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.nodes import concern, file, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.container_runtime import CDI_FOLDERS
from pinion.plan.kubelet import CONTAINERD_CONFIG as CONFIG_FILE
from pinion.plan.model import DeviceKind

GPU = DeviceKind.GPU_SERVER
CRI = "io.containerd.grpc.v1.cri"
LAYERS = Path(os.environ.get("PINION_CACHE", "/var/cache/pinion")) / "layers"
CONTAINERD = next(iter(sorted(LAYERS.glob("node-*/fs/usr/bin/containerd"))), None)


def text() -> str:
    return file(concern(stated(DC, {"container_runtime": {}}), GPU, "container_runtime"), CONFIG_FILE).content


def check(read: dict[str, Any]) -> None:
    """What a configuration must say, whoever read it."""
    cri = read["plugins"][CRI]
    assert cri["enable_cdi"] is True
    assert cri["cdi_spec_dirs"] == list(CDI_FOLDERS)
    assert cri["cni"]["bin_dir"] == "/opt/cni/bin"
    assert cri["containerd"]["default_runtime_name"] == "runc"
    runtimes = cri["containerd"]["runtimes"]
    assert set(runtimes) == {"runc", "nvidia"}
    assert all(runtime["runtime_type"] == "io.containerd.runc.v2" for runtime in runtimes.values())
    assert all(runtime["options"]["SystemdCgroup"] is True for runtime in runtimes.values())
    assert runtimes["nvidia"]["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"


def test_the_file() -> None:
    read = tomllib.loads(text())
    assert read["version"] == 2
    check(read)


@pytest.mark.skipif(CONTAINERD is None, reason="needs a containerd: make it with `pinion lab up`")
def test_a_real_containerd_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text())
    command = [str(CONTAINERD), "--config", str(path), "config", "dump"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(tomllib.loads(done.stdout))
    # the claim's own command, on what containerd says
    (claim,) = [
        entry
        for entry in concern(stated(DC, {"container_runtime": {}}), GPU, "container_runtime").claims
        if entry.name == "runtimes"
    ]
    pipeline = claim.command.replace("containerd config dump", f"cat {tmp_path}/dump", 1)
    (tmp_path / "dump").write_text(done.stdout)
    said = subprocess.run(["/bin/sh", "-c", pipeline], capture_output=True, text=True, check=True).stdout
    assert said.strip() == claim.expected


@pytest.mark.skipif(CONTAINERD is None, reason="needs a containerd: make it with `pinion lab up`")
def test_a_wrong_file_never_takes_the_place_of_a_good_one(tmp_path: Path) -> None:
    """By the validation that the host does before it replaces the file."""
    stated_file = file(concern(stated(DC, {"container_runtime": {}}), GPU, "container_runtime"), CONFIG_FILE)
    assert stated_file.validate_command is not None
    for content, good in ((text(), True), (re.sub("enable_cdi = true", "enable_cdi = maybe", text()), False)):
        path = tmp_path / "candidate"
        path.write_text(content)
        command = re.sub("^containerd", str(CONTAINERD), stated_file.validate_command) % path
        assert (subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False).returncode == 0) is good


def test_only_gpu_servers_and_never_the_labs() -> None:
    plan = stated(DC, {"container_runtime": {}})
    assert {host.kind for host in plan.hosts if "container_runtime" in host.concerns} == {GPU}
    assert not any("container_runtime" in host.concerns for host in stated(LAB, {"container_runtime": {}}).hosts)
