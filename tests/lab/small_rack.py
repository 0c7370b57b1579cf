"""A lab small enough to be raised and dropped many times in a test: a switch, a management host and two Pis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.machine import Machine
from pinion.lab.state import InstanceState

SITE = """\
version: 1
site: small
region: local
racks:
  r1: {units: 12}
networks:
  management: {vid: 99, purpose: management, prefix: 10.77.99.0/24}
  control: {vid: 100, purpose: control, prefix: 10.77.100.0/24}
  edge-inference:
    vid: 101
    purpose: edge
    prefix: 10.77.101.0/24
    ranges: {pis: 10.77.101.10-10.77.101.99}
switches:
  tor-1: {platform: lab, model: lab-tor-16, rack: r1, unit: 12, network: management}
management_hosts:
  mgmt-1:
    {platform: lab, profile: lab-management-host, rack: r1, unit: 11, network: management, fabric_network: control, port: tor-1 Ethernet16}
pis:
  pi: {numbers: 1-2, board: raspberry-pi-5-8gb, rack: r1, platform: lab, network: edge-inference, range: pis, ports: tor-1 Ethernet1-8}
"""
#: A GPU server and a cluster beside it.
GPU = """\
gpu_servers:
  nv-1: {platform: lab, profile: lab-gpu-server, rack: r1, unit: 8, network: control, port: tor-1 Ethernet9}
kubernetes: {control_plane: mgmt-1}
"""
MACHINES = ("mgmt-1", "pi-01", "pi-02", "tor-1")


@dataclass(frozen=True)
class SmallRack:
    """One instance with a state folder of its own, driven by the command line as a user does."""

    instance: str
    folder: Path

    @classmethod
    def make(cls, folder: Path, name: str) -> SmallRack:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "site.yml").write_text(SITE)
        return cls(f"{name}-{os.getpid()}", folder)

    @property
    def site(self) -> Path:
        return self.folder / "site.yml"

    @property
    def store(self) -> InstanceState:
        return InstanceState(self.instance, self.folder / "state" / self.instance)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PINION_STATE": str(self.folder / "state")}

    def command(self, verb: str, *arguments: str) -> list[str]:
        """The command line of ``pinion lab VERB``."""
        program = str(Path(sys.executable).with_name("pinion"))
        return [program, "lab", verb, "--site", str(self.site), "--instance", self.instance, *arguments]

    def run(
        self, verb: str, *arguments: str, expect: int | None = 0, timeout: float = 280
    ) -> subprocess.CompletedProcess[str]:
        """Run ``pinion lab VERB`` and check its exit code."""
        done = subprocess.run(
            self.command(verb, *arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if expect is not None:
            assert done.returncode == expect, f"{verb}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def up(self) -> dict[str, object]:
        """Bring it up with no parts; the report."""
        report: dict[str, object] = json.loads(self.run("up", "--parts", "none", "--json").stdout)
        return report

    def down(self, *arguments: str) -> dict[str, object]:
        """Take it down; the report."""
        report: dict[str, object] = json.loads(self.run("down", "--json", *arguments).stdout)
        return report

    def machine(self, name: str) -> Machine:
        """One machine, to look inside."""
        return Machine(self.store, name)

    def pids(self) -> dict[str, int]:
        """The nspawn process of every machine that runs."""
        found = {name: self.machine(name).process for name in self.store.machine_names()}
        return {name: process.pid for name, process in found.items() if process is not None}

    def ping(self, machine: str, address: str) -> bool:
        """Whether *machine* reaches *address* at once."""
        return (
            self.machine(machine).run(["ping", "-c", "2", "-i", "0.2", "-W", "1", address], check=False).returncode == 0
        )

    def reaches(self, machine: str, address: str) -> bool:
        """Whether *machine* reaches *address* before long: a busy machine's answers take their time."""
        return self.machine(machine).run(["ping", "-c", "1", "-w", "30", address], check=False).returncode == 0


def traces(racks: Sequence[SmallRack]) -> list[str]:
    """What of *racks* is on this machine outside their state folders: processes, mounts, namespaces, cgroups, nspawn's notes."""
    words = [rack.instance for rack in racks]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(process.name) != os.getpid() and any(word in line for word in words):
            found.append(f"process {process.name}: {line}")
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line.split()[4]}" for line in lines if any(word in line for word in words)]
    for folder in (Path("/run/netns"), Path("/run/systemd/nspawn/propagate"), Path("/run/systemd/nspawn/unix-export")):
        if folder.is_dir():
            found += [
                f"{folder}/{entry.name}" for entry in folder.iterdir() if any(word in entry.name for word in words)
            ]
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found += [f"cgroup {directory}/{name}" for name in names if name in words]
    return found


def root_links() -> set[str]:
    """Network links in the root namespace."""
    return {entry.name for entry in Path("/sys/class/net").iterdir()}
