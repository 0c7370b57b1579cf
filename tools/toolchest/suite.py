"""Programs of another release of Debian, on a machine that lacks its libraries: they bring them, and the loader, along.

    bin/<program>                 a launcher
    lib/<tool>/<program>          the program, its libraries, and the loader that finds them there

The loader lies beside the libraries because programs that look for plug-ins look where their own file is, and that is the loader.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from toolchest.process import UnavailableError, run
from toolchest.recipes import SuitePrograms

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SECONDS = 900.0
_LAUNCHER = """#!/bin/sh
# The loader and the libraries of the Debian release that the program was built for.
here=$(dirname "$(readlink -f "$0")")/../lib/{tool}
exec "$here/{loader}" --library-path "$here" "$here/{program}" "$@"
"""


def obtain(tool: str, wanted: SuitePrograms, target: Path) -> str:
    """Fill `target` (the staged `bin`, and `lib` beside it) for `tool`; returns the packages with their versions.

    Raises:
        UnavailableError: no apt, no Debian mirror in its configuration, or the suite lacks a package or a file.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UnavailableError("this is no Debian: no apt-get")
    with tempfile.TemporaryDirectory(prefix="suite-", dir=target.parent) as name:
        folder = Path(name)
        packages = _download(folder, wanted)
        root = folder / "root"
        for package in packages:
            run(["dpkg-deb", "-x", str(package), str(root)], f"unpacking {package.name}", seconds=300)
        _place(tool, wanted, root, target)
        versions = (package.name.removesuffix(".deb").replace("%3a", ":") for package in packages)
        return f"{wanted.suite}: {', '.join(versions)}"


def _mirror() -> str:
    """The Debian mirror that this machine's apt is configured with."""
    listed = run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(CODENAME)", "Created-By: Packages"],
        "apt-get indextargets",
        seconds=60,
    )
    for line in listed.splitlines():
        origin, _, rest = line.partition(" ")
        uri, _, release = rest.partition(" ")
        if origin == "Debian" and "-" not in release:
            return uri
    raise UnavailableError("apt knows no Debian mirror (apt-get indextargets); run apt-get update")


def _download(folder: Path, wanted: SuitePrograms) -> list[Path]:
    """All packages of `wanted` and what they depend on, in `folder`; the machine's own apt state is not touched."""
    for part in ("lists/partial", "archives/partial"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "suite.sources").write_text(
        f"Types: deb\nURIs: {_mirror()}\nSuites: {wanted.suite}\nComponents: main\nSigned-By: {_KEYRING}\n"
    )
    settings = {
        "Dir::Etc::sourcelist": folder / "suite.sources",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::status": folder / "status",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        # A mirror that is a snapshot has old lists; their signature still counts.
        "Acquire::Check-Valid-Until": "false",
    }
    apt = ["apt-get", "--quiet", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    run([*apt, "update"], f"apt-get update of {wanted.suite}", seconds=_SECONDS)
    install = ["install", "--yes", "--download-only", "--no-install-recommends", *wanted.packages]
    run([*apt, *install], f"apt-get install of {wanted.suite}", seconds=_SECONDS)
    return sorted((folder / "archives").glob("*.deb"))


def _place(tool: str, wanted: SuitePrograms, root: Path, target: Path) -> None:
    """Programs, what they load and the loader into `lib/<tool>`, a launcher each into `bin`."""
    home = target.parent / "lib" / tool
    home.mkdir(parents=True)
    loader = next(iter(sorted(root.glob("usr/lib/*/ld-linux*.so.*"))), None)
    if loader is None:
        raise UnavailableError(f"{wanted.suite} has no loader where it was expected (usr/lib/*/ld-linux*)")
    # A package's private libraries lie in folders that its programs know by their run path; here everything lies in one.
    folders = {loader.parent, *(path.parent for path in loader.parent.glob("*/*.so*"))}
    search = ":".join(str(folder) for folder in sorted(folders))
    shutil.copyfile(loader, home / loader.name)
    (home / loader.name).chmod(0o755)
    plugins = [path for pattern in wanted.loaded for path in sorted(root.glob(pattern))]
    for file in (*(root / name for name in wanted.files), *plugins):
        if not file.is_file():
            raise UnavailableError(f"{', '.join(wanted.packages)} of {wanted.suite} lack {file.relative_to(root)}")
        shutil.copyfile(file, home / file.name)
        for library in _libraries(loader, search, file):
            shutil.copyfile(library, home / library.name)
    for name in wanted.files:
        program = Path(name).name
        (home / program).chmod(0o755)
        (target / program).write_text(_LAUNCHER.format(tool=tool, loader=loader.name, program=program))
        (target / program).chmod(0o755)


def _libraries(loader: Path, search: str, program: Path) -> list[Path]:
    """What *program* is linked with, as the loader itself finds it in *search*."""
    listed = run([str(loader), "--library-path", search, "--list", str(program)], f"listing {program.name}", seconds=60)
    found = []
    for line in listed.splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and "ld-linux" not in match[1]:
            found.append(Path(match[2]).with_name(Path(match[1]).name))
    return found
