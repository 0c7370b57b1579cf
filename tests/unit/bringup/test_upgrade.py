"""An upgrade in waves, on hosts and a cluster in memory: who is drained, upgraded, rebooted, proved and let go; and what SSH carries."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from unit.bringup.test_reboot import PowerCutError, World, maintenance, plan

from pinion.bringup.access import Access
from pinion.bringup.cluster_node import ClusterNodeError, server_version
from pinion.bringup.host_shell import HostRefusedError, ask_each
from pinion.bringup.rollout import Rollout, roll_out
from pinion.bringup.upgrade import Package, RemotePackages, Request, Upgraded, Upgrades
from pinion.cli import main
from pinion.cli import maintenance as maintenance_command
from pinion.drivers.hosts.inventory import Login
from pinion.plan import Plan
from pinion.plan.model import HostPlan

__all__ = ["plan"]  # the fixture

KERNEL = Package(name="linux-image-rpi-2712", before="6.12.1", after="6.12.2")
TOOL = Package(name="jq", before="1.7", after="1.8")


@dataclass
class Archive:
    """What hosts of *world* would bring. A kernel makes its host ask for a reboot; *broken* hosts cannot."""

    world: World
    newer: dict[str, tuple[Package, ...]] = field(default_factory=dict)
    stale: dict[str, tuple[str, ...]] = field(default_factory=dict)
    broken: tuple[str, ...] = ()

    def pending(self, host: HostPlan, request: Request) -> Upgraded:
        return Upgraded(packages=self.newer.get(host.name, ()))

    def change(self, host: HostPlan, request: Request) -> Upgraded:
        if host.name in self.broken:
            raise HostRefusedError(f"{host.name}: apt-get failed")
        brought = self.newer.pop(host.name, ())
        if KERNEL in brought:
            self.world.waiting[host.name] = ("packages: linux-image-rpi-2712",)
        self.world.deeds.append(f"upgrade {host.name}")
        if self.world.cut_at == f"upgrade {host.name}":
            raise PowerCutError
        return Upgraded(packages=brought, stale=self.stale.get(host.name, ()))


def run(plan: Plan, archive: Archive, *waves: Sequence[str], drain: bool = True, reboot: bool = True) -> Rollout:
    """Upgrade *waves* of hosts."""
    work = maintenance(plan, archive.world, drain=drain)
    upgrades = Upgrades(work, archive, Request("run-1"), reboot=reboot)
    return roll_out([tuple(wave) for wave in waves], work.each(upgrades.one), work.verify)


def test_drained_upgraded_rebooted_where_needed_proved_and_let_go_in_this_order(plan: Plan) -> None:
    world = World(waiting={})
    archive = Archive(world, {"pi-01": (KERNEL, TOOL), "pi-02": (TOOL,)})
    done = run(plan, archive, ["pi-01"], ["pi-02"])
    assert done.stops == []
    assert world.deeds == [
        *("drain pi-01", "upgrade pi-01", "reboot pi-01", "uncordon pi-01"),
        *("drain pi-02", "upgrade pi-02", "uncordon pi-02"),
    ]
    kinds = [(change["kind"], change["subject"]) for change in done.results["pi-01"].changes]
    assert kinds == [("package", KERNEL.name), ("package", "jq"), ("reboot", "pi-01")]
    assert done.waves[0].proved > 10


def test_programs_that_run_with_replaced_files_are_a_reason_to_reboot(plan: Plan) -> None:
    world = World(waiting={})
    archive = Archive(world, {"pi-03": (TOOL,)}, stale={"pi-03": ("sshd",)})
    assert run(plan, archive, ["pi-03"]).stops == []
    assert world.deeds == ["upgrade pi-03", "reboot pi-03"]


def test_who_wants_no_reboot_is_told_that_one_is_due(plan: Plan) -> None:
    world = World(waiting={})
    done = run(plan, Archive(world, {"pi-01": (KERNEL,)}), ["pi-01"], reboot=False)
    assert done.stops == []
    assert done.results["pi-01"].reboot == ["packages: linux-image-rpi-2712"]
    assert "reboot pi-01" not in world.deeds


def test_a_host_that_cannot_be_upgraded_stops_the_run_and_stays_cordoned(plan: Plan) -> None:
    world = World(waiting={})
    done = run(plan, Archive(world, broken=("pi-01",)), ["pi-01"], ["pi-02"])
    assert [stop.what for stop in done.stops] == ["pi-01: apt-get failed"]
    assert done.untouched == ("pi-02",)
    assert world.cordoned == {"pi-01"}
    assert world.deeds == ["drain pi-01"]


def test_a_host_that_is_not_as_planned_afterwards_stays_cordoned_and_keeps_the_next_wave_back(plan: Plan) -> None:
    world = World(waiting={}, unwell=("pi-01",))
    done = run(plan, Archive(world, {"pi-01": (TOOL,), "pi-02": (TOOL,)}), ["pi-01"], ["pi-02"])
    assert done.untouched == ("pi-02",)
    assert world.cordoned == {"pi-01"}


@pytest.mark.parametrize("cut_at", ["drain pi-01", "upgrade pi-01", "reboot pi-01", "uncordon pi-01"])
def test_after_a_run_that_was_killed_the_next_one_ends_where_it_would_have(plan: Plan, cut_at: str) -> None:
    world = World(waiting={}, cut_at=cut_at)
    archive = Archive(world, {"pi-01": (KERNEL,)})
    with pytest.raises(PowerCutError):
        run(plan, archive, ["pi-01"])
    world.cut_at = ""
    world.down.clear()
    hosts = list(plan.hosts)
    found = ask_each(hosts, lambda host: archive.pending(host, Request("run-2")))
    due = [host.name for host in hosts if archive.newer.get(host.name) or world.waiting.get(host.name)]
    assert all(isinstance(said, Upgraded) for said in found.values())
    maintenance(plan, world).take_up([host.name for host in hosts if host.name not in due])
    assert run(plan, archive, due).stops == [] if due else True
    assert world.cordoned == set()
    assert world.boots["pi-01"] == 1
    assert archive.newer == {}


# --- what SSH carries -------------------------------------------------------------------------------------------------------


def test_a_kubelet_may_not_pass_its_api_server(plan: Plan) -> None:
    asked: list[str] = []

    def ssh(argv: Sequence[str], **given: object) -> subprocess.CompletedProcess[str]:
        asked.append(argv[-1])
        assert "fcntl.flock" in str(given["input"]), "the program comes by standard input"
        return subprocess.CompletedProcess(argv, 0, json.dumps({"packages": [TOOL.model_dump()]}), "")

    remote = RemotePackages(Login(None, None), ssh)
    assert remote.pending(plan.hosts[0], Request("r", {"kubelet": "1.34"})).packages == (TOOL,)
    assert remote.change(plan.hosts[0], Request("r", back=True)).packages == (TOOL,)
    assert '"kubelet": "1.34"' in asked[0]
    assert " --check " in asked[0]
    assert " --back " in asked[1]
    assert " --check " not in asked[1]
    assert "kubelet" not in asked[1]


def test_an_answer_that_is_none_is_refused(plan: Plan) -> None:
    def ssh(argv: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, 0, "Killed\n", "")

    with pytest.raises(HostRefusedError, match="without an answer"):
        RemotePackages(Login(None, None), ssh).change(plan.hosts[0], Request("r"))


def test_the_version_of_the_api_server() -> None:
    def kubectl(said: str) -> str:
        return server_version(
            Path("k"), lambda argv, **_: subprocess.CompletedProcess(argv, 0, json.dumps(json.loads(said)), "")
        )

    assert kubectl('{"serverVersion": {"major": "1", "minor": "34+"}}') == "1.34"
    with pytest.raises(ClusterNodeError):
        kubectl('{"clientVersion": {"major": "1", "minor": "34"}}')


# --- the command ------------------------------------------------------------------------------------------------------------

#: Hosts that answer their boot, or that a tool has a newer version which fixes a hole.
SSH = """#!/bin/sh
case "$*" in
*boot_id*) printf 'b1f5\\n77\\n[]\\n';;
*--back*--check*|*--check*--back*) echo '{"packages": [], "kept": ["run-0"]}';;
*--check*) echo '@CHECK@';;
*) echo "nothing else may be asked: $*" >&2; exit 1;;
esac
"""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SSH that answers `SSH`."""
    program = tmp_path / "ssh"
    program.write_text(SSH.replace("@CHECK@", '{"packages": []}'))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    return program


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["upgrade", "lab", *words])


def test_nothing_to_do_says_so(hosts: Path) -> None:
    for words in (["--check"], ["--no-drain", "--yes"]):
        result = command(*words)
        assert result.exit_code == 0, result.output
        assert "nothing is newer than what the hosts have" in result.output


def test_a_check_names_what_would_become_newer_and_changes_nothing(hosts: Path) -> None:
    fix = {**TOOL.model_dump(), "security": True}
    said = {
        "packages": [fix],
        "kept_back": ["delta"],
        "refused": {"kubelet": "1.35 is newer than the 1.34 that it may be"},
    }
    hosts.write_text(SSH.replace("@CHECK@", json.dumps(said)))
    result = command("--check", "--limit", "pi-01", "--json")
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert answer["pending"]["pi-01"]["packages"] == [fix]
    assert answer["changed"] == {}
    for line in (
        "pi-01: 1 packages, 1 of them security fixes",
        "  jq 1.7 -> 1.8 (security)",
        "pi-01: stay, since other packages would have to go: delta",
        "pi-01: kubelet stays: 1.35 is newer than the 1.34 that it may be",
    ):
        assert line in result.stderr.splitlines()
    refused = command("--no-drain", "--limit", "pi-01")
    assert refused.exit_code == 2
    assert "nobody to ask: say --yes to change 1 hosts; nothing was touched" in refused.output


def test_a_run_that_no_host_has_is_named(hosts: Path) -> None:
    result = command("--back", "run-7", "--no-drain", "--yes")
    assert result.exit_code == 2
    assert "no host has a run run-7; there are: run-0" in result.output
    assert command("--back", "run-0", "--no-drain", "--yes").exit_code == 0, "all of them went back already"


NOT_KNOWN = "the API server's version is not known: kubeadm, kubectl, kubelet keep their minor version"


@pytest.mark.parametrize("words", [["--check"], ["--no-drain", "--yes"]])
def test_without_a_stack_a_kubelet_keeps_its_minor_version_and_that_is_told(
    hosts: Path, tmp_path: Path, words: list[str]
) -> None:
    hosts.write_text(hosts.read_text().replace("case", f'echo "$*" >>{tmp_path}/asked\ncase', 1))
    result = command(*words)
    assert result.exit_code == 0, result.output
    assert f"{NOT_KNOWN} (stack lab names no cluster that can be asked)" in result.stderr.splitlines()
    asked = [line for line in (tmp_path / "asked").read_text().splitlines() if "newest" in line]
    assert asked
    for line in asked:
        assert '"newest": {"kubeadm": null, "kubectl": null, "kubelet": null}' in line


@pytest.fixture
def silent_cluster(hosts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack with a kubeconfig whose API server does not answer, as its own kubectl says it."""
    said = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setattr(maintenance_command, "access_of", lambda *_: Access(kubeconfig=tmp_path / "kubeconfig"))
    monkeypatch.setattr(maintenance_command, "obtain", lambda *_: None)


@pytest.mark.usefixtures("silent_cluster")
def test_an_api_server_that_does_not_answer_stops_only_who_drains() -> None:
    for words in (["--check"], ["--no-drain", "--yes"]):
        result = command(*words)
        assert result.exit_code == 0, result.output
        (told,) = [line for line in result.stderr.splitlines() if line.startswith(NOT_KNOWN)]
        assert "127.0.0.1:1 was refused" in told
    result = command("--yes")
    assert result.exit_code == 2
    assert "127.0.0.1:1 was refused" in result.output
    assert NOT_KNOWN not in result.output


def test_who_drains_needs_the_cluster(hosts: Path) -> None:
    result = command("--yes")
    assert result.exit_code == 2
    assert "PULUMI_BACKEND_URL" in result.output
