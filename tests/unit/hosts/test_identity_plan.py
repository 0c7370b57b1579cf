"""What the plan says of the concerns site_ca and identity, and what the operator's machine puts into their files."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from doubles.hosts import MemoryHost
from hypothesis import given as properties
from hypothesis import strategies as st
from unit.hosts.nodes import file
from unit.hosts.sites import DC, LAB, planned

from pinion.checks.hosts import host_checks
from pinion.drivers.hosts.onhost.engine import check, converge
from pinion.drivers.hosts.onhost.main import answer
from pinion.drivers.hosts.onhost.wanted import Concern, concern
from pinion.drivers.hosts.requests import answered, filled, selection
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import VARIABLE, AuthorityError, folder_of
from pinion.plan import Plan
from pinion.plan.concerns.identity import (
    CONFIG_FILE,
    FOLDER,
    ROOT_CA_FILE,
    SEED_TOKEN_FILE,
    TIMER,
    TOKEN_FILE,
    interval,
)
from pinion.plan.concerns.site_ca import CONFIG_FILE as CA_FILE
from pinion.plan.concerns.site_ca import KEY_FILE
from pinion.plan.model import HostFile, HostPlan
from pinion.plan.rollout import waves
from pinion.services.node_programs import identity as program
from pinion.site.concerns import Identity
from pinion.site.quantities import seconds

BOTH: dict[str, dict[str, object]] = {"site_ca": {}, "identity": {}}


def one(plan: Plan, name: str) -> HostPlan:
    return next(host for host in plan.hosts if host.name == name)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """An environment with the lab's authority, made."""
    stated = planned(LAB, concerns=BOTH).authority
    assert stated is not None
    Authority(tmp_path / "lab").make("lab", stated.domain, stated.networks)
    return {VARIABLE: str(tmp_path)}


def request(plan: Plan, name: str, variables: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The concerns of *name* as they are sent, by name."""
    asked = selection(one(plan, name).model_dump(mode="json"), BOTH)
    return {entry["name"]: entry for entry in filled(asked, variables)["concerns"]}


def test_one_management_host_runs_it_and_every_host_has_a_certificate() -> None:
    plan = planned(LAB, concerns=BOTH)
    assert [host.name for host in plan.hosts if "site_ca" in host.concerns] == ["mgmt-1"]
    assert all("identity" in host.concerns for host in plan.hosts)
    assert plan.authority is not None
    assert plan.authority.url == "https://10.77.100.10:9000"
    assert plan.authority.domain == "lab.internal"
    assert plan.authority.networks == ("10.77.99.0/24", "10.77.100.0/24", "10.77.101.0/24")


def test_nothing_is_planned_where_nothing_is_stated() -> None:
    plan = planned(LAB, concerns={})
    assert plan.authority is None
    assert not any({"site_ca", "identity"} & set(host.concerns) for host in plan.hosts)


def test_an_authority_that_is_run_elsewhere() -> None:
    url = "https://ca.example.net"
    plan = planned(DC, concerns={"identity": {"authority": f"{url}", "domain": "r12.example.net"}})
    assert plan.authority is not None
    assert (plan.authority.url, plan.authority.host) == (url, None)
    told = json.loads(file(one(plan, "nv-1").concerns["identity"], CONFIG_FILE).content)
    assert told["authority"] == url
    assert told["names"] == ["nv-1.r12.example.net", "192.168.100.16"], "no address on an RDMA network"


def test_the_hosts_and_the_operators_may_ask_it() -> None:
    (flow,) = [flow for flow in planned(LAB, concerns=BOTH).flows if flow.name == "site-ca"]
    assert flow.hosts == ("mgmt-1",)
    assert flow.ports == (9000,)


def test_the_host_of_the_authority_comes_in_a_wave_before_all_others() -> None:
    plan = planned(LAB, concerns=BOTH)
    found = waves(plan.hosts, plan.rollout)
    assert found[0] == ("mgmt-1",)
    assert sorted(name for wave in found for name in wave) == sorted(host.name for host in plan.hosts)
    assert waves(planned(LAB, concerns={}).hosts, plan.rollout)[0] != ("mgmt-1",)


def test_the_plan_holds_no_secret_and_no_two_plans_differ() -> None:
    plan = planned(LAB, concerns=BOTH)
    assert plan == planned(LAB, concerns=BOTH)
    text = plan.model_dump_json()
    assert "BEGIN " not in text
    assert "eyJ" not in text


def test_a_request_has_what_the_operators_machine_put_in(variables: dict[str, str]) -> None:
    authority = Authority(folder_of("lab", variables))
    plan = planned(LAB, concerns=BOTH)
    sent = request(plan, "mgmt-1", variables)
    files = {entry["path"]: entry for given in sent.values() for entry in given["files"]}
    assert files[KEY_FILE]["content"] == authority.intermediate_key
    assert (files[KEY_FILE]["mode"], files[KEY_FILE]["secret"]) == ("0600", True)
    told = json.loads(files[CA_FILE]["content"])["authority"]["provisioners"]
    assert [entry["name"] for entry in told[1:]] == [f"{host.name}.lab.internal" for host in plan.hosts]
    assert (told[0]["name"], told[0]["claims"]) == ("pinion", {"disableRenewal": True})
    assert all(entry["key"] == authority.provisioner for entry in told)
    assert "d" not in told[0]["key"], "the public half alone"
    assert json.loads(files[CONFIG_FILE]["content"])["root"] == authority.fingerprint
    everything = json.dumps(sent)
    root_key = (authority.folder / "root.key").read_text().splitlines()[1]
    assert root_key not in everything, "the root's key stays where it is"
    assert (authority.folder / "provisioner.key").read_text().splitlines()[1] not in everything
    assert "@" not in files[CONFIG_FILE]["content"] + files[CA_FILE]["content"]


def test_a_token_is_for_the_host_alone_and_another_in_every_request(variables: dict[str, str]) -> None:
    plan = planned(LAB, concerns=BOTH)

    def token() -> str:
        (found,) = [
            e["content"] for e in request(plan, "pi-01", variables)["identity"]["files"] if e["path"] == TOKEN_FILE
        ]
        return str(found)

    first, second = token(), token()
    assert first != second
    body = first.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims["iss"] == "pi-01.lab.internal", "its own provisioner"
    assert claims["sans"] == ["pi-01.lab.internal", "10.77.101.10"]
    assert claims["sub"] == "pi-01.lab.internal"
    assert claims["aud"] == "https://10.77.100.10:9000/1.0/sign"
    assert claims["exp"] - claims["iat"] == 900


def test_a_machine_without_the_authority_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AuthorityError, match="pinion identity init lab"):
        request(planned(LAB, concerns=BOTH), "pi-01", {VARIABLE: str(tmp_path)})


def test_a_request_without_materials_is_sent_as_it_is() -> None:
    asked = selection(one(planned(LAB, concerns={}), "pi-01").model_dump(mode="json"), ["os_tuning"])
    sent = filled(asked, {})
    for before, after in zip(asked["concerns"], sent["concerns"], strict=True):
        assert [entry["content"] for entry in before["files"]] == [entry["content"] for entry in after["files"]]


def test_no_check_asks_for_the_token_and_none_shows_a_digest_of_what_is_not_in_the_plan() -> None:
    plan = planned(LAB, concerns=BOTH)
    checks = {check.id: check for check in host_checks(plan)}
    assert f"host.pi-01.identity.file.{TOKEN_FILE}" not in checks
    assert checks[f"host.pi-01.identity.file.{CONFIG_FILE}"].expected == "root:root 644 not empty"
    assert checks[f"host.mgmt-1.site_ca.file.{KEY_FILE}"].expected == "pinion-ca:pinion-ca 600 not empty"


# --- a file that is wanted only until the host has what it is good for ------------------------------------------------


def concern_with(content: str) -> Concern:
    data = HostFile(path=TOKEN_FILE, mode="0600", content=content, secret=True, unless="has it", run=("use it",))
    return concern({"name": "identity", "files": [data.model_dump(mode="json")]})


def test_a_token_is_placed_only_where_it_is_needed_and_leaves_no_trace() -> None:
    host = MemoryHost()
    machine = host.machine()

    def use(step: str) -> None:
        if step == "command":
            host.holding.add("has it")

    host.step = use
    assert [change.subject for change in check(machine, [concern_with("first-token")]).changes] == [TOKEN_FILE]
    first = converge(machine, [concern_with("first-token")], wait=0, who="t", name="r1")
    assert [change.subject for change in first.changes] == [TOKEN_FILE]
    assert "first-token" not in json.dumps(first.as_json())
    del host.files[TOKEN_FILE]  # as the program does
    for name, token in (("r2", "second-token"), ("r3", "third-token")):
        assert check(machine, [concern_with(token)]).changes == ()
        assert converge(machine, [concern_with(token)], wait=0, who="t", name=name).changes == ()
    assert TOKEN_FILE not in host.files
    kept = json.dumps([host.journals, host.history, host.secrets])
    assert "token" not in kept.replace(TOKEN_FILE, "")
    assert '\\"run\\": \\"r1\\"' in kept, "runs that change nothing are no way back"


def test_a_host_that_lost_its_certificate_gets_the_next_token() -> None:
    host = MemoryHost(holding={"has it"})
    machine = host.machine()
    assert converge(machine, [concern_with("a")], wait=0, who="t").changes == ()
    host.holding.clear()

    def use(step: str) -> None:
        if step == "command":
            host.holding.add("has it")

    host.step = use
    assert len(converge(machine, [concern_with("b")], wait=0, who="t").changes) == 1
    assert host.read_by["use it"][TOKEN_FILE].content == "b"


def test_a_life_that_is_taken_back_takes_a_token_which_is_made_only_then(variables: dict[str, str]) -> None:
    host = MemoryHost(packages={"openssl"})
    sent: list[dict[str, Any]] = []

    def ask(asked: dict[str, Any]) -> dict[str, object]:
        sent.append(asked)
        return answer(asked, host.machine()).as_json()

    def stated(life: str) -> HostPlan:
        return one(planned(LAB, concerns=BOTH | {"identity": {"lifetime": life}}), "pi-01")

    def run(life: str, given: dict[str, str], **task: str) -> Mapping[str, object]:
        sent.clear()
        asked = selection(stated(life).model_dump(mode="json"), BOTH, ["identity"])
        return answered({**asked, **task}, given, ask)

    def enrolled(life: str) -> None:
        """As the program does, which makes a certificate for this life and removes the token."""
        (command,) = {c for c in host.read_by if "enrol" in c}
        assert len(host.read_by[command][TOKEN_FILE].content.split(".")) == 3, "a whole token"
        del host.files[TOKEN_FILE]
        asked = str(file(stated(life).concerns["identity"], TOKEN_FILE).unless)
        host.holding = {asked.replace("@issuer@", issuer) for issuer in ("", "pi-01.lab.internal")}

    for name, life in (("run-1", "24h"), ("run-2", "48h")):
        run(life, variables, action="apply", run=name)
        enrolled(life)
    nothing = {VARIABLE: "/nowhere"}
    with pytest.raises(AuthorityError):
        run("48h", nothing, action="back", of="run-2", run="run-3")
    assert json.loads(host.files[CONFIG_FILE].content)["lifetime"] == 48 * 3600
    said = run("48h", variables, action="back", of="run-2", run="run-4")
    assert "error" not in said
    held, made = (request["concerns"][0]["files"][0] for request in sent)
    assert (held["held_back"], held["content"]) == (True, "@token@")
    assert [entry["path"] for entry in sent[0]["concerns"][0]["files"]] == [TOKEN_FILE], "the rest the host remembers"
    assert made["content"] == host.files[TOKEN_FILE].content
    assert json.loads(host.files[CONFIG_FILE].content)["lifetime"] == 24 * 3600
    enrolled("24h")
    run("48h", nothing, action="back", of="run-2", run="run-5")
    assert len(sent) == 1, "nor is an authority asked for what no host needs"


# --- time -------------------------------------------------------------------------------------------------------------


@properties(st.integers(15, 2160 * 60), st.text("0123456789ABCDEF", min_size=1, max_size=40))
def test_a_renewal_begins_between_half_and_two_thirds_of_any_life(minutes: int, serial: str) -> None:
    settings = Identity(lifetime=f"{minutes}min")
    life = seconds(settings.lifetime)
    begins, ends = 0.0, life
    due = program.Certificate(serial, begins, ends, ()).due
    every = interval(settings)
    assert life / 2 <= due
    assert due + every + min(every // 4, 60) + 1 < life * 2 / 3
    assert every >= 18
    assert every <= 3600


def test_the_timer_looks_as_often_as_that_asks() -> None:
    found = one(planned(LAB, concerns={"site_ca": {}, "identity": {"lifetime": "24h"}}), "pi-01").concerns["identity"]
    text = file(found, f"/etc/systemd/system/{TIMER}").content
    assert "OnUnitActiveSec=1800s" in text
    assert "RandomizedDelaySec=60s" in text


def test_a_host_that_loses_the_concern_loses_its_key() -> None:
    found = one(planned(LAB, concerns=BOTH), "pi-01").concerns["identity"]
    (run,) = file(found, CONFIG_FILE).run
    assert f"rm -rf {FOLDER} " in run


@pytest.mark.parametrize("trusted", [True, False], ids=["from an image", "without one"])
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_the_line_for_a_host_without_the_concern_takes_what_an_image_brought(
    tmp_path: Path, trusted: bool, cut: bool
) -> None:
    """The line as it is, in a folder; *cut*: the power goes before the bundle of authorities was made anew."""
    found = one(planned(LAB, concerns=BOTH), "pi-01").concerns["identity"]
    (run,) = file(found, CONFIG_FILE).run
    for path in ("/etc/pinion", "/usr/local", "/var/lib", "/run/pinion-identity"):
        run = run.replace(f" {path}", f" {tmp_path}{path}")
    here = {
        path: Path(f"{tmp_path}{path}") for path in (CONFIG_FILE, FOLDER, SEED_TOKEN_FILE, ROOT_CA_FILE, TOKEN_FILE)
    }
    for path in (SEED_TOKEN_FILE, TOKEN_FILE, *((ROOT_CA_FILE,) if trusted else ())):
        here[path].parent.mkdir(parents=True, exist_ok=True)
        here[path].write_text("x")
    commands = tmp_path / "bin"
    commands.mkdir()
    update = commands / "update-ca-certificates"
    update.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/updated\nexit $(cat {tmp_path}/code)\n')
    update.chmod(0o755)

    def removed(code: int) -> int:
        (tmp_path / "code").write_text(str(code))
        env = {"PATH": f"{commands}:/usr/bin:/bin"}
        return subprocess.run(["/bin/sh", "-c", run], env=env, check=False, capture_output=True).returncode

    if cut and trusted:
        assert removed(1) != 0
        assert not here[ROOT_CA_FILE].exists()
        assert here[FOLDER].exists(), "the run that comes after still knows that the bundle is old"
    assert removed(0) == 0
    assert not any(path.exists() for path in here.values())
    assert (tmp_path / "updated").exists() == trusted
    assert removed(0) == 0, "again is fine"
