"""What each concern last reached whole, and what it was before the last run that changed it: the way back from a run.

A concern is kept as it was asked for (`wanted.Concern`), without the contents of secret files; those are in the vault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .wanted import Argument, Concern, Directory, File, Module, Sysctl, Unit, User

#: Raised when the meaning of the JSON changes. A history of another format than this and the one before is refused, never guessed at.
FORMAT = 2
_PARTS: Mapping[str, type[Any]] = {
    "users": User,
    "directories": Directory,
    "files": File,
    "arguments": Argument,
    "modules": Module,
    "sysctls": Sysctl,
    "units": Unit,
}


@dataclass(slots=True)
class History:
    """*reached* are concerns by name, frozen. *before* are those that *run* changed, as they were then; None for one that was not there.

    Where *run* takes another run back, *undoes* names that one, and *goal* is what its concerns are taken back to: when it was killed or
    failed, the next one goes on.
    """

    reached: dict[str, dict[str, Any]] = field(default_factory=dict)
    run: str = ""
    before: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    undoes: str = ""
    goal: dict[str, dict[str, Any] | None] = field(default_factory=dict)

    def way_back(self, run: str) -> dict[str, dict[str, Any] | None] | None:
        """What the concerns that *run* changed are to be taken back to; None when there is nothing (any more) to go by."""
        if not run:
            return None
        return self.before if run == self.run else self.goal if run == self.undoes else None

    def to_json(self) -> str:
        """The history as JSON, ASCII only; concerns in the order in which they came."""
        return json.dumps({"format": FORMAT, **asdict(self)})

    def secrets(self) -> frozenset[str]:
        """The names in the vault that it needs."""
        kept = [*self.reached.values(), *self.before.values(), *self.goal.values()]
        files = (file for concern in kept if concern is not None for file in concern["files"])
        return frozenset(file["kept"] for file in files if "kept" in file)


def from_json(text: str) -> History:
    """The history that *text* states. Raises `ValueError` for anything else than a history of this format or the one before."""
    data: dict[str, Any] = json.loads(text)
    if data.pop("format", None) not in {1, FORMAT}:
        raise ValueError(f"not format {FORMAT}")
    return History(**data)


def freeze(concern: Concern, keep: Callable[[str], str]) -> dict[str, Any]:
    """*concern* as JSON data; *keep* puts the content of a secret file into the vault and names it.

    What is made anew for each run that needs it, as a token is, has no content here and is held back when it thaws.
    """
    data: dict[str, Any] = json.loads(json.dumps(asdict(concern)))
    for entry, file in zip(data["files"], concern.files, strict=True):
        del entry["held_back"]  # of the request, not of the concern
        if file.unless is not None:
            entry["content"] = ""
        elif file.secret:
            entry["content"], entry["kept"] = "", keep(file.content)
    return data


def thaw(data: Mapping[str, Any], fetch: Callable[[str], str]) -> Concern:
    """The concern that was frozen as *data*."""
    fields: dict[str, Any] = {name: _tuples(value) for name, value in data.items() if name not in _PARTS}
    for name, kind in _PARTS.items():
        entries = []
        for entry in data.get(name, ()):
            kept = entry.get("kept")
            given = {key: _tuples(value) for key, value in entry.items() if key != "kept"}
            if entry.get("unless") is not None:
                given["held_back"] = True
            made = kind(**given)
            entries.append(replace(made, content=fetch(kept)) if kept is not None else made)
        fields[name] = tuple(entries)
    return Concern(**fields)


def _tuples(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    return tuple(value) if isinstance(value, list) else value
