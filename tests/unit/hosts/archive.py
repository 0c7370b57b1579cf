"""A small signed archive of packages on loopback, and the machine's own apt with folders of a test's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from unit.services.artefact_server import Artefacts, serving

needs_apt = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "gpg", "dpkg"))), reason="apt-get, gpg and dpkg make and read the archive"
)
#: The one package that it has.
PACKAGE = "pinion-of-the-archive"


@dataclass(frozen=True)
class Archive:
    """The archive: *key* is what it is signed with."""

    server: Artefacts
    key: str
    keys: Path

    def publish(self, suite: str, made: datetime, until: datetime | None = None) -> None:
        """Have *suite*, as if it had been made at *made*, and good until *until*."""
        machine = subprocess.run(
            ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
        ).stdout.strip()
        packages = f"Package: {PACKAGE}\nVersion: 1\nArchitecture: all\nFilename: p.deb\nSize: 1\nSHA256: {'0' * 64}\n\n".encode()
        name = f"main/binary-{machine}/Packages"
        lines = [
            f"Suite: {suite}",
            f"Codename: {suite}",
            f"Date: {_written(made)}",
            f"Architectures: {machine}",
            "Components: main",
        ]
        lines += [f"Valid-Until: {_written(until)}"] if until is not None else []
        lines += ["SHA256:", f" {hashlib.sha256(packages).hexdigest()} {len(packages)} {name}", ""]
        signed = _gpg(self.keys, "--clearsign", given="\n".join(lines))
        self.server.files |= {f"/debian/dists/{suite}/InRelease": signed, f"/debian/dists/{suite}/{name}": packages}

    @property
    def uri(self) -> str:
        return f"{self.server.address}/debian"


def _written(moment: datetime) -> str:
    return f"{moment:%a, %d %b %Y %H:%M:%S} UTC"


def _gpg(keys: Path, *arguments: str, given: str = "") -> bytes:
    argv = [
        "gpg",
        "--homedir",
        str(keys),
        "--batch",
        "--quiet",
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        *arguments,
    ]
    return subprocess.run(argv, input=given.encode(), capture_output=True, check=True).stdout


@contextmanager
def archive(folder: Path) -> Iterator[Archive]:
    """The archive with a suite ``good``, its keys in *folder*."""
    folder.mkdir(mode=0o700)
    _gpg(folder, "--quick-gen-key", "archive", "ed25519", "sign", "never")
    try:
        with serving() as server:
            found = Archive(server, _gpg(folder, "--armor", "--export").decode(), folder)
            found.publish("good", datetime.now(UTC) - timedelta(hours=1))
            yield found
    finally:
        subprocess.run(["gpgconf", "--homedir", str(folder), "--kill", "gpg-agent"], capture_output=True, check=False)


def apt_folders(root: Path) -> dict[str, str]:
    """The environment in which apt has *root*/etc/apt and nothing of this machine's."""
    for name in (
        "etc/apt/apt.conf.d",
        "etc/apt/preferences.d",
        "etc/apt/sources.list.d",
        "lists/partial",
        "cache/archives/partial",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "status").touch()
    lines = [
        f'Dir "{root}/";',
        'Dir::Etc "etc/apt";',
        f'Dir::State "{root}";',
        f'Dir::State::status "{root}/status";',
        f'Dir::Cache "{root}/cache";',
        'Dir::Log "";',
        'Acquire::Languages "none";',
        'Acquire::Retries "0";',
        'APT::Sandbox::User "root";',
    ]
    (root / "apt.conf").write_text("\n".join(lines) + "\n")
    return os.environ | {"APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C.UTF-8"}
