"""The program irq-pinning, against a sysfs and a procfs of the right shape."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pinion.services.node_programs import irq_pinning

CPUS = {"0": "2-3,114-115", "1": "58-59,170-171"}


class Machine:
    """PCI devices with interrupts, each in one folder, and the affinity that every interrupt has."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.proc, self.config = folder / "sys", folder / "proc", folder / "config.json"
        (self.sys / "bus/pci/devices").mkdir(parents=True)
        self.wanted: dict[str, object] = {"devices": [], "classes": [], "cpus": CPUS}

    def device(self, address: str, vendor: str, kind: str, node: int, vectors: range = range(0), line: int = 0) -> Path:
        folder = self.sys / "bus/pci/devices" / address
        folder.mkdir()
        for name, value in {"vendor": vendor, "class": kind, "numa_node": str(node), "irq": str(line)}.items():
            (folder / name).write_text(f"{value}\n")
        if vectors:
            (folder / "msi_irqs").mkdir()
        for number in vectors:
            (folder / "msi_irqs" / str(number)).write_text("msix\n")
        for number in vectors or range(line, line + 1):
            entry = self.proc / f"irq/{number}"
            entry.mkdir(parents=True, exist_ok=True)
            (entry / "smp_affinity_list").write_text("0-223\n")
        return folder

    def affinity(self, *numbers: int) -> list[str]:
        return [(self.proc / f"irq/{number}/smp_affinity_list").read_text().strip() for number in numbers]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        self.config.write_text(json.dumps(self.wanted))
        folders = ["--sys", str(self.sys), "--proc", str(self.proc), "--config", str(self.config)]
        return subprocess.run(
            [sys.executable, "-I", irq_pinning.__file__, *folders, *options],
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A NIC on each node, as the settings say, a GPU on node 1, and a disk that is nobody's."""
    made = Machine(tmp_path)
    made.device("0000:18:00.0", "0x15b3", "0x020000", 0, range(100, 106))
    made.device("0000:9a:00.0", "0x15b3", "0x020000", 1, range(200, 203))
    made.device("0000:9d:00.0", "0x10de", "0x030200", 1, range(300, 302))
    made.device("0000:01:00.0", "0x144d", "0x010802", 0, range(400, 404))
    made.wanted["devices"] = [
        {"name": "rdma0", "pci": "0000:18:00.0", "numa_node": 0},
        {"name": "rdma4", "pci": "0000:9a:00.0", "numa_node": 1},
    ]
    made.wanted["classes"] = [{"name": "GPU", "vendor": "0x10de", "class": "0x0302"}]
    return made


def test_each_interrupt_gets_one_core_of_its_own_node_and_all_share_the_load(machine: Machine) -> None:
    done = machine.run()
    assert done.returncode == 0, done
    assert machine.affinity(*range(100, 106)) == ["2", "3", "114", "115", "2", "3"]
    assert machine.affinity(*range(200, 203)) == ["58", "59", "170"]
    assert machine.affinity(300, 301) == ["58", "59"]
    assert machine.affinity(*range(400, 404)) == ["0-223"] * 4, "a disk is none of ours"
    again = machine.run()
    assert (again.returncode, again.stdout) == (0, "")


def test_what_somebody_moved_comes_back(machine: Machine) -> None:
    machine.run()
    (machine.proc / "irq/101/smp_affinity_list").write_text("7\n")
    check = machine.run("--check")
    assert check.returncode == 1
    assert check.stdout == "rdma0: interrupt 101 is on 7, not 3\n"
    assert machine.affinity(101) == ["7"], "a check changes nothing"
    assert "interrupt 101: 7 -> 3" in machine.run().stdout
    assert machine.run("--check").returncode == 0


def test_the_kernels_word_on_the_node_counts_and_the_catalogues_error_is_told(machine: Machine) -> None:
    (machine.sys / "bus/pci/devices/0000:18:00.0/numa_node").write_text("1\n")
    done = machine.run()
    assert done.returncode == 1
    assert "hangs on NUMA node 1 and not 0, as the hardware catalogue says" in done.stdout
    assert machine.affinity(100) == ["58"]


def test_a_kernel_that_does_not_know_the_node_leaves_it_to_the_catalogue(machine: Machine) -> None:
    (machine.sys / "bus/pci/devices/0000:18:00.0/numa_node").write_text("-1\n")
    assert machine.run().returncode == 0
    assert machine.affinity(100) == ["2"]


def test_a_gpu_on_no_known_node_is_left_and_told(machine: Machine) -> None:
    (machine.sys / "bus/pci/devices/0000:9d:00.0/numa_node").write_text("-1\n")
    done = machine.run()
    assert done.returncode == 1
    assert "GPU 0000:9d:00.0: no cores are kept for interrupts of NUMA node None" in done.stdout
    assert machine.affinity(300) == ["0-223"]


def test_a_missing_nic_is_told_and_the_others_are_served(machine: Machine) -> None:
    machine.wanted["devices"].append({"name": "rdma7", "pci": "0000:dc:00.0", "numa_node": 1})  # type: ignore[attr-defined]
    done = machine.run()
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "rdma7: there is no PCI device 0000:dc:00.0"
    assert machine.affinity(100, 200) == ["2", "58"]


def test_a_device_with_a_line_interrupt(machine: Machine) -> None:
    machine.device("0000:9f:00.0", "0x10de", "0x030200", 1, line=16)
    assert machine.run().returncode == 0
    assert machine.affinity(16) == ["58"]


def test_an_interrupt_that_the_driver_gave_back_is_no_problem(machine: Machine) -> None:
    (machine.proc / "irq/102/smp_affinity_list").unlink()
    assert machine.run().returncode == 0


@pytest.mark.parametrize(
    ("address", "answer"), [("0000:18:00.0", "ban=true"), ("0000:9d:00.0", "ban=true"), ("0000:01:00.0", "ban=false")]
)
def test_irqbalance_is_told_to_keep_off_ours(machine: Machine, address: str, answer: str) -> None:
    path = machine.sys / "bus/pci/devices" / address
    assert machine.run("--policy", str(path), "100").stdout.strip() == answer


def test_settings_that_are_none_are_no_success(machine: Machine) -> None:
    del machine.wanted["cpus"]
    assert machine.run().returncode == 2
