#!/usr/bin/python3 -I
"""Bring the packages of this host to the newest that its archives have, and back: upgrade [--check] [--back] REQUEST.

REQUEST is JSON: `run` names this run; `newest` is for each package that may not become newer than something else (a kubelet than its API
server) the newest minor version that it may have, as "1.34", or null where nobody knows it: then that of what is installed; with `one_way`
packages are upgraded even when there is no way back for them.

Packages are never removed by an upgrade, and configuration files stay as they are. Before anything changes, each package that will is kept
as it is (from the archive, or packed again from what is installed) in `KEPT`/RUN, for --back; those of former runs go then. It may be
killed and run again: what was interrupted is finished first, and a second one waits for the first. With --check nothing changes but the
lists of packages, which are fetched.

One JSON object on standard output says what was done, or would be. Exit: 0 done, 2 it could not be; standard error says why.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

#: One folder a run: `note.json`, and the packages as they were.
KEPT = Path("/var/lib/pinion/upgrades")
LOG = Path("/var/log/pinion-upgrade.log")
LOCK = Path("/run/lock/pinion-upgrade")
_RUN_NAME = re.compile(r"[0-9a-z][0-9a-z-]{0,63}")
#: apt-get(8): what --simulate says of a package that would come, with its old version in brackets and its sources behind the new one.
_COMES = re.compile(
    r"^Inst (?P<name>\S+) (?:\[(?P<before>[^\]]+)\] )?\((?P<after>\S+) (?P<sources>.*) \[(?P<machine>\S+)\]\)"
)
_GOES = re.compile(r"^Remv (?P<name>\S+)")
#: apt.conf(5): somebody else's run of apt or dpkg is waited for so long, in seconds.
_LOCK_SECONDS = 300
_QUIET = ("-q", "-y", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}")
#: dpkg(1): nobody is there to be asked; what stands in /etc is ours or a person's, and stays.
_KEEP_SETTINGS = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "NEEDRESTART_MODE": "l"}
#: Packs an installed package again.
_REPACK = "dpkg-repack"


class UpgradeError(Exception):
    """It could not be done; the text says why, and what helps."""


@dataclass(frozen=True)
class Package:
    """One package that comes: *before* is empty for one that is new here; *security*: one of its sources is a security archive."""

    name: str
    before: str
    after: str
    security: bool


@dataclass(frozen=True)
class Pending:
    """What an upgrade would bring, what stays back since something would have to go for it, and what may not become newer, with why."""

    packages: tuple[Package, ...]
    kept_back: tuple[str, ...]
    refused: Mapping[str, str]


def main(arguments: Sequence[str]) -> int:
    """The program; its exit code."""
    parser = argparse.ArgumentParser(prog="upgrade")
    parser.add_argument("request")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--back", action="store_true")
    stated = parser.parse_args(arguments)
    try:
        request = json.loads(stated.request)
        run = str(request.get("run", ""))
        newest = {str(k): None if v is None else str(v) for k, v in request.get("newest", {}).items()}
        with alone():
            if not _RUN_NAME.fullmatch(run):
                raise UpgradeError(f"{run!r} is not the name of a run")
            if stated.back:
                answer = check_back(run) if stated.check else back(run)
            else:
                one_way = bool(request.get("one_way"))
                answer = check(newest) if stated.check else upgrade(run, newest, one_way=one_way)
    except (UpgradeError, ValueError, AttributeError, OSError) as error:
        print(f"upgrade: {error}", file=sys.stderr)
        return 2
    print(json.dumps(answer))
    return 0


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other of these is at work."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def check(newest: Mapping[str, str | None]) -> dict[str, object]:
    """What an upgrade would bring."""
    refresh()
    return _answer(pending(newest))


def upgrade(run: str, newest: Mapping[str, str | None], *, one_way: bool) -> dict[str, object]:
    """Bring what is pending, with a way back under the name *run*. Raises `UpgradeError`."""
    finish_interrupted()
    refresh()
    found = pending(newest)
    if found.packages:
        no_way_back = keep(run, found.packages)
        if no_way_back and not one_way:
            raise UpgradeError(
                f"there would be no way back for {', '.join(no_way_back)}: the archives do not have the version that is "
                f"installed, nor {_REPACK}. Nothing was upgraded; --one-way goes on without"
            )
        with pins(found.refused) as options:
            _apt(*_KEEP_SETTINGS, *options, "--with-new-pkgs", "upgrade")
        return {**_answer(found), "one_way": no_way_back}
    return _answer(found)


def kept_runs() -> list[str]:
    """The runs that packages are kept of."""
    return sorted(path.parent.name for path in KEPT.glob("*/note.json"))


def check_back(run: str) -> dict[str, object]:
    """What `back` would do."""
    due, _, came, one_way = _way_back(run)
    return {"packages": [*due, *came], "one_way": one_way, "kept": kept_runs(), "stale": stale_programs()}


def back(run: str) -> dict[str, object]:
    """Bring the packages that *run* upgraded back to what they were, and take away those that were new. Raises `UpgradeError`."""
    finish_interrupted()
    due, files, came, one_way = _way_back(run)
    if due:
        automatic = json.loads((KEPT / run / "note.json").read_text())["automatic"]
        _apt(*_KEEP_SETTINGS, "--allow-downgrades", "install", *map(str, files))
        ours = sorted({entry["name"] for entry in due} & set(automatic))
        if ours:
            _must(["apt-mark", "-qq", "auto", *ours])
    names = [entry["name"] for entry in came]
    stays: list[str] = []
    if names and removed_with(names) - set(names):
        stays, came = names, []
    elif names:
        _apt("--no-auto-remove", "remove", *names)
    return {
        "packages": [*due, *came],
        "one_way": one_way,
        "stays": stays,
        "kept": kept_runs(),
        "stale": stale_programs(),
    }


def _way_back(run: str) -> tuple[list[dict[str, str]], list[Path], list[dict[str, str]], list[str]]:
    """What *run* changed and is not as it was: packages, the files to bring them from, packages that were new, and what was not kept."""
    note = KEPT / run / "note.json"
    if not note.is_file():
        return [], [], [], []
    said = json.loads(note.read_text())
    was = {entry["name"]: entry["before"] for entry in said["packages"]}
    now = installed(was)
    other = [name for name, version in was.items() if version and now.get(name) != version]
    due = [{"name": name, "before": now.get(name, ""), "after": was[name]} for name in other if name in said["files"]]
    came = [{"name": name, "before": now[name], "after": ""} for name in was if not was[name] and name in now]
    files = [KEPT / run / said["files"][entry["name"]] for entry in due]
    return due, files, came, [name for name in other if name not in said["files"]]


# --- what is pending --------------------------------------------------------------------------------------------------------


def refresh() -> None:
    """Fetch the lists of packages. Raises `UpgradeError` when an archive cannot be read: what it has would look up to date."""
    code, said = _run(["apt-get", *_QUIET, "-o", "APT::Update::Error-Mode=any", "update"])
    if code != 0:
        lines = said.splitlines()
        errors = [line for line in lines if line.startswith("E:")] or [
            line for line in lines if line.startswith("Err:")
        ]
        errors = list(dict.fromkeys(errors))
        raise UpgradeError("the lists of packages cannot be fetched: " + ("; ".join(errors[:3]) or said[-300:].strip()))


def pending(newest: Mapping[str, str | None]) -> Pending:
    """What `apt-get upgrade` would bring now, security fixes first; nothing that may not become newer."""
    refused = too_new(newest)
    with pins(refused) as options:
        packages = simulated(*options, "--with-new-pkgs", "upgrade")
        whole = simulated(*options, "dist-upgrade")
    coming = {package.name for package in packages}
    kept_back = tuple(sorted(package.name for package in whole if package.before and package.name not in coming))
    first = sorted(packages, key=lambda package: (not package.security, package.name))
    return Pending(tuple(first), kept_back, refused)


def simulated(*words: str) -> list[Package]:
    """What apt-get would bring for *words*. Raises `UpgradeError`."""
    return parsed(_must(["apt-get", "-q", "-s", "-o", "Debug::NoLocking=1", *words]))


def parsed(said: str) -> list[Package]:
    """The packages that a simulation names."""
    return [
        Package(
            name=match["name"],
            before=match["before"] or "",
            after=match["after"],
            # Debian-Security:13/stable-security, NVIDIA and Raspberry Pi have no security archive of their own
            security="security" in match["sources"].lower(),
        )
        for match in map(_COMES.match, said.splitlines())
        if match is not None
    ]


def removed_with(names: Iterable[str]) -> set[str]:
    """What would go when *names* are removed. Raises `UpgradeError`."""
    said = _must(["apt-get", "-q", "-s", "-o", "Debug::NoLocking=1", "--no-auto-remove", "remove", *names])
    return {match["name"] for match in map(_GOES.match, said.splitlines()) if match is not None}


def too_new(newest: Mapping[str, str | None]) -> dict[str, str]:
    """Those of *newest* whose next version is a minor version too far, with why. Where no limit is known, what is installed is it."""
    refused = {}
    for name, limit in newest.items():
        said = _must(["apt-cache", "policy", name])
        candidate = minor_version("Candidate", said)
        if limit is None:
            most, why = minor_version("Installed", said), "that is installed, and how new it may be is not known"
        else:
            most, why = (limit, tuple(map(int, limit.split(".")))), "that it may be"
        if candidate is not None and most is not None and candidate[1] > most[1]:
            refused[name] = f"{candidate[0]} is newer than the {most[0]} {why}"
    return refused


def minor_version(what: str, said: str) -> tuple[str, tuple[int, ...]] | None:
    """The version that apt-cache(8) *said* after *what*, and its first two numbers; None where there is none."""
    match = re.search(rf"^ *{what}: ((?:\d+:)?(\d+)\.(\d+)\S*)$", said, re.MULTILINE)
    return None if match is None else (match[1], (int(match[2]), int(match[3])))


@contextmanager
def pins(refused: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Options with which apt leaves *refused* as they are (apt_preferences(5): below 0 no version is installed)."""
    names = sorted(refused)
    if not names:
        yield ()
        return
    ours = LOCK.with_name("pinion-upgrade.pins")
    stated = Path("/etc/apt/preferences")
    before = stated.read_text() + "\n" if stated.is_file() else ""
    ours.write_text(before + f"Package: {' '.join(names)}\nPin: version *\nPin-Priority: -1\n")
    try:
        yield ("-o", f"Dir::Etc::preferences={ours}")
    finally:
        ours.unlink()


# --- the way back -----------------------------------------------------------------------------------------------------------


def keep(run: str, packages: Sequence[Package]) -> list[str]:
    """Keep *packages* as they are, with a note, in the folder of *run*; the names of those for which there is no way to."""
    place = KEPT / run
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = [package for package in packages if package.before]
    fetched(place, old)
    files = kept_files(place)
    missing = [package.name for package in old if package.name not in files]
    if missing and (
        shutil.which(_REPACK) or _run(["apt-get", *_QUIET, "--no-install-recommends", "install", _REPACK])[0] == 0
    ):
        for name in missing:
            _run([_REPACK, name], place)
        files = kept_files(place)
    automatic = _must(["apt-mark", "showauto", *(package.name for package in old)]).split() if old else []
    note = {"packages": [asdict(package) for package in packages], "files": files, "automatic": automatic}
    write(place / "note.json", json.dumps(note, indent=1))
    for other in KEPT.iterdir():
        if other.name != run:
            shutil.rmtree(other)
    return [package.name for package in old if package.name not in files]


def fetched(place: Path, old: Sequence[Package]) -> None:
    """Have in *place* those packages in their *old* version that an archive still has."""
    wanted = [f"{package.name}={package.before}" for package in old]
    _, said = _run(["apt-cache", "show", "--no-all-versions", *wanted]) if wanted else (0, "")
    there = []
    for stanza in re.split(r"\n\n+", said):
        fields = dict(re.findall(r"^(Package|Version|Filename): (.*)$", stanza, re.MULTILINE))
        if "Filename" in fields:
            there.append(f"{fields['Package']}={fields['Version']}")
    there = [name for name in dict.fromkeys(there) if name in wanted]
    if there:
        _run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *there], place)


def kept_files(place: Path) -> dict[str, str]:
    """The packages that lie in *place*, each with the name of its file."""
    return {_must(["dpkg-deb", "-f", str(path), "Package"]).strip(): path.name for path in sorted(place.glob("*.deb"))}


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of those of *names* that are installed."""
    _, said = _run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n", *names])
    rows = (line.split() for line in said.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


def finish_interrupted() -> None:
    """Have dpkg finish what was cut off. Raises `UpgradeError`."""
    if _must(["dpkg", "--audit"]).strip() or any(Path("/var/lib/dpkg/updates").glob("[0-9]*")):
        _must(["dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"])
        _apt(*_KEEP_SETTINGS, "--fix-broken", "install")


def stale_programs(processes: Path = Path("/proc")) -> list[str]:
    """The programs that still run with a file that an upgrade has replaced."""
    found = set()
    for maps in processes.glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
            name = (maps.parent / "comm").read_text(errors="replace").strip()
        except OSError:
            continue  # it has ended, or is the kernel's
        # mapped as a program's text: permissions r-x, below /usr
        if any(line.endswith(" (deleted)") and " /usr/" in line and line.split()[1][2] == "x" for line in lines):
            found.add(name)
    return sorted(found)


# --- doing ------------------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    """Have *text* in *path*, on the medium, or the old file."""
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _answer(found: Pending) -> dict[str, object]:
    return {
        "packages": [asdict(package) for package in found.packages],
        "kept_back": list(found.kept_back),
        "refused": dict(found.refused),
        "stale": stale_programs(),
    }


def _apt(*words: str) -> None:
    _must(["apt-get", *_QUIET, *words])


def _must(argv: Sequence[str]) -> str:
    code, said = _run(argv)
    if code != 0:
        lines = [line for line in said.splitlines() if line.startswith(("E:", "dpkg: error", " "))] or said.splitlines()
        raise UpgradeError(
            f"{' '.join(argv[:1])} failed: {'; '.join(line.strip() for line in lines[-4:])}; all of it is in {LOG}"
        )
    return said


def _run(argv: Sequence[str], folder: Path | None = None) -> tuple[int, str]:
    """Run *argv*; its exit code, and what it said. A lost login ends neither it nor us: its output is a file's."""
    with LOG.open("a+", encoding="utf-8", errors="replace") as log:
        start = log.seek(0, os.SEEK_END)
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,
            check=False,
        )
        log.seek(start)
        return done.returncode, log.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
