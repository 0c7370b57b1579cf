"""The program gpu-modes, against GPUs that answer as nvidia-smi does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pinion.services.node_programs import gpu_modes

#: Shapes of nvidia-smi 580: csv without a header, the table of GPU instances, exit 6 where there are none.
SMI = """#!/usr/bin/python3 -IS
import json, os, sys
path, words = os.environ["GPUS"], sys.argv[1:]
gpus = json.load(open(path))
def gpu():
    return gpus[words[words.index("-i") + 1]]
if words[0].startswith("--query-gpu"):
    names = {True: "Enabled", False: "Disabled"}
    for index, one in gpus.items():
        print(f"{index}, {names[one['on']]}, {names[one['pending']]}")
elif words[:2] == ["mig", "-lgi"]:
    rows = [(index, each) for index, one in gpus.items() for each in one["instances"]]
    if not rows:
        sys.exit("No GPU instances found: Not Found" if any(one["on"] for one in gpus.values()) else "No MIG-enabled devices found.")
    print("+" + "-" * 55 + "+\\n| GPU instances:" + " " * 40 + "|\\n| GPU   Name             Profile  Instance   Placement  |")
    print("|                          ID       ID       Start:Size |\\n|" + "=" * 55 + "|")
    for number, (index, name) in enumerate(rows):
        print(f"|{index:>4}  MIG {name:<17}{9:>3}{number:>9}{'0:4':>13}     |")
        print("+" + "-" * 55 + "+")
elif "-mig" in words:
    gpu()["pending"] = words[-1] == "1"
    if not gpu()["stubborn"]:
        gpu()["on"] = gpu()["pending"]
elif "-cgi" in words:
    gpu()["instances"] = words[words.index("-cgi") + 1].split(",")
elif "-dgi" in words:
    gpu()["instances"] = []
elif "-dci" in words and gpu()["used"]:
    sys.exit("Unable to destroy compute instance ID  0: In use by another client")
json.dump(gpus, open(path, "w"))
open(path + ".log", "a").write(" ".join(words) + "\\n")
"""


class Server:
    """Two GPUs and the program's settings."""

    def __init__(self, folder: Path) -> None:
        self.path, self.config, self.bin = folder / "gpus", folder / "config.json", folder / "bin"
        self.bin.mkdir()
        (self.bin / "nvidia-smi").write_text(SMI)
        (self.bin / "nvidia-smi").chmod(0o755)
        whole = {"on": False, "pending": False, "instances": [], "used": False, "stubborn": False}
        self.set({"0": whole, "1": dict(whole)})
        self.want()

    def set(self, gpus: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(gpus))

    def change(self, index: str, **values: Any) -> None:
        gpus = json.loads(self.path.read_text())
        gpus[index].update(values)
        self.set(gpus)

    def want(self, *profiles: str) -> None:
        self.config.write_text(json.dumps({"mig": profiles}))

    @property
    def instances(self) -> list[list[str]]:
        return [gpu["instances"] for gpu in json.loads(self.path.read_text()).values()]

    def changes(self) -> list[str]:
        log = Path(f"{self.path}.log")
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if "--query" not in line and "-lgi" not in line]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", gpu_modes.__file__, "--config", str(self.config), *options],
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "GPUS": str(self.path)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_whole_gpus_are_left_alone(server: Server) -> None:
    done = server.run()
    assert (done.returncode, done.stdout) == (0, "")
    assert server.changes() == []


def test_every_gpu_is_divided_once(server: Server) -> None:
    server.want("4g.40gb", "3g.40gb")
    assert server.run("--check").returncode == 1
    assert server.changes() == []
    done = server.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert server.instances == [["3g.40gb", "4g.40gb"]] * 2
    made = server.changes()
    assert server.run().stdout == ""
    assert server.changes() == made


def test_another_division_takes_the_place_of_the_old_one(server: Server) -> None:
    server.want("3g.40gb", "3g.40gb")
    server.run()
    server.want("1g.10gb")
    done = server.run()
    assert done.returncode == 0, done.stdout
    assert "GPU 0: instances are 3g.40gb, 3g.40gb, not 1g.10gb; now 1g.10gb" in done.stdout
    server.want()
    assert server.run().returncode == 0
    assert server.instances == [[], []]


def test_instances_in_use_stay_and_the_other_gpus_are_done(server: Server) -> None:
    server.want("3g.40gb")
    server.run()
    server.change("0", used=True)
    server.want("1g.10gb")
    done = server.run()
    assert done.returncode == 1
    assert "In use by another client" in done.stdout
    assert server.instances == [["3g.40gb"], ["1g.10gb"]]


def test_a_mode_that_waits_for_a_reset_is_told(server: Server) -> None:
    server.change("1", stubborn=True)
    server.want("3g.40gb")
    done = server.run()
    assert done.returncode == 1
    assert "GPU 1: MIG is off, and waits for a reset of the GPU" in done.stdout
    assert server.instances == [["3g.40gb"], []]


def test_without_a_driver_there_is_no_success(server: Server) -> None:
    (server.bin / "nvidia-smi").write_text(
        '#!/bin/sh\necho "NVIDIA-SMI has failed because it couldn\'t communicate"\nexit 9\n'
    )
    done = server.run()
    assert done.returncode == 1, "no more than what waits: the run that places it goes on"
    assert "couldn't communicate" in done.stdout
    assert server.run("--check").returncode == 1


def test_settings_that_are_none_are_no_success(server: Server) -> None:
    server.config.write_text("{}")
    assert server.run().returncode == 2
