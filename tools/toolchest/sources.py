"""The ways to a tool, one function each. All raise `UnavailableError` when their way is closed here."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from toolchest import suite
from toolchest.cache import Cache
from toolchest.download import Downloads, extract_members
from toolchest.golang import Go
from toolchest.process import UnavailableError, run
from toolchest.recipes import Tool

PROBE_SECONDS = 60.0


def on_path(tool: Tool, cache: Cache) -> dict[str, Path]:
    """Return the tool's programs on PATH, outside our own cache, if all are there and the version is right."""
    folders = [
        folder
        for folder in os.environ.get("PATH", "").split(os.pathsep)
        if folder and not _inside(Path(folder), cache.root)
    ]
    found: dict[str, Path] = {}
    for program in tool.programs:
        where = shutil.which(program, path=os.pathsep.join(folders))
        if not where or _inside(Path(where), cache.root):
            raise UnavailableError(f"{program} is not on PATH")
        found[program] = Path(where).absolute()
    check_version(tool, found[tool.probe[0]])
    return found


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def check_version(tool: Tool, program: Path) -> str:
    """Run the probe with this program and return its first line.

    Raises:
        UnavailableError: it does not start, or says another version than the recipe accepts.
    """
    answer = run(
        [str(program), *tool.probe[1:]], f"{program} {' '.join(tool.probe[1:])}", seconds=PROBE_SECONDS
    ).strip()
    if not re.search(tool.accept, answer):
        raise UnavailableError(
            f"{program} answers {answer.splitlines()[0] if answer else 'nothing'}, wanted is /{tool.accept}/"
        )
    return answer.splitlines()[0]


def from_archive(tool: Tool, downloads: Downloads, target: Path) -> str:
    """Fill `target` from the vendor's release file; returns where it came from."""
    if tool.archive is None:
        raise UnavailableError("no release file with a checksum is recorded")
    extract_members(downloads.fetch(tool.archive, tool.version), tool.archive.members, target)
    return tool.archive.url.partition("://")[2].split("/")[0] or "file"


def from_debian(tool: Tool, cache: Cache, target: Path) -> str:
    """Fill `target` with files out of Debian packages, checked by apt, not installed; returns packages and versions."""
    if tool.debian is None:
        raise UnavailableError("no Debian package is recorded")
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError("this is no Debian: no apt-get")
    download = ["apt-get", "-o", "APT::Sandbox::User=root", "--quiet", "download", *tool.debian.packages]
    with tempfile.TemporaryDirectory(prefix="debian-", dir=target.parent) as name:
        folder = Path(name)
        try:
            run(download, "apt-get download", folder=folder, seconds=600)
        except UnavailableError:
            with cache.lock("apt-update", wait=True):
                run(["apt-get", "--quiet", "update"], "apt-get update", seconds=600)
            run(download, "apt-get download", folder=folder, seconds=600)
        packages = sorted(folder.glob("*.deb"))
        for package in packages:
            run(["dpkg-deb", "-x", str(package), str(folder / "root")], f"unpacking {package.name}", seconds=300)
        for file in tool.debian.files:
            try:
                shutil.copyfile(folder / "root" / file, target / Path(file).name)
            except OSError as error:
                raise UnavailableError(f"{', '.join(tool.debian.packages)} lack {file}: {error}") from error
        return ", ".join(package.name.removesuffix(".deb").replace("%3a", ":") for package in packages)


def from_suite(tool: Tool, target: Path) -> str:
    """Fill `target` with programs of another release of Debian, its loader and libraries beside them; returns the packages' versions.

    Nothing of this machine's apt changes: lists and packages go to a folder that is deleted again. Apt checks signatures as always.
    """
    if tool.suite is None:
        raise UnavailableError("no other release of Debian is recorded")
    return suite.obtain(tool.name, tool.suite, target)


def from_go(tool: Tool, go: Go, target: Path) -> str:
    """Fill `target` by building; returns which Go did it."""
    if not tool.go:
        raise UnavailableError("no Go module is recorded")
    for build in tool.go:
        go.build(build, tool.version, target)
    for part in tool.copies:
        go.copy(part, target)
    return run([go.command(), "env", "GOVERSION"], "go env", environment=go.environment(), seconds=60).strip()
