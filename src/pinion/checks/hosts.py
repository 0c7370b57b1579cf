"""Claims about hosts: what each concern of a HostPlan promises, one check a thing. Pure."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator

from pinion.checks.model import Check, HostProbe, Topic
from pinion.plan.model import Concern, HostFile, HostPlan, HostSysctl, HostUnit, HostUser, Plan
from pinion.site.catalog import Evidence


def host_checks(plan: Plan) -> tuple[Check, ...]:
    """One check for each package, user, file, sysctl, unit and further claim of every host."""
    return tuple(
        Check(
            id=f"host.{host.name}.{concern.name}.{key}",
            topic=Topic.HOSTS,
            subject=host.name,
            claim=claim,
            expected=expected,
            probe=probe,
            remedy=f"run `pinion converge {plan.site} --limit {host.name}`; add --check to see what differs",
            origin=host.origin,
            best=evidence,
        )
        for host in plan.hosts
        for concern in host.concerns.values()
        for key, claim, expected, probe, evidence in _claims(host, concern)
    )


_Claim = tuple[str, str, str, HostProbe, Evidence]


def _claims(host: HostPlan, concern: Concern) -> Iterator[_Claim]:
    """Key, claim, expected value, probe and best evidence of each thing that *concern* promises."""

    def said(key: str, claim: str, expected: str, command: str, *, sudo: bool = False) -> _Claim:
        return key, claim, expected, HostProbe(host=host.name, command=command, sudo=sudo), host.evidence

    for name in concern.packages:
        yield said(f"package.{name}", f"package {name} is", "installed", _package(name))
    for name in concern.packages_absent:
        yield said(f"package.{name}", f"package {name} is", "absent", _package(name))
    for user in concern.users:
        expected = f"{user.comment}:{user.home}:{user.shell}"
        yield said(f"user.{user.name}", f"user {user.name} is", expected, f"getent passwd {user.name} | cut -d: -f5-7")
        yield said(f"login.{user.name}", f"user {user.name} has a password", "no", _password(user), sudo=True)
        if user.groups:
            claim = f"user {user.name} is in the groups"
            yield said(f"groups.{user.name}", claim, " ".join(user.groups), _groups(user))
    for file in concern.files:
        yield said(f"file.{file.path}", f"file {file.path} is", _whole(file), _file(file), sudo=True)
    for sysctl in concern.sysctls:
        yield _sysctl(host, sysctl)
    for unit in concern.units:
        yield said(f"unit.{unit.name}", f"unit {unit.name} is", _service(unit), _unit(unit))
    for stated in concern.claims:
        yield said(f"claim.{stated.name}", stated.claim, stated.expected, stated.command, sudo=True)


def _package(name: str) -> str:
    query = f"dpkg-query -W -f '${{db:Status-Status}}\\n' {shlex.quote(name)} 2>/dev/null"
    return f"{query} | grep -qx installed && echo installed || echo absent"


def _password(user: HostUser) -> str:
    """shadow(5): a field that starts with ``*`` or ``!`` matches no password."""
    return f"getent shadow {user.name} | cut -d: -f2 | grep -q '^[*!]' && echo no || echo yes"


def _groups(user: HostUser) -> str:
    """Those of the planned groups that the user is in, in the plan's order."""
    loop = f"for g in {' '.join(user.groups)}; do id -nG {user.name} | tr ' ' '\\n' | grep -x -- $g; done"
    return f"echo $({loop})"


def _whole(file: HostFile) -> str:
    digest = hashlib.sha256(file.content.encode()).hexdigest()
    return f"{file.owner}:{file.group} {int(file.mode, 8):o} sha256 {digest}"


def _file(file: HostFile) -> str:
    path = shlex.quote(file.path)
    return f'echo "$(stat -c "%U:%G %a" {path}) sha256 $(sha256sum <{path} | cut -c 1-64)"'


def _sysctl(host: HostPlan, sysctl: HostSysctl) -> _Claim:
    """The kernel's own value; where the host cannot see it, what its sysctl files say for the next boot (the last of them counts)."""
    key = f"sysctl.{sysctl.key}"
    if sysctl.live:
        path = f"/proc/sys/{sysctl.key.replace('.', '/')}"
        probe = HostProbe(host=host.name, command=f"tr '\\t' ' ' <{path}")
        return key, f"the kernel's {sysctl.key} is", sysctl.value, probe, host.evidence
    pattern = sysctl.key.replace(".", "\\.")
    probe = HostProbe(host=host.name, command=f"cat /etc/sysctl.d/*.conf | sed -n 's/^{pattern} = //p' | tail -n 1")
    return key, f"at boot, {sysctl.key} is to be", sysctl.value, probe, Evidence.RENDERED


def _service(unit: HostUnit) -> str:
    return f"{'enabled' if unit.enabled else 'disabled'} {'active' if unit.active else 'inactive'}"


def _unit(unit: HostUnit) -> str:
    name = shlex.quote(unit.name)
    enabled = f"systemctl -q is-enabled {name} 2>/dev/null && echo enabled || echo disabled"
    active = f"systemctl -q is-active {name} && echo active || echo inactive"
    return f'echo "$({enabled}) $({active})"'
