"""Debian packages, by dpkg and apt-get."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .archives import causes
from .command import reason, run
from .machine import HostError

#: Seconds to wait for another apt or dpkg; unattended upgrades of a small host end well within that.
LOCK_SECONDS = 300
#: Seconds that a download and installation may take on a slow SD card and link.
CHANGE_SECONDS = 1800
_APT = (
    "apt-get",
    "-y",
    "-q",
    "--no-install-recommends",
    "-o",
    f"DPkg::Lock::Timeout={LOCK_SECONDS}",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
)


class Dpkg:
    """Implements `machine.Packages`."""

    def installed(self, names: Sequence[str]) -> frozenset[str]:
        if not names:
            return frozenset()
        argv = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *names]
        lines = run(argv, check=False).stdout.splitlines()
        return frozenset(name for status, _, name in (line.partition(" ") for line in lines) if status == "installed")

    def install(self, names: Sequence[str]) -> None:
        argv = [*_APT, "install", *names]
        done = run(argv, check=False, seconds=CHANGE_SECONDS)
        if done.returncode != 0 and "dpkg was interrupted" in done.stderr:
            run(["dpkg", "--configure", "-a"], seconds=CHANGE_SECONDS)
            done = run(argv, check=False, seconds=CHANGE_SECONDS)
        said = ""
        if done.returncode != 0 and "Could not get lock" not in done.stderr:
            # Only now, because fetching the lists costs more than all the rest: they are missing or out of date. An archive that fails does
            # not keep packages of the others away, and apt must say so itself: by default it takes old lists, or none, for good enough.
            update = run([*_APT, "-o", "APT::Update::Error-Mode=any", "update"], check=False, seconds=CHANGE_SECONDS)
            said = f"{update.stdout}\n{update.stderr}" if update.returncode != 0 else ""
            done = run(argv, check=False, seconds=CHANGE_SECONDS)
        if done.returncode != 0:
            why = causes(f"{done.stdout}\n{done.stderr}\n{said}")
            raise HostError(
                f"apt-get install {' '.join(names)}: exit {done.returncode}: {reason(done)}{f'. {why}' if why else ''}"
            )

    def remove(self, name: str) -> str | None:
        # Unlike apt-get, dpkg never removes what depends on the package, and never waits for its lock.
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            done = run(["dpkg", "--remove", name], check=False, seconds=CHANGE_SECONDS)
            if "dpkg was interrupted" in done.stderr:
                run(["dpkg", "--configure", "-a"], seconds=CHANGE_SECONDS)
            elif "is locked by another process" not in done.stderr or time.monotonic() > deadline:
                return reason(done) if done.returncode != 0 else None
            time.sleep(1)
