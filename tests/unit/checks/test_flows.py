"""Checks of flows: who asks, what must come of it, and that the probe tells the three answers apart."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest
from unit.hosts.sites import LAB, planned

from pinion.checks.claims import checks
from pinion.checks.flows import DROPPED, LET_IN, flow_checks
from pinion.checks.model import Check, HostProbe
from pinion.plan import Plan
from pinion.plan.flows import ending_at, lets


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(LAB, concerns={"firewall": {}, "node_metrics": {}})


def test_without_a_firewall_nothing_is_claimed() -> None:
    assert flow_checks(planned(LAB, concerns={"node_metrics": {}})) == ()


def test_they_are_among_all_checks_and_have_names_of_their_own(plan: Plan) -> None:
    every = [check.id for check in checks(plan)]
    assert {check.id for check in flow_checks(plan)} <= set(every)
    assert len(every) == len(set(every))


def test_a_pi_is_asked_by_those_who_may_and_by_one_who_may_not(plan: Plan) -> None:
    asked = {check.id: check.expected for check in flow_checks(plan) if check.subject == "pi-02"}
    assert asked == {
        "flow.pi-02.mgmt-1.22": LET_IN,
        "flow.pi-02.mgmt-1.10250": LET_IN,
        "flow.pi-02.mgmt-1.9100": LET_IN,
        "flow.pi-02.mgmt-1.443": DROPPED,
    }


def test_every_expectation_is_the_plans(plan: Plan) -> None:
    """Judged again from the table, with every address of whoever asks."""
    found = flow_checks(plan)
    assert {check.subject for check in found} == {host.name for host in plan.hosts}
    for check in found:
        _, host, source, port = check.id.rsplit(".", 3)
        spoken = [
            text.partition("/")[0] for interface in plan.device(source).interfaces for text in interface.addresses
        ]
        spoken = [address for address in spoken if not address.startswith("10.77.102.")]
        ending = ending_at(plan.flows, plan.device(host))
        allowed = {any(lets(flow, address) for flow in ending if int(port) in flow.ports) for address in spoken}
        assert allowed == {check.expected == LET_IN}, check.id


def test_a_management_host_is_asked_on_the_fabric_not_out_of_band(plan: Plan) -> None:
    asked = [check for check in flow_checks(plan) if check.subject == "mgmt-1"]
    assert asked
    for check in asked:
        assert isinstance(check.probe, HostProbe)
        assert check.probe.command.split()[-2] == "10.77.100.10"


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
        yield made.getsockname()[1]


def answer(check: Check, address: str, port: int) -> str:
    """What the probe of *check* says when it asks *address* and *port* instead."""
    assert isinstance(check.probe, HostProbe)
    command = check.probe.command.rsplit(" ", 2)[0]
    return subprocess.run(
        ["sh", "-c", f"{command} {address} {port}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_probe_tells_an_answer_from_silence(plan: Plan, listener: int) -> None:
    check = flow_checks(plan)[0]
    assert answer(check, "127.0.0.1", listener) == LET_IN
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert answer(check, *free.getsockname()) == LET_IN  # refused: it came through
    with socket.socket() as full:  # a listener whose queue is full drops what comes (tcp(7))
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.create_connection(full.getsockname(), 1) for _ in range(1)]
        assert answer(check, *full.getsockname()) == DROPPED
        for connection in waiting:
            connection.close()
