"""What the plan says of the concern access."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from unit.hosts.nodes import concern
from unit.hosts.sites import ADMIN, DC, LAB, planned

from pinion.plan.concerns.access import (
    ADMIN_USER,
    AUTHORITIES_FILE,
    KEYS_FOLDER,
    PRINCIPALS_FOLDER,
    SSHD_FILE,
    fingerprint,
)
from pinion.plan.model import DeviceKind, Plan


@pytest.fixture(scope="module")
def lab() -> Plan:
    return planned(LAB, concerns=None)


@pytest.fixture(scope="module")
def real() -> Plan:
    return planned(DC, concerns=None)


def test_every_host_has_it_before_all_others(lab: Plan, real: Plan) -> None:
    for plan in (lab, real):
        assert plan.hosts
        assert all(next(iter(host.concerns)) == "access" for host in plan.hosts)


def test_it_needs_nothing_stated() -> None:
    bare = planned(LAB, concerns=None, access=None)
    for host in bare.hosts:
        stated = host.concerns["access"]
        assert [file.path for file in stated.files] == [SSHD_FILE]
        assert [unit.name for unit in stated.units] == ["ssh.service"]
        assert stated.claims


def test_nobody_has_an_account_without_a_use(lab: Plan, real: Plan) -> None:
    """Users are those of administrators, and of services that run as them."""
    for host in (*lab.hosts, *real.hosts):
        assert {user.name for entry in host.concerns.values() for user in entry.users} <= {ADMIN_USER}


def test_administrators_get_a_login_and_nobody_else_does() -> None:
    without = concern(planned(LAB, access=None), DeviceKind.GPU_SERVER, "access")
    assert without.users == ()
    assert not any(file.path.startswith((KEYS_FOLDER, "/etc/sudoers.d")) for file in without.files)
    other = ADMIN.replace("ops@example", "second@example")
    with_two = concern(planned(LAB, access={"admins": [ADMIN, other]}), DeviceKind.GPU_SERVER, "access")
    assert [user.name for user in with_two.users] == [ADMIN_USER]
    files = {file.path: file for file in with_two.files}
    assert files[f"{KEYS_FOLDER}/{ADMIN_USER}"].content == f"{ADMIN}\n{other}\n"
    sudo = files[f"/etc/sudoers.d/60-pinion-{ADMIN_USER}"]
    assert sudo.mode == "0440"
    assert sudo.validate_command is not None


def test_the_ssh_configuration_is_validated_reloaded_and_confirmed(lab: Plan) -> None:
    (file,) = [file for file in concern(lab, DeviceKind.PI, "access").files if file.path == SSHD_FILE]
    assert file.confirm
    assert file.notify == ("ssh.service",)
    assert file.validate_command is not None
    assert "sshd -t" in file.validate_command
    assert {"PermitRootLogin no", "PasswordAuthentication no"} <= set(file.content.splitlines())


def test_names_are_unique_within_a_concern(lab: Plan, real: Plan) -> None:
    for host in (*lab.hosts, *real.hosts):
        stated = host.concerns["access"]
        for names in (
            [file.path for file in stated.files],
            [user.name for user in stated.users],
            [unit.name for unit in stated.units],
            [claim.name for claim in stated.claims],
        ):
            assert len(names) == len(set(names))


def test_an_authority_of_the_site_counts_for_administrators_alone() -> None:
    stated = concern(
        planned(LAB, access={"authorities": [ADMIN], "principals": ["site-admins"]}), DeviceKind.PI, "access"
    )
    files = {file.path: file.content for file in stated.files}
    assert files[AUTHORITIES_FILE] == f"{ADMIN}\n"
    assert files[f"{PRINCIPALS_FOLDER}/{ADMIN_USER}"] == "site-admins\n"
    assert f"/etc/sudoers.d/60-pinion-{ADMIN_USER}" in files
    assert f"{KEYS_FOLDER}/{ADMIN_USER}" not in files
    assert ADMIN_USER in [user.name for user in stated.users]
    lines = files[SSHD_FILE].splitlines()
    # sshd takes no certificate for a user without a file of principals: not for the image's own login
    assert {f"TrustedUserCAKeys {AUTHORITIES_FILE}", f"AuthorizedPrincipalsFile {PRINCIPALS_FOLDER}/%u"} <= set(lines)
    assert {path for path in files if path.startswith(PRINCIPALS_FOLDER)} == {f"{PRINCIPALS_FOLDER}/{ADMIN_USER}"}
    assert {claim.name: claim.expected for claim in stated.claims}["sshd.trustedusercakeys"] == AUTHORITIES_FILE


def test_without_an_authority_no_certificate_counts(lab: Plan) -> None:
    (file,) = [file for file in concern(lab, DeviceKind.PI, "access").files if file.path == SSHD_FILE]
    assert "TrustedUserCAKeys" not in file.content


def test_only_the_keys_of_the_site_file_open_an_administrators_account() -> None:
    stated = concern(planned(LAB, access={"admins": [ADMIN]}), DeviceKind.GPU_SERVER, "access")
    (sshd,) = [file for file in stated.files if file.path == SSHD_FILE]
    _, _, block = sshd.content.partition(f"Match User {ADMIN_USER}\n")
    lines = [line.strip() for line in block.splitlines() if not line.strip().startswith("#")]
    assert lines == [f"AuthorizedKeysFile {KEYS_FOLDER}/%u", "AuthorizedKeysCommand none", "Match all"]
    claims = {claim.name: claim.expected for claim in stated.claims}
    assert claims["administrators.authorizedkeysfile"] == f"{KEYS_FOLDER}/%u"
    assert claims["administrators.keys"] == fingerprint(ADMIN)


def test_the_fingerprint_is_ssh_keygens(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(f"{ADMIN}\n")
    said = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True)
    assert said.stdout.split()[1] == fingerprint(ADMIN)


def test_without_administrators_nothing_is_said_of_them() -> None:
    stated = concern(planned(LAB, access=None), DeviceKind.GPU_SERVER, "access")
    assert not any("Match" in file.content for file in stated.files)
    assert not any(claim.name.startswith("administrators") for claim in stated.claims)
