"""What a concern placed on a host and what was there before: written before each step, so that any run can be finished or taken back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

#: Raised when the meaning of the JSON changes. A journal of another format is refused, never guessed at.
FORMAT = 1


@dataclass(slots=True)
class Original:
    """A file that was replaced: its content and metadata, all None when there was no file.

    *notify* are the units that read it; *confirm* tells whether a change of it could lock us out.
    """

    content: str | None
    owner: str | None
    group: str | None
    mode: int | None
    notify: list[str]
    confirm: bool


@dataclass(slots=True)
class Journal:
    """*packages* and *users* are those that the concern brought; *files*, *sysctls* and *units* map to what was there before.

    *reload* are units that must still read a changed file.
    """

    packages: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    files: dict[str, Original] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    units: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    reload: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.packages, self.users, self.files, self.sysctls, self.units, self.reload))

    def to_json(self) -> str:
        """The journal as JSON in a fixed order, ASCII only (bytes that are no UTF-8 stay escaped surrogates)."""
        return json.dumps(
            {
                "format": FORMAT,
                "packages": sorted(self.packages),
                "users": sorted(self.users),
                "files": {
                    path: [o.content, o.owner, o.group, o.mode, sorted(o.notify), o.confirm]
                    for path, o in sorted(self.files.items())
                },
                "sysctls": dict(sorted(self.sysctls.items())),
                "units": dict(sorted(self.units.items())),
                "reload": sorted(self.reload),
            },
            indent=1,
        )


def from_json(text: str) -> Journal:
    """The journal that *text* states. Raises `ValueError` for anything else than a journal of this format."""
    data: dict[str, Any] = json.loads(text)
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r}, this program knows {FORMAT}")
    return Journal(
        packages=list(data["packages"]),
        users=list(data["users"]),
        files={path: Original(*entry) for path, entry in data["files"].items()},
        sysctls=dict(data["sysctls"]),
        units={name: (bool(state[0]), bool(state[1])) for name, state in data["units"].items()},
        reload=list(data["reload"]),
    )
