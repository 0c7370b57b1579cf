"""What is asked of the host and of the cluster of a node that leaves, and how their answers are read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pinion.bringup.cluster_node import ClusterNodeError, ForbiddenError, drain, forget
from pinion.bringup.host_shell import HostRefusedError, UnreachedError
from pinion.bringup.leaving_host import look, serial, wipe
from pinion.drivers.hosts.inventory import Login, plan_of
from pinion.drivers.hosts.onhost.notes import STATE
from pinion.plan.leaving import NOTES, behind
from pinion.services import node_programs

HOST = next(
    host
    for host in plan_of(Path(__file__).parents[3] / "inventories/dc-rack-12/site.yml").hosts
    if host.name == "pi-03"
)
ACCESS = Login(Path("/k"), Path("/known"))
Runner = Callable[..., subprocess.CompletedProcess[str]]


def answering(*answers: tuple[int, str, str], heard: list[tuple[list[str], str]] | None = None) -> Runner:
    """A `subprocess.run` with *answers* (exit code, output, errors), one after the other."""
    left = list(answers)

    def run(argv: list[str], **given: object) -> subprocess.CompletedProcess[str]:
        if heard is not None:
            heard.append((argv, str(given.get("input", ""))))
        code, out, err = left.pop(0)
        return subprocess.CompletedProcess(argv, code, out, err)

    return run


def test_the_serial_number_is_read_from_what_the_host_says() -> None:
    heard: list[tuple[list[str], str]] = []
    assert serial(HOST, ACCESS, answering((0, "serial=5F2A\n", ""), heard=heard)) == 0x5F2A
    assert f"pinion@{HOST.address}" in heard[0][0]
    assert "StrictHostKeyChecking=yes" in heard[0][0]
    assert serial(HOST, ACCESS, answering((0, "none\n", ""))) is None


def test_no_login_and_no_answer_are_two_things() -> None:
    refused = answering((255, "", "ssh: connect to host port 22: No route to host\n"))
    with pytest.raises(UnreachedError, match="No route to host"):
        serial(HOST, ACCESS, refused)
    with pytest.raises(HostRefusedError, match="a password is required"):
        serial(HOST, ACCESS, answering((1, "", "sudo: a password is required\n")))
    with pytest.raises(HostRefusedError, match="cannot say"):
        serial(HOST, ACCESS, answering((0, "serial=zz\n", "")))

    def slow(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(argv, 1)

    with pytest.raises(UnreachedError, match="did not answer"):
        serial(HOST, ACCESS, slow)


def test_the_program_is_sent_and_its_answer_read() -> None:
    heard: list[tuple[list[str], str]] = []
    said = json.dumps({"stopped": ["a.timer"], "wiped": [], "trimmed": {}, "media": [], "failed": ["x: no"]})
    report = wipe(HOST, behind(HOST), ACCESS, answering((2, said, ""), heard=heard))
    assert report.stopped == ("a.timer",)
    assert report.failed == ("x: no",)
    command, given = heard[0][0][-1], heard[0][1]
    assert given == (Path(node_programs.__file__).parent / "wipe.py").read_text()
    assert command.startswith("sudo -n -H /usr/bin/python3 -I -B - ")
    assert "--check" not in command
    look(HOST, behind(HOST), ACCESS, answering((0, "{}", ""), heard=heard))
    assert "--check" in heard[1][0][-1]
    with pytest.raises(HostRefusedError, match="python3: not found"):
        wipe(HOST, behind(HOST), ACCESS, answering((127, "", "sh: python3: not found\n")))
    with pytest.raises(HostRefusedError, match="without an answer"):
        wipe(HOST, behind(HOST), ACCESS, answering((0, "half {", "")))


def test_identity_goes_first_and_its_timer_stops_before_its_service() -> None:
    left = behind(HOST)
    assert left.data[0].path == "/var/lib/pinion-identity"
    assert left.data[0].secret
    assert left.units.index("pinion-identity.timer") < left.units.index("pinion-identity.service")
    assert {"pinion-edge-runtime.service", "pinion-model-store.timer"} <= set(left.units)
    assert not any("firewall" in unit or "watchdog" in unit for unit in left.units)


def test_a_node_is_drained_and_forgotten_once() -> None:
    heard: list[tuple[list[str], str]] = []
    said = "node/pi-03 cordoned\npod/a evicted\npod/b evicted\nnode/pi-03 drained\n"
    run = answering((0, "node/pi-03\n", ""), (0, '{"items": []}', ""), (0, said, ""), heard=heard)
    assert drain(Path("/kube"), "pi-03", run, lose=False) == "cordoned, 2 pods evicted"
    assert "drain" in heard[2][0]
    assert "--force" not in heard[2][0]
    assert drain(Path("/kube"), "pi-03", answering((0, "", "")), lose=True) is None
    assert forget(Path("/kube"), "pi-03", answering((0, "node/pi-03\n", ""), (0, "", ""))) is True
    assert forget(Path("/kube"), "pi-03", answering((0, "", ""))) is False
    with pytest.raises(ClusterNodeError, match="connection refused"):
        forget(Path("/kube"), "pi-03", answering((1, "", "connection refused\n")))
    forbidden = 'Error from server (Forbidden): nodes "pi-03" is forbidden: User "x" cannot delete'
    with pytest.raises(ForbiddenError):
        forget(Path("/kube"), "pi-03", answering((0, "node/pi-03\n", ""), (1, "", forbidden)))


def test_a_wipe_takes_what_the_program_on_hosts_notes() -> None:
    """The plan imports no driver, so the folder is written in both."""
    assert str(STATE) == NOTES
