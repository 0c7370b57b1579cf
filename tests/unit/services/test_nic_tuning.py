"""The program nic-tuning, against cards that answer as ethtool, dcb and ip do, and against a real virtual link."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pinion.services.node_programs import nic_tuning

FAKE = Path(__file__).with_name("fake_nic.py")
#: A ConnectX as its driver leaves it.
FRESH: dict[str, Any] = {
    "ring_max": 8192,
    "rx": "1024",
    "tx": "1024",
    "adaptive-rx": "on",
    "adaptive-tx": "on",
    "rx-usecs": "8",
    "tx-usecs": "8",
    "tso": "on",
    "gso": "on",
    "gro": "off",
    "pause-rx": "on",
    "pause-tx": "on",
    "app": {},
    "pfc": [False] * 8,
}
WANTED: dict[str, Any] = {
    "mtu": 9000,
    "ring": 8192,
    "moderation": {"rx": None, "tx": None},
    "offloads": {"tcp-segmentation-offload": True, "generic-receive-offload": True},
    "pause": False,
    "priorities": {"26": 3, "48": 6},
    "pfc": [3],
    "tos": 104,
}


class Rig:
    """A machine with two cards."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.sys, self.cm = folder, folder / "state.json", folder / "sys", folder / "rdma_cm"
        self.config, self.bin = folder / "config.json", folder / "bin"
        self.bin.mkdir()
        for name in ("ethtool", "dcb", "ip"):
            (self.bin / name).symlink_to(FAKE)
        self.cards: dict[str, Any] = {}
        for number in range(2):
            nic = f"rdma{number}"
            self.cards[nic] = json.loads(json.dumps(FRESH))
            (self.sys / "class/net" / nic / f"device/infiniband/mlx5_{number}").mkdir(parents=True)
            (self.sys / "class/net" / nic / "mtu").write_text("1500\n")
            port = self.cm / f"mlx5_{number}/ports/1"  # the kernel makes these below a new folder
            port.mkdir(parents=True)
            (port / "default_roce_tos").write_text("0\n")
        self.wanted = {nic: json.loads(json.dumps(WANTED)) for nic in self.cards}
        self.save()

    def save(self) -> None:
        self.state.write_text(json.dumps(self.cards))
        self.config.write_text(json.dumps(self.wanted))

    def card(self, nic: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state.read_text())[nic]
        return found

    @property
    def changes(self) -> list[str]:
        log = self.state.with_suffix(".changes")
        return log.read_text().splitlines() if log.exists() else []

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        folders = ["--sys", str(self.sys), "--rdma-cm", str(self.cm), "--config", str(self.config)]
        return subprocess.run(
            [sys.executable, "-I", nic_tuning.__file__, *folders, *options],
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "NIC_STATE": str(self.state), "NIC_SYS": str(self.sys)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_fresh_card_gets_everything_and_the_second_run_nothing(rig: Rig) -> None:
    done = rig.run()
    assert done.returncode == 0, done.stdout
    for nic in ("rdma0", "rdma1"):
        card = rig.card(nic)
        assert (card["rx"], card["tx"], card["gro"]) == ("8192", "8192", "on")
        assert (card["pause-rx"], card["pause-tx"]) == ("off", "off"), "the whole link's pause would defeat PFC"
        assert card["app"] == {"26": 3, "48": 6}
        assert card["pfc"] == [False, False, False, True, False, False, False, False]
        assert (rig.sys / "class/net" / nic / "mtu").read_text() == "9000\n"
    assert [(rig.cm / f"mlx5_{number}/ports/1/default_roce_tos").read_text() for number in range(2)] == ["104", "104"]
    made = rig.changes
    again = rig.run()
    assert (again.returncode, again.stdout) == (0, "")
    assert rig.changes == made, "what is as wanted is not touched"


def test_check_tells_each_difference_and_changes_none(rig: Rig) -> None:
    done = rig.run("--check", "rdma0")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "rdma0: MTU is 1500, not 9000",
        "rdma0: rx ring is 1024, not 8192",
        "rdma0: tx ring is 1024, not 8192",
        "rdma0: generic-receive-offload is off, not on",
        "rdma0: rx pause is on, not off",
        "rdma0: tx pause is on, not off",
        "rdma0: priority by DSCP is not set, not 26:3 48:6",
        "rdma0: priorities with PFC is none, not 3",
        "rdma0: type of service of RDMA connections is 0, not 104",
    ]
    assert rig.changes == []


def test_a_card_that_was_reset_comes_back(rig: Rig) -> None:
    rig.run()
    rig.cards = json.loads(rig.state.read_text()) | {"rdma1": json.loads(json.dumps(FRESH))}
    rig.save()
    before = len(rig.changes)
    assert rig.run().returncode == 0
    assert rig.card("rdma1") == rig.card("rdma0")
    assert all(" rdma1 " in f"{line} " for line in rig.changes[before:])


def test_fixed_moderation_turns_the_adaptive_one_off(rig: Rig) -> None:
    rig.wanted["rdma0"]["moderation"] = {"rx": 0, "tx": 4}
    rig.save()
    assert rig.run().returncode == 0
    card = rig.card("rdma0")
    assert (card["adaptive-rx"], card["rx-usecs"], card["adaptive-tx"], card["tx-usecs"]) == ("off", "0", "off", "4")
    assert rig.card("rdma1")["adaptive-rx"] == "on"


def test_other_priorities_lose_their_pfc(rig: Rig) -> None:
    rig.cards["rdma0"]["pfc"] = [True] * 8
    rig.save()
    assert rig.run().returncode == 0
    assert rig.card("rdma0")["pfc"] == [False, False, False, True, False, False, False, False]


def test_what_a_card_cannot_do_is_told_and_the_rest_is_done(rig: Rig) -> None:
    rig.cards["rdma0"]["ring_max"] = 4096
    rig.save()
    done = rig.run()
    assert done.returncode == 1
    assert "rdma0: rx ring cannot be 8192: ethtool -G rdma0 rx 8192: netlink error: Invalid argument" in done.stdout
    assert rig.card("rdma0")["pfc"][3]
    assert rig.card("rdma1")["rx"] == "8192"


def test_a_tool_that_does_not_answer_is_no_success(rig: Rig) -> None:
    rig.cards["broken"] = ["dcb"]
    rig.save()
    done = rig.run()
    assert done.returncode == 1
    assert (
        "priorities with PFC cannot be 3: dcb -j pfc show dev rdma0: dcb: netlink error: Operation not supported"
        in done.stdout
    )
    assert rig.card("rdma0")["rx"] == "8192"


def test_a_missing_card_is_told(rig: Rig) -> None:
    shutil.rmtree(rig.sys / "class/net/rdma0")
    done = rig.run()
    assert done.returncode == 1
    assert "rdma0: there is no such network card" in done.stdout
    assert rig.card("rdma1")["rx"] == "8192"


def test_a_card_without_its_rdma_half(rig: Rig) -> None:
    shutil.rmtree(rig.sys / "class/net/rdma0/device/infiniband")
    done = rig.run()
    assert done.returncode == 1
    assert "it has no RDMA device" in done.stdout


@pytest.mark.parametrize("content", ["", "{", "[]", '{"rdma0": {}}', '{"rdma0": []}'])
def test_settings_that_are_none_are_no_success(rig: Rig, content: str) -> None:
    rig.config.write_text(content)
    assert rig.run().returncode == 2
    assert rig.changes == []


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ethtool") is None, reason="needs root and ethtool")
def test_a_real_virtual_link(tmp_path: Path) -> None:
    """With the real programs and the real kernel, in a network namespace of its own."""
    config = tmp_path / "config.json"
    nothing: dict[str, Any] = {
        "ring": None,
        "moderation": {},
        "pause": None,
        "priorities": None,
        "pfc": None,
        "tos": None,
    }
    offloads = {
        "tcp-segmentation-offload": False,
        "generic-segmentation-offload": True,
        "generic-receive-offload": True,
    }
    config.write_text(json.dumps({"rdma0": nothing | {"mtu": 9000, "offloads": offloads}}))
    program = f"{sys.executable} -I {nic_tuning.__file__} --config {config} --sys $sys"
    script = f"""
        set -e
        ip link add rdma0 type veth peer name far
        sys=$(mktemp -d); mount -t sysfs none "$sys"
        {program} --check || echo "check $?"
        {program}
        {program} --check && echo whole
        umount "$sys"; rmdir "$sys"
    """
    done = subprocess.run(["unshare", "-n", "-m", "/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "rdma0: MTU is 1500, not 9000" in done.stdout
    assert "check 1" in done.stdout
    assert "rdma0: MTU: 1500 -> 9000" in done.stdout
    assert "rdma0: generic-receive-offload: off -> on" in done.stdout
    assert "rdma0: tcp-segmentation-offload: on -> off" in done.stdout
    assert done.stdout.splitlines()[-1] == "whole"
