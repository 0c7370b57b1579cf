"""What one instance of NetBox is configured with: its secrets, its files, its database. The same for the lab's machine and for
a stand-alone NetBox.

Invariants:

* Secrets are made once per instance and stay in 0600 files; a second call reads them back.
* Files go through a `Writer`, which writes them whole (rename), so a killed start leaves old or new, never half.
* The database folder is complete or absent: it is unpacked beside its place and renamed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import string
import subprocess
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from pinion.drivers.netbox.kinds import permissions

#: NetBox's own lengths and alphabet for v2 tokens (users/constants.py of 4.7): key 12, secret 40.
_TOKEN_KEY, _TOKEN_SECRET = 12, 40
_ALPHABET = string.ascii_letters + string.digits

_RESOURCES = files("pinion.lab.netbox") / "files"

#: Path in the machine of what must outlive the machine's own disk: the database.
DATA = "/srv/netbox"
#: The units that serve NetBox, and the distribution's own that must not run beside them.
UNITS = ("netbox-postgresql.service", "netbox-redis.service", "netbox.service", "nginx.service")
MASKS = ("postgresql.service", "redis-server.service")


class Writer(Protocol):
    """Writes a file into the machine's root: atomically, and never through a symbolic link out of it."""

    def write(self, path: str, content: str | bytes, mode: int = 0o644, owner: int = 0, group: int = 0) -> object:
        """Write *content* to *path* (absolute, in the machine)."""


@dataclass(frozen=True, slots=True, repr=False)
class NetBoxSecrets:
    """The secrets of one NetBox. *token* is a whole v2 token, ready for the Authorization header."""

    secret_key: str
    api_token_pepper: str
    admin_password: str
    token: str

    @classmethod
    def generate(cls) -> NetBoxSecrets:
        """New random secrets."""
        return cls(
            secret_key=secrets.token_urlsafe(60),
            api_token_pepper=secrets.token_urlsafe(60),
            admin_password=_word(20),
            token=f"nbt_{_word(_TOKEN_KEY)}.{_word(_TOKEN_SECRET)}",
        )

    @classmethod
    def at(cls, folder: Path) -> NetBoxSecrets:
        """The secrets kept in *folder* (0700): made at the first call. Also leaves `token` and `admin-password` for other programs."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder / "netbox.json"
        if kept.exists():
            found = cls(**json.loads(kept.read_text()))
        else:
            found = cls.generate()
            _write_private(kept, json.dumps(asdict(found)))
        for name, text in (("netbox-token", found.token), ("netbox-admin-password", found.admin_password)):
            target = folder / name
            if not target.exists() or target.read_text() != text + "\n":
                _write_private(target, text + "\n")
        return found

    def with_token(self, token: str) -> NetBoxSecrets:
        """The same with another token."""
        return replace(self, token=token)


def _word(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _write_private(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    part.replace(path)


def account(root: Path, name: str) -> tuple[int, int]:
    """User and group number of *name* in the passwd file under *root*. `KeyError` when it is not there."""
    for line in (root / "etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3])
    raise KeyError(name)


def resource(name: str) -> str:
    """Text of a file that this package ships."""
    return (_RESOURCES / name).read_text()


def write_configuration(writer: Writer, root: Path, kept: NetBoxSecrets) -> None:
    """Write NetBox's, gunicorn's and PostgreSQL's configuration for a machine whose root is *root*."""
    user, group = account(root, "netbox")
    document = {**asdict(kept), "permissions": permissions()}
    writer.write("/etc/netbox/secrets.json", json.dumps(document), 0o600, user, group)
    writer.write("/etc/netbox/postgresql.conf", resource("postgresql.conf"))
    for name in ("gunicorn.py", "accounts.py"):
        writer.write(f"/opt/netbox/root/{name}", resource(name))
    writer.write("/opt/netbox/root/conf/configuration.py", resource("configuration.py"))


def unpack_database(archive: Path, folder: Path) -> bool:
    """Put the migrated empty database of *archive* into *folder*/postgresql unless one is there. Returns whether it did."""
    target = folder / "postgresql"
    if target.exists():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".unpack-{os.getpid()}"
    shutil.rmtree(part, ignore_errors=True)
    for stale in folder.glob(".unpack-*"):
        shutil.rmtree(stale, ignore_errors=True)
    part.mkdir()
    subprocess.run(
        ["tar", "--extract", "--numeric-owner", "--same-owner", f"--file={archive}", f"--directory={part}"],
        check=True,
        capture_output=True,
    )
    (part / "postgresql").rename(target)
    part.rmdir()
    return True
