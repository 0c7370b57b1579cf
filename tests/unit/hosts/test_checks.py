"""One check for each thing that a concern promises; the commands say what the checks expect when it is so."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.hosts.sites import ADMIN, DC, LAB, planned

from pinion.checks.hosts import host_checks
from pinion.checks.model import Check, HostProbe
from pinion.plan.model import Concern, HostFile, HostPlan, HostSysctl, HostUser, Plan
from pinion.site.catalog import Evidence


def command(check: Check) -> str:
    """The shell command of a host's check."""
    assert isinstance(check.probe, HostProbe)
    return check.probe.command


def say(check: Check) -> str:
    """What the check's command says here."""
    return subprocess.run(["/bin/sh", "-c", command(check)], capture_output=True, text=True, check=False).stdout.strip()


@pytest.fixture(scope="module")
def lab() -> Plan:
    return planned(LAB, access={"admins": [ADMIN]})


def only(concern: Concern, lab: Plan) -> Iterator[Check]:
    """The checks of a plan with one host that has only *concern*."""
    host: HostPlan = lab.hosts[0].model_copy(update={"concerns": {concern.name: concern}})
    yield from host_checks(lab.model_copy(update={"hosts": (host,)}))


def test_one_check_for_each_thing(lab: Plan) -> None:
    checks = host_checks(lab)
    expected = sum(
        len(c.packages) + len(c.packages_absent) + len(c.files) + len(c.sysctls) + len(c.units) + len(c.claims)
        + sum(2 + bool(user.groups) for user in c.users)
        for host in lab.hosts
        for c in host.concerns.values()
    )  # fmt: skip
    assert len(checks) == expected
    assert expected > 100
    assert len({check.id for check in checks}) == expected


def test_what_a_container_cannot_show_is_rendered_at_best(lab: Plan) -> None:
    backlog = [check for check in host_checks(lab) if check.id.endswith("sysctl.net.core.netdev_max_backlog")]
    assert {check.best for check in backlog} == {Evidence.RENDERED}
    assert {check.best for check in host_checks(lab) if check.id.endswith("net.core.somaxconn")} == {Evidence.EMULATED}
    assert {check.best for check in host_checks(planned(DC))} == {Evidence.MEASURED}


def test_every_command_is_shell(lab: Plan) -> None:
    for check in host_checks(lab):
        done = subprocess.run(["/bin/sh", "-n", "-c", command(check)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{check.id}: {done.stderr}"


def test_a_file_is_judged_by_owner_mode_and_content(lab: Plan, tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_text("content\n")
    path.chmod(0o640)
    me = pwd.getpwuid(os.getuid()).pw_name
    planned_file = HostFile(path=str(path), owner=me, group=me, mode="0640", content="content\n")
    (check,) = only(Concern(name="c", files=(planned_file,)), lab)
    assert say(check) == check.expected
    path.chmod(0o644)
    assert say(check) != check.expected
    path.chmod(0o640)
    path.write_text("other\n")
    assert say(check) != check.expected
    path.unlink()
    assert say(check) != check.expected


def test_packages_users_and_sysctls_are_judged_as_they_are(lab: Plan) -> None:
    value = " ".join(Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split())
    root = HostUser(
        name="root", system=True, comment="root", home="/root", create_home=False, shell="/bin/bash", groups=("root",)
    )
    stated = Concern(
        name="c",
        packages=("dpkg", "no-such-package"),
        packages_absent=("no-such-package",),
        users=(root,),
        sysctls=(HostSysctl(key="net.ipv4.tcp_rmem", value=value, source="here", namespaced=True, live=True),),
    )
    found = {check.id.partition(".c.")[2]: (check.expected, say(check)) for check in only(stated, lab)}
    assert found["package.dpkg"] == ("installed", "installed")
    assert found["sysctl.net.ipv4.tcp_rmem"] == (value, value)
    assert found["groups.root"] == ("root", "root")
    assert found["user.root"][1] == "root:/root:/bin/bash"
    twice = [(check.expected, say(check)) for check in only(stated, lab) if check.id.endswith("no-such-package")]
    assert twice == [("installed", "absent"), ("absent", "absent")]
