"""Who may log in: a JSON file that only its owner can read, with hashed passwords. No password is ever kept or logged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

#: scrypt parameters: 16 MiB and a few tens of milliseconds a try (RFC 7914).
_COST, _BLOCK, _PARALLEL, _OCTETS = 2**14, 8, 1, 32


def hashed(password: str) -> str:
    """*password* as ``scrypt$cost$block$parallel$salt$hash``, with a fresh salt."""
    salt = os.urandom(16)
    digest = _digest(password, salt, _COST, _BLOCK, _PARALLEL)
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${_text(salt)}${_text(digest)}"


def matches(password: str, known: str) -> bool:
    """True when *known*, made by `hashed`, is of *password*. Takes the same time either way."""
    try:
        kind, cost, block, parallel, salt, digest = known.split("$")
        expected = base64.b64decode(digest, validate=True)
        found = _digest(password, base64.b64decode(salt, validate=True), int(cost), int(block), int(parallel))
    except ValueError:
        return False
    return kind == "scrypt" and hmac.compare_digest(found, expected)


def _digest(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=parallel, dklen=_OCTETS, maxmem=256 * cost * block
    )


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


#: What an unknown user is checked against, so that the answer takes as long as for a known one.
_NOBODY = hashed(os.urandom(16).hex())


@dataclass(frozen=True)
class Users:
    """The users by name with their hashes, and the hash of the enable password, None when there is none."""

    passwords: dict[str, str]
    enable: str | None = None

    @classmethod
    def read(cls, path: Path) -> Users:
        """The users in the JSON file *path*: ``{"users": {NAME: HASH}, "enable": HASH}``. `ValueError` when others can read it."""
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise ValueError(f"{path}: mode {mode:04o} lets others read it; set 0600")
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(dict(found["users"]), found.get("enable"))

    def admits(self, name: str, password: str) -> bool:
        """True when *name* may log in with *password*."""
        right = matches(password, self.passwords.get(name, _NOBODY))
        return right and name in self.passwords

    def may_enable(self, password: str | None) -> bool:
        """True when *password* opens privileged mode; None asks whether none is needed."""
        return self.enable is None or (password is not None and matches(password, self.enable))


def document(passwords: dict[str, str], enable: str | None = None) -> str:
    """The text of a users file for plain *passwords* by user name."""
    content = {
        "users": {name: hashed(password) for name, password in passwords.items()},
        "enable": None if enable is None else hashed(enable),
    }
    return json.dumps(content, indent=2) + "\n"
