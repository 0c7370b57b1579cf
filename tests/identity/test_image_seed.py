"""From an image's seed to a certificate, without a machine: the first boot's program fills a folder, the timer's run enrols there.

The authority is a real step-ca on loopback; but for the folder and the authority's address, all is as the plan of a site has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.sites import DC, LAB, planned

from pinion.drivers.identity.authority import Authority
from pinion.image.enrolment import Enrolment, Sources, enrolment
from pinion.image.identity import Given, identity, node_of, seed_files
from pinion.image.store import Store
from pinion.plan import Plan
from pinion.plan.concerns.identity import CONFIG_FILE, FOLDER, ROOT_CA_FILE, SEED_TOKEN_FILE, TIMER
from pinion.plan.programs import program_path
from pinion.services import node_programs

from .conftest import StepCa

FIRST_BOOT = Path(node_programs.__file__).parent / "first_boot.py"
NODE = "pi-01"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of a node belong to root")


@pytest.fixture(params=[LAB, DC], ids=["lab", "dc-rack-12"])
def site(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def ca(site: Path, tmp_path: Path, step_ca_program: Path) -> Iterator[StepCa]:
    """step-ca for the site's own names, on loopback."""
    stated = planned(site).authority
    assert stated is not None
    authority = Authority(tmp_path / "authority")
    networks = ("127.0.0.0/8", *stated.networks)
    authority.make("site", stated.domain, networks)
    found = StepCa(tmp_path / "ca", authority, 7 * 86400, domain=stated.domain, networks=networks)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def plan(site: Path, ca: StepCa) -> Plan:
    """With an authority elsewhere, which is here: no site file takes an address of the machine that reads it."""
    elsewhere = "https://ca.example.org:9000"
    text = planned(site, concerns={"identity": {"authority": elsewhere}}).model_dump_json()
    assert elsewhere in text
    return Plan.model_validate_json(text.replace(elsewhere, ca.url))


@pytest.fixture
def found(plan: Plan, ca: StepCa, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enrolment:
    monkeypatch.setenv("PINION_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PINION_CACHE", str(tmp_path / "cache"))
    return enrolment(Store.of(plan.site), plan, NODE, Sources(ca.authority.folder), time.time())


class Node:
    """A node in a folder, booted once from its seed."""

    def __init__(self, root: Path, plan: Plan, found: Enrolment) -> None:
        self.root = root
        self.seed = root.with_name(f"{root.name}-seed")
        self.seed.mkdir()
        given = Given(b"key", "ssh-ed25519 AAAA", ("ssh-ed25519 BBBB a",), root_ca=found.root, token=found.token)
        for name, content in seed_files(plan, NODE, identity(plan, node_of(plan, NODE), given), 1).items():
            (self.seed / name).write_bytes(content)
        self.boot()

    def boot(self) -> None:
        done = subprocess.run(
            [sys.executable, "-I", FIRST_BOOT, "--root", self.root, "--seed", self.seed],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def at(self, path: str) -> Path:
        """Where *path* of the node is here."""
        return self.root / path.lstrip("/")

    def look(self) -> subprocess.CompletedProcess[str]:
        """What the timer starts: the command of its service, with the node's own configuration, in the folder."""
        told: dict[str, Any] = json.loads(self.at(CONFIG_FILE).read_text())
        for key in ("folder", "token", "seed_token", "metrics"):
            told[key] = str(self.at(told[key]))
        here = self.root / "config.json"
        here.write_text(json.dumps(told | {"wait": 0}))
        service = self.at(f"/etc/systemd/system/{TIMER}".replace(".timer", ".service")).read_text()
        assert f"ExecStart={program_path('identity')} renew\n" in service
        command = [sys.executable, "-I", self.at(program_path("identity")), "renew", "--config", here]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_first_boot_of_a_card_ends_with_a_certificate_and_no_token(
    plan: Plan, found: Enrolment, ca: StepCa, tmp_path: Path
) -> None:
    assert found.token is not None
    node = Node(tmp_path / "card", plan, found)
    assert node.at(SEED_TOKEN_FILE).stat().st_mode & 0o777 == 0o600
    assert node.at(f"/etc/systemd/system/timers.target.wants/{TIMER}").is_symlink()
    ca.stop()
    assert node.look().returncode == 1, "the rack's authority comes up later than the node"
    node.boot()  # and the power is cut meanwhile
    assert node.at(SEED_TOKEN_FILE).exists()
    ca.start()
    done = node.look()
    assert done.returncode == 0, done.stderr
    assert "enrolled: certificate" in done.stdout
    current = node.at(f"{FOLDER}/current")
    verified = ["openssl", "verify", "-CAfile", node.at(ROOT_CA_FILE), "-untrusted", current / "chain.pem"]
    shown = subprocess.run([*verified, current / "cert.pem"], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("OK"), "by the root that the image made the node trust"
    names = subprocess.run(
        ["openssl", "x509", "-in", current / "cert.pem", "-noout", "-ext", "subjectAltName"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"DNS:{NODE}.{plan.site}.internal" in names
    left = [path for path in (*node.root.rglob("*"), *node.seed.rglob("*")) if path.is_file()]
    assert not [path for path in left if found.token in path.read_bytes()], "nothing of the token is left"
    node.boot()
    assert node.look().returncode == 0, "the next boot has nothing to do"


def test_a_second_card_with_the_same_token_is_refused_by_the_authority(
    plan: Plan, found: Enrolment, tmp_path: Path
) -> None:
    assert Node(tmp_path / "card", plan, found).look().returncode == 0
    copy = Node(tmp_path / "copy", plan, found)
    done = copy.look()
    assert done.returncode == 1
    assert "the authority refuses: 401" in done.stderr
    assert not copy.at(f"{FOLDER}/current").exists()
    assert not copy.at(SEED_TOKEN_FILE).exists(), "of no use to anybody"
    assert "`pinion converge`" in copy.look().stderr
