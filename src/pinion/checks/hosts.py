"""Claims about hosts: what each concern of a HostPlan promises, one check a thing. Pure."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from pinion.checks.model import Check, HostProbe, Topic
from pinion.plan.model import (
    Concern,
    HostClaim,
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


def host_checks(plan: Plan) -> tuple[Check, ...]:
    """One check for each package, user, folder, file, kernel argument, module, sysctl, unit and further claim of every host."""
    return tuple(
        Check(
            id=f"host.{host.name}.{concern.name}.{said.key}",
            topic=Topic.HOSTS,
            subject=host.name,
            claim=said.claim,
            expected=said.expected,
            probe=said.probe,
            remedy=_remedy(plan, host, said),
            origin=host.origin,
            best=said.best,
            after_boot=said.after_boot,
            settles=said.settles,
        )
        for host in plan.hosts
        for concern in host.concerns.values()
        for said in _claims(host, concern)
    )


class _Claim(NamedTuple):
    """What a `Check` says of its own; the rest follows from host and concern."""

    key: str
    claim: str
    expected: str
    probe: HostProbe
    best: Evidence
    after_boot: tuple[str, ...] = ()
    settles: bool = False


def _remedy(plan: Plan, host: HostPlan, said: _Claim) -> str:
    booted = f"; while the host waits for a boot, `pinion reboot {plan.site} --limit {host.name}`"
    told = f"run `pinion converge {plan.site} --limit {host.name}`; add --check to see what differs"
    return told + (booted if said.after_boot else "")


def _claims(host: HostPlan, concern: Concern) -> Iterator[_Claim]:
    """Each thing that *concern* promises."""

    def said(
        key: str,
        claim: str,
        expected: str,
        command: str,
        *,
        sudo: bool = False,
        cap: Evidence | None = None,
        after_boot: tuple[str, ...] = (),
    ) -> _Claim:
        probe = HostProbe(host=host.name, command=command, sudo=sudo)
        return _Claim(key, claim, expected, probe, _capped(host, cap), after_boot)

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
    for folder in concern.directories:
        expected = f"{folder.owner}:{folder.group} {int(folder.mode, 8):o} directory"
        command = f"stat -c '%U:%G %a %F' {shlex.quote(folder.path)}"
        yield said(f"folder.{folder.path}", f"folder {folder.path} is", expected, command, sudo=True)
    for file in concern.files:
        if file.unless is not None:
            continue  # a means to an end; the concern claims the end
        claim = f"file {file.path} is"
        yield said(f"file.{file.path}", claim, _whole(file), _file(file), sudo=True, cap=file.evidence)
    for argument in concern.kernel_arguments:
        yield _argument(host, argument)
    for module in concern.modules:
        yield _module(host, concern, module)
    for sysctl in concern.sysctls:
        yield _sysctl(host, sysctl)
    for unit in concern.units:
        claim = f"unit {unit.name} is"
        yield said(
            f"unit.{unit.name}", claim, _service(unit), _unit(unit), cap=unit.evidence, after_boot=unit.after_boot
        )
    for stated in concern.claims:
        yield _further(host, stated)


def _further(host: HostPlan, stated: HostClaim) -> _Claim:
    """What the concern claims beyond its parts; only such a command may take long."""
    probe = HostProbe(host=host.name, command=stated.command, sudo=True, seconds=stated.seconds)
    best = _capped(host, stated.evidence)
    name = f"claim.{stated.name}"
    return _Claim(name, stated.claim, stated.expected, probe, best, stated.after_boot, stated.settles)


def _capped(host: HostPlan, cap: Evidence | None) -> Evidence:
    """The best evidence that *host* can give, or *cap* where that is weaker."""
    order = list(Evidence)
    return host.evidence if cap is None else min(host.evidence, cap, key=order.index)


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
    """Owner, mode and digest; a secret's digest could be guessed at, so of a secret only that there is something.

    What the operator's machine puts in is not in the plan, so of that too.
    """
    access = f"{file.owner}:{file.group} {int(file.mode, 8):o}"
    if file.secret or file.materials:
        return f"{access} not empty"
    return f"{access} sha256 {hashlib.sha256(file.content.encode()).hexdigest()}"


def _file(file: HostFile) -> str:
    path = shlex.quote(file.path)
    if file.secret or file.materials:
        return f'echo "$(stat -c "%U:%G %a" {path}) $([ -s {path} ] && echo not) empty"'
    return f'set -- "$(stat -c "%U:%G %a" {path})" $(sha256sum <{path}); echo "$1 sha256 ${{2-}}"'


def _argument(host: HostPlan, argument: HostKernelArgument) -> _Claim:
    """What the running kernel was started with; of a container, only what its file says."""
    path = "/proc/cmdline" if argument.live else argument.file
    where = "the running kernel has" if argument.live else f"{argument.file} has"
    command = f"tr ' ' '\\n' <{shlex.quote(path)} | grep -cxF -e {shlex.quote(argument.argument)}"
    evidence = _capped(host, None if argument.live else Evidence.RENDERED)
    probe = HostProbe(host=host.name, command=command)
    return _Claim(
        f"argument.{argument.argument}",
        f"{where} {argument.argument} this many times:",
        "1",
        probe,
        evidence,
        (argument.file,) if argument.live else (),
    )


def _module(host: HostPlan, concern: Concern, module: HostModule) -> _Claim:
    """Whether the kernel has it, loaded or built in; of a container, only what a boot would load."""
    name = module.name.replace("-", "_")
    built_in = f"grep -q '/{name.replace('_', '[-_]')}[.]ko' /lib/modules/$(uname -r)/modules.builtin"
    command = f"{{ [ -d /sys/module/{name} ] || {built_in}; }} && echo loaded || echo absent"
    claim, expected = f"kernel module {module.name} is", "loaded"
    if not module.live:
        path = f"/etc/modules-load.d/pinion-{concern.name.replace('_', '-')}.conf"
        command = f"grep -xF -e {shlex.quote(module.name)} {path}"
        claim, expected = "a boot loads the kernel module", module.name
    probe = HostProbe(host=host.name, command=command)
    evidence = _capped(host, None if module.live else Evidence.RENDERED)
    return _Claim(f"module.{module.name}", claim, expected, probe, evidence)


def _sysctl(host: HostPlan, sysctl: HostSysctl) -> _Claim:
    """The kernel's own value; where the host cannot see it, what its sysctl files say for the next boot (the last of them counts)."""
    key = f"sysctl.{sysctl.key}"
    if sysctl.live:
        path = f"/proc/sys/{sysctl.key.replace('.', '/')}"
        probe = HostProbe(host=host.name, command=f"tr '\\t' ' ' <{path}")
        return _Claim(key, f"the kernel's {sysctl.key} is", sysctl.value, probe, host.evidence)
    pattern = sysctl.key.replace(".", "\\.")
    probe = HostProbe(host=host.name, command=f"cat /etc/sysctl.d/*.conf | sed -n 's/^{pattern} = //p' | tail -n 1")
    return _Claim(key, f"at boot, {sysctl.key} is to be", sysctl.value, probe, Evidence.RENDERED)


def _service(unit: HostUnit) -> str:
    if unit.masked:
        return "masked inactive"
    return f"{'enabled' if unit.enabled else 'disabled'} {'active' if unit.active else 'inactive'}"


def _unit(unit: HostUnit) -> str:
    name = shlex.quote(unit.name)
    enabled = f"systemctl -q is-enabled {name} 2>/dev/null && echo enabled || echo disabled"
    if unit.masked:
        enabled = f"systemctl is-enabled {name} 2>/dev/null | grep -qx 'masked.*' && echo masked || echo not-masked"
    active = f"systemctl -q is-active {name} && echo active || echo inactive"
    return f'echo "$({enabled}) $({active})"'
