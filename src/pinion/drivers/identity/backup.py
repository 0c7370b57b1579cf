"""A backup of a site's authority: one file with the operator's folder and step-ca's database, which only its passphrase opens.

Invariants: the file is sealed and 0600, whole or not there, and never in a git work tree; what is read from it is what was written;
`put_back` may be killed anywhere and called again.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pinion.drivers.identity.authority import Authority, write
from pinion.drivers.identity.issuers import forgotten
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.sealing import seal, unseal

_INDEX, _DATABASE, _FOLDER = "index.json", "database.tar.gz", "authority/"
#: The last to be written: a folder without it is begun anew.
_LAST = "root.crt"


@dataclass(frozen=True, slots=True)
class Backup:
    """What is kept: of *site* the operator's *files* by name, and step-ca's *database* (a gzipped tar), as they were *at* that time."""

    site: str
    at: datetime
    files: dict[str, bytes] = field(repr=False)
    database: bytes = field(repr=False)


def collect(authority: Authority, site: str, database: bytes, at: datetime) -> Backup:
    """The backup of *authority* with step-ca's *database*. Raises `AuthorityError`, `OSError`."""
    _ = authority.fingerprint  # no folder, no authority
    with authority.locked():
        found = {path.name: path.read_bytes() for path in authority.folder.iterdir() if not path.name.startswith(".")}
    return Backup(site, at, found, database)


def keep(backup: Backup, path: Path, passphrase: bytes) -> None:
    """Write *backup* to *path*, sealed with *passphrase*. Raises `AuthorityError` for a place in a git work tree, `OSError`."""
    if tree := next((folder for folder in path.resolve().parents if (folder / ".git").exists()), None):
        raise AuthorityError(
            f"{path} is in the git work tree {tree}, and the backup has the authority's keys: name a file elsewhere"
        )
    members = {_FOLDER + name: content for name, content in sorted(backup.files.items())} | {_DATABASE: backup.database}
    index = {"site": backup.site, "at": backup.at.isoformat(timespec="seconds")}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in {_INDEX: json.dumps(index, indent=1).encode(), **members}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    write(path, seal(packed.getvalue(), passphrase), 0o600)


def read(path: Path, site: str, passphrase: bytes) -> Backup:
    """The backup of *site* in *path*, which *passphrase* opens. Raises `AuthorityError`."""
    try:
        packed = unseal(path.read_bytes(), passphrase)
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
            members = {member.name: found.read() for member in archive if (found := archive.extractfile(member))}
        index = json.loads(members.pop(_INDEX))
        files = {name.removeprefix(_FOLDER): text for name, text in members.items() if name.startswith(_FOLDER)}
        if any("/" in name for name in files) or _LAST not in files:
            raise ValueError("no folder of an authority")
        found_site, at, database = str(index["site"]), datetime.fromisoformat(index["at"]), members[_DATABASE]
    except OSError as error:
        raise AuthorityError(f"{path}: {error.strerror or error}") from error
    except AuthorityError as error:
        raise AuthorityError(f"{path} cannot be opened: {error}") from error
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise AuthorityError(f"{path} is no backup of an authority ({error})") from error
    if found_site != site:
        raise AuthorityError(f"{path} is a backup of the site {found_site}, and not of {site}")
    return Backup(found_site, at, files, database)


def put_back(authority: Authority, backup: Backup) -> bool:
    """Have the operator's folder; whether it was not there. What is there is kept, for it knows more than the backup.

    One that was put back has forgotten who left since, so each host is enrolled anew (`issuers.forgotten`). Raises `AuthorityError` for
    another authority's folder, `OSError`.
    """
    if (authority.folder / _LAST).exists():
        if (authority.folder / _LAST).read_bytes() != backup.files[_LAST]:
            raise AuthorityError(
                f"{authority.folder} is another authority than the backup's: move it away first, if it is to go"
            )
        return False
    authority.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority.folder.chmod(0o700)
    with authority.locked():
        for name, content in forgotten().items():
            write(authority.folder / name, content, 0o600)
        for name in sorted(set(backup.files) - set(forgotten()), key=lambda name: (name == _LAST, name)):
            write(authority.folder / name, backup.files[name], 0o600 if name.endswith(".key") else 0o644)
    return True
