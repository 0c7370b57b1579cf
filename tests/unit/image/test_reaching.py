"""A node that was started from its image reaches what its first converge needs, and knows the site's administrators."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from doubles.hosts import MemoryHost
from unit.hosts.archive import PACKAGE, Archive, apt_folders, archive, needs_apt
from unit.hosts.sites import ADMIN, DC, plan_of_file, planned

from pinion.checks.hosts import host_checks
from pinion.drivers.hosts.onhost import engine, wanted
from pinion.drivers.hosts.onhost.machine import FileState
from pinion.image.checks import applies
from pinion.image.errors import ImageError
from pinion.image.identity import ADMIN_KEYS_FILE, PRINCIPALS_FILE, SSHD_FILE, Given, SeedFile, identity, node_of
from pinion.image.node import unreached
from pinion.plan import package_sources
from pinion.plan.concerns.access import AUTHORITIES_FILE
from pinion.plan.concerns.base import NAMES_FILE
from pinion.plan.model import Plan

NODE = "pi-01"
AUTHORITY = ADMIN.replace("ILM+rv", "IAuth0").replace("ops@example", "ca@example")
OWN = "ssh-ed25519 BBBB own"
#: What apt and the resolver read.
REACHED = ("/etc/apt/", "/etc/resolv.conf")


def seed(plan: Plan, given: Given) -> dict[str, SeedFile]:
    """The node's seed by path; no path stands twice."""
    files = identity(plan, node_of(plan, NODE), given)
    found = {file.path: file for file in files}
    assert len(found) == len(files)
    return found


def given(*keys: str, user_ca: str | None = None) -> Given:
    return Given(b"k", "ssh-ed25519 A", keys, user_ca)


def booted(plan: Plan, given: Given) -> MemoryHost:
    """The node after its first boot, before anybody converged it."""
    host = MemoryHost(known={"ethtool", "tcpdump", "chrony", "libnss-myhostname", "tzdata", "unattended-upgrades"})
    for path, file in seed(plan, given).items():
        host.files[path] = FileState(file.content.decode(), "root", "root", file.mode)
    host.journals = {
        Path(path).stem: state.content
        for path, state in host.files.items()
        if path.startswith("/var/lib/pinion/concerns/")
    }
    return host


# --- names and packages -----------------------------------------------------------------------------------------------


def test_the_seed_brings_what_the_plan_says_of_names_and_packages_and_nothing_is_said_twice() -> None:
    plan = plan_of_file(DC)
    stated = next(host for host in plan.hosts if host.name == NODE).concerns["base"]
    brought = seed(plan, given(OWN))
    of_plan = [file for file in stated.files if file.path.startswith(REACHED) and file.for_packages]
    paths = {file.path for file in of_plan}
    assert {NAMES_FILE, "/etc/apt/sources.list.d/debian.sources", "/etc/apt/keyrings/pinion-raspi.asc"} <= paths
    for file in of_plan:
        assert (brought[file.path].content.decode(), brought[file.path].mode) == (file.content, int(file.mode, 8))
    assert {path for path in brought if path.startswith(REACHED)} == paths
    asked = wanted.concern(json.loads(stated.model_dump_json()))
    changes = engine.check(booted(plan, given(OWN)).machine(), [asked]).changes
    assert not {change.subject for change in changes} & paths, "the first converge finds them as it would place them"


def test_the_trial_looks_at_them() -> None:
    checks = {
        check.id.removeprefix(f"host.{NODE}.")
        for check in host_checks(plan_of_file(DC))
        if check.subject == NODE and applies(check)
    }
    assert {f"base.file.{NAMES_FILE}", "base.file./etc/apt/sources.list.d/debian.sources"} <= checks
    assert "base.claim.names.resolved" not in checks, "a trial reaches nothing"


def test_what_a_site_does_not_state_is_told_when_its_images_are_made() -> None:
    said = " ".join(unreached(planned(DC, concerns={"base": {}}), NODE))
    assert "concerns.base.name_servers" in said
    assert "concerns.base.package_sources" in said
    assert not list(unreached(plan_of_file(DC), NODE))
    assert not [path for path in seed(planned(DC, concerns={"base": {}}), given(OWN)) if path.startswith(REACHED)]


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Archive]:
    with archive(tmp_path / "archive") as found:
        yield found


@needs_apt
def test_apt_on_a_node_that_has_booted_once_finds_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirror: Archive
) -> None:
    # the one path that apt takes as it stands
    monkeypatch.setattr(package_sources, "KEYS_FOLDER", str(tmp_path / "keys"))
    source = {"uri": mirror.uri, "suites": ["good"], "key": mirror.key}
    plan = planned(DC, concerns={"base": {"package_sources": {"debian": source}}})
    root = tmp_path / "root"
    environment = apt_folders(root)
    for path, file in seed(plan, given(OWN)).items():
        place = Path(path) if path.startswith(str(tmp_path)) else root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
    update = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"]
    done = subprocess.run(update, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(["apt-cache", "show", PACKAGE], env=environment, capture_output=True, text=True, check=True)
    assert f"Package: {PACKAGE}\n" in shown.stdout


# --- administrators ---------------------------------------------------------------------------------------------------


def test_the_sites_administrators_log_in_and_given_keys_come_beside_them() -> None:
    access = {"admins": [ADMIN], "authorities": [AUTHORITY], "principals": ["ops", "oncall"]}
    files = {path: file.content.decode() for path, file in seed(planned(DC, access=access), given(OWN)).items()}
    assert files[ADMIN_KEYS_FILE] == f"{ADMIN}\n"
    assert files[AUTHORITIES_FILE] == f"{AUTHORITY}\n"
    assert files[PRINCIPALS_FILE] == "ops\noncall\n"
    assert files["/home/pinion/.ssh/authorized_keys"] == f"{OWN}\n"
    assert files[SSHD_FILE].splitlines() == [
        f"TrustedUserCAKeys {AUTHORITIES_FILE}",
        "Match User pinion",
        f"  AuthorizedKeysFile .ssh/authorized_keys {ADMIN_KEYS_FILE}",
        f"  AuthorizedPrincipalsFile {PRINCIPALS_FILE}",
    ]


def test_they_are_enough_to_log_in() -> None:
    assert ADMIN_KEYS_FILE in seed(planned(DC, access={"admins": [ADMIN]}), given())
    with pytest.raises(ImageError, match=r"admins or authorities under access .* --admin-key"):
        seed(plan_of_file(DC), given())


def test_a_given_authority_adds_to_the_sites_own() -> None:
    both = seed(planned(DC, access={"authorities": [AUTHORITY]}), given(user_ca="ssh-ed25519 CCCC given"))
    assert both[AUTHORITIES_FILE].content.decode() == f"{AUTHORITY}\nssh-ed25519 CCCC given\n"
    alone = seed(plan_of_file(DC), given(user_ca="ssh-ed25519 CCCC given"))
    assert alone[AUTHORITIES_FILE].content.decode() == "ssh-ed25519 CCCC given\n"
    assert alone[SSHD_FILE].content.decode() == f"TrustedUserCAKeys {AUTHORITIES_FILE}\n"


def test_who_is_taken_out_of_the_site_file_is_out_of_a_node_from_an_older_image() -> None:
    access = {"admins": [ADMIN], "authorities": [AUTHORITY]}
    host = booted(planned(DC, access=access), given(OWN))
    (name,) = host.journals.keys() - {"identity"}
    later = next(host for host in planned(DC).hosts if host.name == NODE).concerns[name]
    host.known |= set(later.packages)
    asked = wanted.concern(json.loads(later.model_dump_json()))
    gone = {change.subject for change in engine.check(host.machine(), [asked]).changes if change.after == ""}
    assert gone == {ADMIN_KEYS_FILE, AUTHORITIES_FILE, PRINCIPALS_FILE}
