"""Under which provisioner of step-ca a host gets its certificate, and how that one is taken from whoever holds a copy.

step-ca of 0.30 asks neither its policy nor a webhook when a certificate is renewed (authority/tls.go, renewContext): it looks whether the
serial number is revoked and whether the provisioner that issued the certificate is still there. A serial number is what a thief changes by
each renewal, so each host has a provisioner of its own. One that is not in step-ca's configuration any more renews nothing.

Invariants: `retire` takes effect here at once and at the authority with its next configuration; a name that was used once and retired is
never used again, for each new one is random; the file is replaced by rename, so a kill leaves the old or the new.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pinion.drivers.identity.authority import PROVISIONER, Authority, write
from pinion.drivers.identity.place import AuthorityError

_FILE = "issuers.json"


@dataclass(slots=True)
class _Marks:
    """What is put behind a host's name: *every* for all hosts without an own entry in *one*; empty as long as nothing was retired."""

    every: str = ""
    one: dict[str, str] = field(default_factory=dict)


def issuer(authority: Authority, host: str) -> str:
    """The provisioner for the certificate of *host* (its subject); the operator's own for none. Raises `AuthorityError`."""
    if not host:
        return PROVISIONER
    marks = _read(_file(authority))
    mark = marks.one.get(host, marks.every)
    return f"{host}#{mark}" if mark else host


def provisioners(authority: Authority, hosts: Sequence[str]) -> list[dict[str, object]]:
    """step-ca's provisioners: the operator's, which revokes and renews nothing, and one for each of *hosts*. Raises `AuthorityError`."""
    key = authority.provisioner
    own: dict[str, object] = {"type": "JWK", "name": PROVISIONER, "key": key, "claims": {"disableRenewal": True}}
    theirs: list[dict[str, object]] = [{"type": "JWK", "name": issuer(authority, host), "key": key} for host in hosts]
    return [own, *theirs]


def as_json(authority: Authority, hosts: Sequence[str]) -> str:
    """`provisioners` as a JSON list, one a line."""
    return "[\n   " + ",\n   ".join(json.dumps(entry) for entry in provisioners(authority, hosts)) + "\n  ]"


def retire(authority: Authority, host: str) -> str:
    """Have *host* enrolled under a name that nobody had before; that name. Each call makes another. Raises `AuthorityError`, `OSError`."""
    _ = authority.fingerprint  # no folder, no authority
    with authority.locked():
        marks = _read(_file(authority))
        marks.one[host] = _another()
        _keep(authority, marks)
    return issuer(authority, host)


def forgotten() -> dict[str, bytes]:
    """The file, by its name, of an authority that does not know any more who was retired: each host that there is or was, is."""
    return {_FILE: _text(_Marks(every=_another()))}


def _another() -> str:
    return secrets.token_hex(4)


def _file(authority: Authority) -> Path:
    return authority.folder / _FILE


def _read(path: Path) -> _Marks:
    try:
        found = json.loads(path.read_text())
        return _Marks(str(found["every"]), {str(host): str(mark) for host, mark in found["one"].items()})
    except FileNotFoundError:
        return _Marks()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # To take it for empty would give a thief his provisioner back.
        raise AuthorityError(
            f"{path}: not what Pinion wrote ({error}); put it back from a backup (pinion identity restore), or, to have every host enrol "
            f'anew, write into it: {{"every": "{_another()}", "one": {{}}}}'
        ) from error


def _keep(authority: Authority, marks: _Marks) -> None:
    write(_file(authority), _text(marks), 0o600)


def _text(marks: _Marks) -> bytes:
    return (json.dumps({"every": marks.every, "one": marks.one}, indent=1) + "\n").encode()
