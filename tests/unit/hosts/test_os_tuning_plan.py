"""What the plan says of the concern os_tuning."""

from __future__ import annotations

import pytest
from unit.hosts.sites import ADMIN, DC, LAB, planned

from pinion.plan.concerns.os_tuning import (
    ADMIN_USER,
    AUTHORITIES_FILE,
    EDGE_USER,
    KEYS_FOLDER,
    PRINCIPALS_FOLDER,
    SSHD_FILE,
    SYSCTL_FILE,
)
from pinion.plan.model import Concern, DeviceKind, Plan


def concern(plan: Plan, kind: DeviceKind) -> Concern:
    """The concern of the first host of *kind*."""
    return next(host.concerns["os_tuning"] for host in plan.hosts if host.kind is kind)


@pytest.fixture(scope="module")
def lab() -> Plan:
    return planned(LAB, concerns=None)


@pytest.fixture(scope="module")
def real() -> Plan:
    return planned(DC, concerns=None)


def test_every_host_has_it(lab: Plan, real: Plan) -> None:
    for plan in (lab, real):
        assert plan.hosts
        assert all("os_tuning" in host.concerns for host in plan.hosts)


def test_the_backlog_of_a_pi_and_of_nobody_else(lab: Plan) -> None:
    backlog = {
        kind: {sysctl.key: sysctl.value for sysctl in concern(lab, kind).sysctls}.get("net.core.netdev_max_backlog")
        for kind in (DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST)
    }
    assert backlog == {DeviceKind.PI: "5000", DeviceKind.GPU_SERVER: None, DeviceKind.MANAGEMENT_HOST: None}


def test_what_a_container_cannot_hold_is_not_live_there_and_is_live_on_hardware(lab: Plan, real: Plan) -> None:
    in_lab = {sysctl.key: sysctl for sysctl in concern(lab, DeviceKind.PI).sysctls}
    on_hardware = {sysctl.key: sysctl for sysctl in concern(real, DeviceKind.PI).sysctls}
    assert not in_lab["net.core.netdev_max_backlog"].live
    assert in_lab["net.core.somaxconn"].live
    assert all(sysctl.live == sysctl.namespaced for sysctl in in_lab.values())
    assert all(sysctl.live for sysctl in on_hardware.values())


def test_the_sysctl_file_states_every_parameter_with_its_source(lab: Plan) -> None:
    stated = concern(lab, DeviceKind.PI)
    (file,) = [file for file in stated.files if file.path == SYSCTL_FILE]
    lines = file.content.splitlines()
    assert len(stated.sysctls) > 10
    for sysctl in stated.sysctls:
        assert sysctl.source
        at = lines.index(f"{sysctl.key} = {sysctl.value}")
        assert lines[at - 1] == f"# {sysctl.source}"


def test_what_the_kubelet_wants_only_where_there_is_one() -> None:
    alone = planned(LAB, kubernetes=None, services=None)
    keys = {sysctl.key for sysctl in concern(alone, DeviceKind.PI).sysctls}
    assert "vm.overcommit_memory" not in keys
    assert "vm.overcommit_memory" in {sysctl.key for sysctl in concern(planned(LAB), DeviceKind.GPU_SERVER).sysctls}


def test_administrators_get_a_login_and_nobody_else_does() -> None:
    without = concern(planned(LAB, access=None), DeviceKind.GPU_SERVER)
    assert without.users == ()
    assert not any(file.path.startswith((KEYS_FOLDER, "/etc/sudoers.d")) for file in without.files)
    other = ADMIN.replace("ops@example", "second@example")
    with_two = concern(planned(LAB, access={"admins": [ADMIN, other]}), DeviceKind.GPU_SERVER)
    assert [user.name for user in with_two.users] == [ADMIN_USER]
    files = {file.path: file for file in with_two.files}
    assert files[f"{KEYS_FOLDER}/{ADMIN_USER}"].content == f"{ADMIN}\n{other}\n"
    sudo = files[f"/etc/sudoers.d/60-pinion-{ADMIN_USER}"]
    assert sudo.mode == "0440"
    assert sudo.validate_command is not None


def test_the_edge_runtime_has_its_user_on_pis(lab: Plan) -> None:
    assert EDGE_USER in [user.name for user in concern(lab, DeviceKind.PI).users]
    assert EDGE_USER not in [user.name for user in concern(lab, DeviceKind.GPU_SERVER).users]
    (user,) = [user for user in concern(lab, DeviceKind.PI).users if user.name == EDGE_USER]
    assert user.system
    assert user.shell == "/usr/sbin/nologin"


def test_the_ssh_configuration_is_validated_reloaded_and_confirmed(lab: Plan) -> None:
    (file,) = [file for file in concern(lab, DeviceKind.PI).files if file.path == SSHD_FILE]
    assert file.confirm
    assert file.notify == ("ssh.service",)
    assert file.validate_command is not None
    assert "sshd -t" in file.validate_command
    assert {"PermitRootLogin no", "PasswordAuthentication no"} <= set(file.content.splitlines())


def test_names_are_unique_within_a_concern(lab: Plan, real: Plan) -> None:
    for host in (*lab.hosts, *real.hosts):
        stated = host.concerns["os_tuning"]
        for names in (
            [sysctl.key for sysctl in stated.sysctls],
            [file.path for file in stated.files],
            [user.name for user in stated.users],
            [unit.name for unit in stated.units],
            [claim.name for claim in stated.claims],
            [*stated.packages, *stated.packages_absent],
        ):
            assert len(names) == len(set(names))


def test_an_authority_of_the_site_counts_for_administrators_alone() -> None:
    stated = concern(planned(LAB, access={"authorities": [ADMIN], "principals": ["site-admins"]}), DeviceKind.PI)
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
    (file,) = [file for file in concern(lab, DeviceKind.PI).files if file.path == SSHD_FILE]
    assert "TrustedUserCAKeys" not in file.content
