"""Debian packages that the host needs: installed only when missing, without starting or enabling any service."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from toolchest.process import UnavailableError, run

POLICY = Path("/usr/sbin/policy-rc.d")
SAVED = Path("/usr/sbin/policy-rc.d.pinion-saved")
MARK = "# pinion: no service starts while packages are installed"
APT_SECONDS = 1800.0


def wanted(path: Path) -> list[str]:
    """Return the package names of a list file: one a line, `#` starts a comment."""
    return [name for line in path.read_text().splitlines() if (name := line.partition("#")[0].strip())]


def missing(packages: list[str]) -> list[str]:
    """Return those packages that dpkg does not know as installed.

    Raises:
        UnavailableError: this is no Debian.
    """
    if not shutil.which("dpkg-query"):
        raise UnavailableError("this is no Debian: no dpkg-query")
    answer = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    installed = {
        name for name, _, status in (line.partition(" ") for line in answer.splitlines()) if status == "installed"
    }
    return [package for package in packages if package not in installed]


@contextlib.contextmanager
def no_service_starts(policy: Path = POLICY, saved: Path = SAVED) -> Iterator[None]:
    """Forbid maintainer scripts to start services (policy-rc.d answers 101), then put back what was there.

    A killed run leaves our policy behind; the next one knows it by its mark and cleans up.
    """
    if policy.exists() and MARK not in policy.read_text():
        policy.replace(saved)
    temporary = policy.with_name(f".{policy.name}.new")
    temporary.write_text(f"#!/bin/sh\n{MARK}\nexit 101\n")
    temporary.chmod(0o755)
    temporary.replace(policy)
    try:
        yield
    finally:
        restore_policy(policy, saved)


def restore_policy(policy: Path = POLICY, saved: Path = SAVED) -> None:
    """Remove our policy-rc.d if it is there and put back the one that it replaced."""
    if policy.exists() and MARK in policy.read_text():
        policy.unlink()
    if saved.exists() and not policy.exists():
        saved.replace(policy)


def install(packages: list[str]) -> None:
    """Install packages without questions.

    Raises:
        UnavailableError: apt could not; its last lines are in the text.
    """
    if os.geteuid() != 0:
        raise UnavailableError(
            f"installing needs root; as root: apt-get install --no-install-recommends {' '.join(packages)}"
        )
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", NEEDRESTART_MODE="l")
    apt = ["apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]
    command = [*apt, "install", "--yes", "--no-install-recommends", *packages]
    with no_service_starts():
        try:
            # Fails without touching anything when the package lists are missing or too old to know a package.
            run([*command, "--dry-run"], "apt-get install --dry-run", environment=environment, seconds=APT_SECONDS)
        except UnavailableError:
            # An unreachable third-party source makes update fail though ours were read; the installation itself will tell.
            with contextlib.suppress(UnavailableError):
                run([*apt, "update"], "apt-get update", environment=environment, seconds=APT_SECONDS)
        run(command, "apt-get install", environment=environment, seconds=APT_SECONDS)
        disable_units(packages)


def disable_units(packages: list[str]) -> None:
    """Disable the units that freshly installed packages brought, so that a reboot does not start them either: the lab runs its own."""
    if not shutil.which("systemctl"):
        return
    listing = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=False).stdout
    units = [
        path.name
        for line in listing.splitlines()
        if (path := Path(line)).suffix in {".service", ".socket", ".timer"}
        and path.parent.name == "system"
        and "@" not in path.name
    ]
    if units:
        subprocess.run(["systemctl", "disable", *sorted(set(units))], capture_output=True, check=False)
