"""For whom the authority renews: the hosts that the site file keeps, each by a provisioner of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from unit.hosts.sites import LAB, planned

from pinion.drivers.hosts.requests import filled, selection
from pinion.drivers.identity import tokens
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.issuers import retire
from pinion.drivers.identity.place import VARIABLE, folder_of
from pinion.plan import Plan
from pinion.plan.concerns.identity import TOKEN_FILE
from pinion.plan.concerns.site_ca import CONFIG_FILE
from pinion.plan.model import HostPlan

BOTH: dict[str, dict[str, object]] = {"site_ca": {}, "identity": {}}


def one(plan: Plan, name: str) -> HostPlan:
    return next(host for host in plan.hosts if host.name == name)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    stated = planned(LAB, concerns=BOTH).authority
    assert stated is not None
    found = {VARIABLE: str(tmp_path)}
    Authority(folder_of("lab", found)).make("lab", stated.domain, stated.networks)
    return found


def sent(plan: Plan, host: str, concern: str, path: str, variables: dict[str, str]) -> dict[str, str]:
    """The file *path* of a request to *host*, with what the operator's machine puts in."""
    asked = filled(selection(one(plan, host).model_dump(mode="json"), BOTH, [concern]), variables)
    (found,) = (file for file in asked["concerns"][0]["files"] if file["path"] == path)
    return dict(found)


def renewed(variables: dict[str, str], leaving: Sequence[str] = ()) -> list[str]:
    """By which provisioners the authority renews, as its configuration says."""
    plan = planned(LAB, concerns=BOTH, decommissioned=list(leaving))
    told = json.loads(sent(plan, "mgmt-1", "site_ca", CONFIG_FILE, variables)["content"])
    return [entry["name"] for entry in told["authority"]["provisioners"] if "claims" not in entry]


def test_who_leaves_takes_his_provisioner_along(variables: dict[str, str]) -> None:
    everybody = renewed(variables)
    assert "pi-02.lab.internal" in everybody
    assert renewed(variables, ["pi-02"]) == [name for name in everybody if name != "pi-02.lab.internal"]


def test_who_comes_after_a_thief_has_a_provisioner_that_nobody_had(variables: dict[str, str]) -> None:
    authority = Authority(folder_of("lab", variables))
    mine = retire(authority, "pi-02.lab.internal")
    assert mine in renewed(variables)
    assert "pi-02.lab.internal" not in renewed(variables)
    plan = planned(LAB, concerns=BOTH)
    file = sent(plan, "pi-02", "identity", TOKEN_FILE, variables)
    assert tokens.read(file["content"]).issuer == mine, "and its token is that one's"
    assert f"--issuer '{mine}'" in file["unless"], "what it has of the former one is not good enough"
    assert "@" not in file["unless"]


def test_an_authority_that_is_run_elsewhere_has_the_provisioner_that_its_operator_made(
    variables: dict[str, str],
) -> None:
    plan = planned(LAB, concerns={"identity": {"authority": "https://ca.example.net"}})
    file = sent(plan, "pi-02", "identity", TOKEN_FILE, variables)
    assert tokens.read(file["content"]).issuer == "pinion"
