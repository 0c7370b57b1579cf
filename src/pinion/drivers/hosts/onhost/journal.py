"""What a concern placed on a host and what was there before: written before each step, so that any run can be finished or taken back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

#: Raised when the meaning of the JSON changes. A journal of a later format is refused, never guessed at.
FORMAT = 2


@dataclass(slots=True)
class Original:
    """A file that was replaced: its content and metadata, all None when there was no file.

    *notify* and *restart* are the units that read it, *run* the commands that make a change of it count; *confirm* tells whether a change
    of it could lock us out, *needs_reboot* whether only a boot reads it. The content of a *secret* file is not here: *kept* is its name
    in the vault.
    """

    content: str | None
    owner: str | None
    group: str | None
    mode: int | None
    notify: list[str]
    confirm: bool
    restart: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)
    needs_reboot: bool = False
    secret: bool = False
    kept: str | None = None


@dataclass(slots=True)
class Journal:
    """*packages* and *users* are those that the concern brought; *files*, *sysctls* and *units* map to what was there before.

    *directories* map to owner, group and mode before, None for one that was made. *arguments* map the file of the kernel command line and
    an argument in it to those that gave way to it. *reload* and *restart* are units that must still read a changed file, *run* commands
    that must still make a change count.
    """

    packages: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    directories: dict[str, tuple[str, str, int] | None] = field(default_factory=dict)
    files: dict[str, Original] = field(default_factory=dict)
    arguments: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    units: dict[str, tuple[bool, bool, bool]] = field(default_factory=dict)
    run: list[str] = field(default_factory=list)
    restart: list[str] = field(default_factory=list)
    reload: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def to_json(self) -> str:
        """The journal as JSON in a fixed order, ASCII only (bytes that are no UTF-8 stay escaped surrogates)."""
        kept = asdict(self) | {name: sorted(getattr(self, name)) for name in ("packages", "users", "restart", "reload")}
        for original in kept["files"].values():
            if original["kept"] is not None:
                original["content"] = None
        return json.dumps({"format": FORMAT, **kept}, indent=1, sort_keys=True)


def from_json(text: str) -> Journal:
    """The journal that *text* states. Raises `ValueError` for anything else than a journal of this format or the one before."""
    data: dict[str, Any] = json.loads(text)
    if data.get("format") == 1:
        files = {path: Original(*entry) for path, entry in data["files"].items()}
    elif data.get("format") == FORMAT:
        files = {path: Original(**entry) for path, entry in data["files"].items()}
    else:
        raise ValueError(f"format {data.get('format')!r}, this program knows {FORMAT}")
    directories = data.get("directories", {}).items()
    return Journal(
        packages=list(data["packages"]),
        users=list(data["users"]),
        directories={
            path: None if before is None else (before[0], before[1], before[2]) for path, before in directories
        },
        files=files,
        arguments={path: dict(given) for path, given in data.get("arguments", {}).items()},
        sysctls=dict(data["sysctls"]),
        units={name: (state[0], state[1], len(state) > 2 and state[2]) for name, state in data["units"].items()},
        run=list(data.get("run", ())),
        restart=list(data.get("restart", ())),
        reload=list(data["reload"]),
    )
