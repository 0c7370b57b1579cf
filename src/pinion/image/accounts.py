"""The accounts of an image that somebody else made: its first user becomes ours, and nobody has a password. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinion.image.errors import ImageError
from pinion.image.recipe import USER, USER_ID

#: passwd(5), shadow(5), group(5), gshadow(5), subuid(5), subgid(5); the last three need not be there.
PASSWD, SHADOW, GROUP, GSHADOW = "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow"
SUBORDINATE = ("/etc/subuid", "/etc/subgid")
FILES = (PASSWD, SHADOW, GROUP, GSHADOW, *SUBORDINATE)
#: shadow(5): matches no password; a login by key is not held up by it.
_LOCKED = "!"


@dataclass(frozen=True, slots=True)
class Accounts:
    """The files as they shall be, and the *home* that the user had so far; None where the user is new."""

    texts: dict[str, str]
    home: str | None


def with_our_user(texts: Mapping[str, str]) -> Accounts:
    """*texts* with our user: the account with its number renamed, its groups kept, or a new one. Raises `ImageError`."""
    rows = {path: [line.split(":") for line in text.splitlines() if line] for path, text in texts.items()}
    if missing := [path for path in (PASSWD, SHADOW, GROUP) if path not in rows]:
        raise ImageError(f"archive: its root has no {', '.join(missing)}")
    found = next((row for row in rows[PASSWD] if row[2] == str(USER_ID)), None)
    if any(row[0] == USER and row is not found for row in rows[PASSWD]):
        raise ImageError(f"archive: its user {USER} has not the number {USER_ID}")
    home = found[5] if found is not None else None
    if found is not None:
        _rename(rows, found[0])
    else:
        _add(rows)
    for row in rows[SHADOW]:
        if row[1][:1] not in {"*", "!"}:
            row[1] = _LOCKED
    return Accounts({path: "".join(f"{':'.join(row)}\n" for row in kept) for path, kept in rows.items()}, home)


def _rename(rows: dict[str, list[list[str]]], old: str) -> None:
    for row in rows[PASSWD]:
        if row[0] == old:
            row[0], row[5], row[6] = USER, f"/home/{USER}", "/bin/bash"
    for path in (SHADOW, *SUBORDINATE):
        for row in rows.get(path, []):
            row[0] = USER if row[0] == old else row[0]
    for path in (GROUP, GSHADOW):
        for row in rows.get(path, []):
            row[0] = USER if row[0] == old else row[0]
            row[3] = ",".join(USER if name == old else name for name in row[3].split(","))


def _add(rows: dict[str, list[list[str]]]) -> None:
    if any(row[2] == str(USER_ID) for row in rows[GROUP]):
        raise ImageError(f"archive: a group has the number {USER_ID} and no user has it")
    rows[PASSWD].append([USER, "x", str(USER_ID), str(USER_ID), "", f"/home/{USER}", "/bin/bash"])
    rows[SHADOW].append([USER, _LOCKED, "1", "0", "99999", "7", "", "", ""])
    rows[GROUP].append([USER, "x", str(USER_ID), ""])
    if GSHADOW in rows:
        rows[GSHADOW].append([USER, "!", "", ""])
