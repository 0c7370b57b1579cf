"""Claims follow from the plan: each once, each with what a reader needs to act."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.checks.claims import checks
from pinion.checks.model import Topic
from pinion.plan import plan
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
