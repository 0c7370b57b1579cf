"""Who asks a switch for SSH, what must come of it, and that the probe tells a greeting from everything else."""

from __future__ import annotations

import socket
import subprocess
import threading
from ipaddress import ip_address, ip_network

import pytest
from unit.hosts.sites import DC, LAB, planned

from pinion.checks.claims import checks
from pinion.checks.model import Check, HostProbe
from pinion.checks.switch_logins import GREETED, KEPT_OUT, switch_login_checks
from pinion.plan import Plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(LAB, concerns={"firewall": {}})


def asked(check: Check) -> tuple[str, str]:
    """Which host asks which address."""
    assert isinstance(check.probe, HostProbe)
    return check.probe.host, check.probe.command.split()[-1]


def test_an_operator_and_a_pi_ask_at_every_gateway(plan: Plan) -> None:
    found = switch_login_checks(plan)
    gateways = {svi.address.partition("/")[0] for svi in plan.switches[0].svis}
    assert {asked(check) for check in found if check.expected == GREETED} == {("mgmt-1", one) for one in gateways}
    assert {asked(check) for check in found if check.expected == KEPT_OUT} == {("pi-01", one) for one in gateways}
    assert set(found) <= set(checks(plan))


def test_who_asks_is_who_the_flow_says(plan: Plan) -> None:
    (flow,) = (flow for flow in plan.flows if flow.name == "switch-ssh")
    assert plan.switches[0].ssh_sources == ("10.77.99.0/24", "10.77.100.10/32")
    addresses = {
        device.name: [text.partition("/")[0] for leg in device.interfaces for text in leg.addresses]
        for device in plan.devices
    }
    for check in switch_login_checks(plan):
        own = addresses[asked(check)[0]]
        let = [any(ip_address(one) in ip_network(source) for source in plan.switches[0].ssh_sources) for one in own]
        assert all(let) if check.expected == GREETED else not any(let)
    assert "operators" in flow.peers


def test_two_switches_share_a_gateway_and_it_is_asked_once() -> None:
    found = switch_login_checks(planned(DC, concerns={"firewall": {"operators": ["192.168.100.0/24"]}}))
    assert len({asked(check) for check in found}) == len(found) > 0


def test_a_site_that_does_not_say_who_may_log_in_claims_nothing() -> None:
    plan = planned(LAB, concerns={})
    assert plan.switches[0].ssh_sources == ()
    assert switch_login_checks(plan) == ()


@pytest.mark.parametrize(
    ("greeting", "answer"),
    [(b"SSH-2.0-OpenSSH\r\n", GREETED), (b"220 ftp\r\n", KEPT_OUT), (b"", KEPT_OUT), (None, KEPT_OUT)],
)
def test_the_probe_knows_a_greeting(plan: Plan, greeting: bytes | None, answer: str) -> None:
    """None: nobody listens."""
    probe = switch_login_checks(plan)[0].probe
    assert isinstance(probe, HostProbe)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if greeting is None:
            listener.close()
        else:
            threading.Thread(target=_greet, args=(listener, greeting), daemon=True).start()
        command = probe.command.replace(", 22)", f", {port})").rpartition(" ")[0] + " 127.0.0.1"
        assert f", {port})" in command
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{answer}\n"


def _greet(listener: socket.socket, greeting: bytes) -> None:
    try:
        while True:
            with listener.accept()[0] as link:
                link.sendall(greeting)
    except OSError:
        return
