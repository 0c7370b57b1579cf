"""Fresh hosts to their planned state, and again with nothing to do, beside plain Ansible: `python tests/benchmarks/hosts_converge.py`.

Needs root. Raises a lab of its own with as many Pis as asked for, anew for each way, so that each finds hosts that nobody has touched; the
packages lie on their disks already, since a mirror's speed is nobody's merit. In one run, for each delay that SSH's round trips are given:

* floor: ssh to all hosts side by side, one script that does nothing;
* plain: a playbook of Ansible's own modules that brings the same state about (`plain_ansible`), forks for all hosts, pipelining, kept
  connections;
* mitogen: the same playbook by Mitogen's strategy;
* ansible, pyinfra: what `pinion converge` runs for a wave, without its checks.

After `plain` Pinion is asked what it would still change: what is left is what the comparison leaves out. Prints seconds, the controller's
peak of memory (unique set sizes of its processes, sampled), and ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.plain_ansible import inventory, playbook
from lab.hosts_rack import REPOSITORY, HostsRack

from pinion.drivers.hosts.inventory import plan_of
from pinion.drivers.hosts.programs import ansible, pyinfra
from pinion.plan.model import HostPlan

#: By PyPI: the release that knows ansible-core 2.19.
MITOGEN = "mitogen==0.3.54"
WAYS = ("floor", "plain", "mitogen", "ansible", "pyinfra")
#: Ports of the largest lab switch.
_PORTS = 48
CONCERNS = "concerns: {base: {}, node_metrics: {}, pi_tuning: {}, power_thermal: {}, watchdog: {}}\n"


@dataclass(frozen=True)
class FleetRack(HostsRack):
    """A management host, and as many Pis as asked for."""

    BARE = False

    @classmethod
    def fleet(cls, folder: Path, name: str, count: int) -> FleetRack:
        """A rack of *count* Pis."""
        made = super().make(folder, name)
        rack = cls(made.instance, made.folder)
        assert count < _PORTS, f"one switch has room for {_PORTS - 1}"
        before, _, rest = rack.site.read_text().partition("switches:")
        _, _, after = rest.partition("access:")
        parts = [
            "switches: {tor-1: {platform: lab, model: lab-tor-48, rack: r1, unit: 12, network: management}}",
            "management_hosts:",
            "  mgmt-1:",
            (
                "    {platform: lab, profile: lab-management-host, rack: r1, unit: 11, network: management, fabric_network: control,"
                f" port: tor-1 Ethernet{_PORTS}}}"
            ),
            "pis:",
            (
                f"  pi: {{numbers: 1-{count}, board: raspberry-pi-5-8gb, rack: r1, platform: lab, network: edge-inference, range: pis,"
                f" ports: tor-1 Ethernet1-{count}}}"
            ),
            f"access: {after.strip()}",
            CONCERNS,
        ]
        rack.site.write_text(before + "\n".join(parts))
        return rack

    @property
    def pis(self) -> list[HostPlan]:
        """The hosts that are converged."""
        return [host for host in plan_of(self.site).hosts if host.kind.value == "pi"]


@dataclass
class Taken:
    """Seconds of a command, and the most memory (bytes) that it and its children had."""

    seconds: float
    peak: int
    code: int
    said: str


def timed(rack: FleetRack, command: Sequence[str], variables: Mapping[str, str]) -> Taken:
    """Run *command* in the operator's position."""
    peak = 0
    ended = threading.Event()
    started = time.monotonic()
    process = subprocess.Popen(
        rack.inside_command(*command),
        env={**rack.environment, **variables},
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def watch() -> None:
        nonlocal peak
        while not ended.wait(1.0):
            total = 0
            with contextlib.suppress(psutil.Error):
                for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        total += one.memory_full_info().uss
            peak = max(peak, total)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        said = process.communicate()[0]
        seconds = time.monotonic() - started
    finally:
        ended.set()
        watcher.join()
    return Taken(seconds, peak, process.returncode, said)


@contextlib.contextmanager
def longer(rack: FleetRack, delay: float) -> Iterator[None]:
    """SSH to the hosts takes *delay* seconds more a round trip."""
    if not delay:
        yield
        return
    command = rack.inside_command(sys.executable, str(Path(__file__).with_name("ssh_delay.py")), str(delay))
    with subprocess.Popen(
        command, env=rack.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as proxy:
        assert proxy.stdout is not None
        assert proxy.stdin is not None
        assert proxy.stdout.readline() == "ready\n"
        yield
        proxy.stdin.close()


def floor(rack: FleetRack) -> Taken:
    """Connect to all hosts side by side and run a script that does nothing."""
    started = time.monotonic()
    with ThreadPoolExecutor(len(rack.pis)) as pool:
        commands = [rack.ssh_command(host.name, "sudo -n sh -c true") for host in rack.pis]
        done = list(
            pool.map(lambda one: subprocess.run(one, env=rack.environment, capture_output=True, check=False), commands)
        )
    failed = [one.stderr.decode() for one in done if one.returncode]
    return Taken(time.monotonic() - started, 0, 1 if failed else 0, "\n".join(failed))


def plain(rack: FleetRack, mitogen: Path | None) -> tuple[list[str], dict[str, str]]:
    """Command and variables of the plain playbook."""
    keys = rack.store.ssh
    stated = rack.folder / "plain"
    stated.mkdir(exist_ok=True)
    (stated / "hosts.json").write_text(
        json.dumps(inventory(rack.pis, str(keys / "id_ed25519"), str(keys / "known_hosts"), stated / "files"))
    )
    (stated / "site.json").write_text(json.dumps(playbook(rack.pis[0])))
    (stated / "ansible.cfg").write_text(
        f"[defaults]\nforks = {len(rack.pis)}\nhost_key_checking = True\n[ssh_connection]\npipelining = True\n"
    )
    variables = {"ANSIBLE_CONFIG": str(stated / "ansible.cfg"), "ANSIBLE_HOME": str(stated / "home")}
    if mitogen is not None:
        variables |= {
            "PYTHONPATH": str(mitogen),
            "ANSIBLE_STRATEGY": "mitogen_linear",
            "ANSIBLE_STRATEGY_PLUGINS": str(mitogen / "ansible_mitogen/plugins/strategy"),
        }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(stated / "hosts.json"), str(stated / "site.json")]
    return command, variables


def runs(rack: FleetRack, way: str, mitogen: Path) -> tuple[list[str], dict[str, str]]:
    """Command and variables of *way*."""
    names = [host.name for host in rack.pis]
    if way == "ansible":
        return ansible(rack.site, names, check=False), {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")}
    if way == "pyinfra":
        return pyinfra(rack.site, names, check=False), {}
    return plain(rack, mitogen if way == "mitogen" else None)


def measured(folder: Path, count: int, delay: float, way: str, mitogen: Path) -> dict[str, object]:
    """First and second run of *way* on *count* fresh hosts."""
    rack = FleetRack.fleet(folder, "b-fleet", count)
    try:
        rack.up()
        if way in {"plain", "mitogen"}:  # what Ansible's module for packages needs, and images for it have
            with ThreadPoolExecutor(4) as pool:
                list(
                    pool.map(lambda host: rack.on(host.name, "apt-get install -y -q python3-apt >/dev/null"), rack.pis)
                )
        with longer(rack, delay):
            if way == "floor":
                # the first login to a host starts what later ones find there
                twice = floor(rack), floor(rack)
                assert not any(took.code for took in twice), twice
                return {"first": round(twice[0].seconds, 2), "second": round(twice[1].seconds, 2)}
            command, variables = runs(rack, way, mitogen)
            first, second = (timed(rack, command, variables) for _ in range(2))
        for taken in (first, second):
            assert taken.code == 0, taken.said[-6000:]
        name = rack.pis[0].name
        left = rack.converge("ansible", "--check", "--limit", name, expect=None)["hosts"][name]["changes"]
        return {
            "first": round(first.seconds, 2),
            "second": round(second.seconds, 2),
            "peak_mib": round(max(first.peak, second.peak) / 2**20),
            "left": [f"{change['kind']} {change['subject']}" for change in left],
        }
    finally:
        rack.run("down", "--purge", expect=None)


def main() -> None:
    """Measure all ways, print what they took and the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--delays", default="0,50", help="milliseconds that a round trip takes more, by commas")
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, object]]] = {}
    with tempfile.TemporaryDirectory(prefix="pinion-fleet-") as scratch:
        mitogen = Path(scratch) / "mitogen"
        if "mitogen" in options.ways:
            get = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(mitogen), MITOGEN]
            subprocess.run(get, check=True)
        for delay in options.delays.split(","):
            for way in options.ways.split(","):
                folder = Path(scratch) / f"{way}-{delay}"
                one = measured(folder, options.hosts, int(delay) / 1000, way, mitogen)
                found.setdefault(delay, {})[way] = one
                print(f"{options.hosts} hosts, {delay} ms, {way}: {json.dumps(one)}", flush=True)
    for delay, ways in found.items():
        against = ways.get("plain")
        for way, one in ways.items():
            if against is None or way in {"plain", "floor"}:
                continue
            ratios = {run: round(float(str(against[run])) / float(str(one[run])), 2) for run in ("first", "second")}
            print(
                f"{delay} ms: plain Ansible takes {ratios['first']} times {way}'s first run, {ratios['second']} times its second"
            )
    print(json.dumps({"hosts": options.hosts, "machine": os.cpu_count(), "found": found}))


if __name__ == "__main__":
    main()
