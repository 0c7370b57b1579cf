"""Claims follow from the plan: each once, each with what a reader needs to act."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from doubles.switch import MemorySwitch
from unit.hosts.sites import planned

from pinion.checks.claims import checks
from pinion.checks.model import Outcome, PingProbe, Topic
from pinion.checks.probers.switches import switch_prober
from pinion.plan import Plan, plan
from pinion.site.catalog import Evidence
from pinion.site.loader import load

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["lab", "dc-rack-12"])
def test_every_claim_has_one_id_a_remedy_and_an_origin(name: str) -> None:
    found = checks(plan(load(ROOT / "inventories" / name / "site.yml")))
    assert len(found) > 70
    assert len({check.id for check in found}) == len(found)
    assert all(check.remedy and check.origin and check.expected for check in found)
    assert all(" " not in check.id for check in found)


def test_the_lab_claims_something_of_every_topic() -> None:
    found = checks(plan(load(ROOT / "inventories/lab/site.yml")))
    assert {check.topic for check in found} == set(Topic)


def test_no_claim_about_a_lab_device_is_called_measured() -> None:
    compiled = plan(load(ROOT / "inventories/lab/site.yml"))
    lab_devices = {device.name for device in compiled.devices if device.lab}
    about = [check for check in checks(compiled) if check.subject in lab_devices and check.topic is not Topic.RECORDS]
    assert about
    assert all(check.best is not Evidence.MEASURED for check in about)


def test_isolation_is_claimed_for_every_pi_and_every_rdma_nic() -> None:
    found = checks(plan(load(ROOT / "inventories/dc-rack-12/site.yml")))
    kept = [check for check in found if check.expected == "unreachable"]
    assert len(kept) == 8 * 8


@pytest.fixture(scope="module")
def dual_stack() -> Plan:
    """The lab with IPv6 beside IPv4 in its edge network."""
    stated = yaml.safe_load((ROOT / "inventories/lab/site.yml").read_text())["networks"]
    name = next(name for name, network in stated.items() if network["purpose"] == "edge")
    stated[name]["prefixes"] = [stated[name].pop("prefix"), "fd00:77::/64"]
    return planned(ROOT / "inventories/lab/site.yml", networks=stated)


def test_with_two_families_every_claim_has_one_id_and_both_gateways_are_reached(dual_stack: Plan) -> None:
    found = checks(dual_stack)
    assert len({check.id for check in found}) == len(found)
    pinged = {check.probe.target for check in found if isinstance(check.probe, PingProbe) and "gateway" in check.claim}
    assert pinged >= {"fd00:77::1", *(svi.address.partition("/")[0] for svi in dual_stack.switches[0].svis)}


def test_a_switch_that_holds_both_families_is_proved(dual_stack: Plan) -> None:
    (planned_switch,) = dual_stack.switches
    switch = MemorySwitch(planned_switch.name, [port.name for port in planned_switch.ports])
    switch.driver().apply(planned_switch)
    fabric = [check for check in checks(dual_stack) if check.topic is Topic.FABRIC]
    findings = switch_prober(lambda _: switch.driver())(dual_stack, fabric)
    assert len(findings) == len(fabric)
    assert [finding.found for finding in findings if finding.outcome is not Outcome.PROVED] == []
    assert any("fd00:77::1/64" in finding.found for finding in findings)
