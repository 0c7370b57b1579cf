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
from pinion.plan.model import (
    Concern,
    HostClaim,
    HostDirectory,
    HostFile,
    HostKernelArgument,
    HostModule,
    HostPlan,
    HostSysctl,
    HostUnit,
    HostUser,
    Plan,
)
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
        len(c.packages) + len(c.packages_absent) + sum(file.unless is None for file in c.files) + len(c.sysctls)
        + len(c.units) + len(c.claims)
        + len(c.directories) + len(c.kernel_arguments) + len(c.modules) + sum(2 + bool(user.groups) for user in c.users)
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


def test_a_secret_s_digest_is_in_no_check(lab: Plan, tmp_path: Path) -> None:
    path, me = tmp_path / "key", pwd.getpwuid(os.getuid()).pw_name
    path.write_text("another\n")
    path.chmod(0o600)
    secret = HostFile(path=str(path), owner=me, group=me, mode="0600", content="sesame", secret=True)
    (check,) = only(Concern(name="c", files=(secret,)), lab)
    assert check.expected == f"{me}:{me} 600 not empty" == say(check)
    path.write_text("")
    assert say(check) != check.expected


def test_a_folder_is_judged_by_owner_and_mode(lab: Plan, tmp_path: Path) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    tmp_path.chmod(0o750)
    (check,) = only(
        Concern(name="c", directories=(HostDirectory(path=str(tmp_path), owner=me, group=me, mode="0750"),)), lab
    )
    assert say(check) == check.expected
    tmp_path.chmod(0o755)
    assert say(check) != check.expected


def test_an_argument_of_a_container_is_what_its_file_says(lab: Plan, tmp_path: Path) -> None:
    path = tmp_path / "cmdline.txt"
    path.write_text("root=/dev/sda1 isolcpus=1-3\n")
    argument = HostKernelArgument(argument="isolcpus=1-3", source="s", file=str(path), live=False)
    (check,) = only(Concern(name="c", kernel_arguments=(argument,)), lab)
    assert (say(check), check.best) == (check.expected, Evidence.RENDERED)
    path.write_text("root=/dev/sda1 isolcpus=1-32\n")
    assert say(check) != check.expected
    (check,) = only(Concern(name="c", kernel_arguments=(argument.model_copy(update={"live": True}),)), lab)
    assert "/proc/cmdline" in command(check)
    assert check.best is Evidence.EMULATED


def test_a_module_is_loaded_or_of_a_container_in_its_file(lab: Plan) -> None:
    (check,) = only(Concern(name="c", modules=(HostModule(name="no-such-module", source="s"),)), lab)
    assert say(check) == "absent"
    some = next(Path("/sys/module").iterdir()).name
    (check,) = only(Concern(name="c", modules=(HostModule(name=some, source="s"),)), lab)
    assert say(check) == "loaded"
    (check,) = only(Concern(name="a_b", modules=(HostModule(name="m", source="s", live=False),)), lab)
    assert "/etc/modules-load.d/pinion-a-b.conf" in command(check)
    assert check.best is Evidence.RENDERED


def test_a_concern_caps_what_its_checks_can_claim(lab: Plan) -> None:
    concern = Concern(
        name="c",
        files=(HostFile(path="/x", content="", evidence=Evidence.PARSED),),
        units=(HostUnit(name="u", enabled=True, active=True, evidence=Evidence.MEASURED),),
        claims=(HostClaim(name="n", claim="c", command="true", expected="", evidence=Evidence.RENDERED),),
    )
    assert [check.best for check in only(concern, lab)] == [Evidence.PARSED, Evidence.EMULATED, Evidence.RENDERED]
