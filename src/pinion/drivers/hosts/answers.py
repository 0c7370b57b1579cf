"""What each host answered in one converge run, whoever carried the question: a file of JSON lines that outlives a killed run.

A host of the run without a line did not answer, and that is a failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: The environment variable that names the file, for the programs that `pinion converge` starts.
VARIABLE = "PINION_ANSWERS"
#: How the error of a host begins that did not answer at all.
UNREACHED = "it could not be reached"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: *changes* as `onhost.found.Change` in JSON, *error* when the host refused or could not be reached.

    *reboot* and *notes* as `onhost.engine.Report`.
    """

    host: str
    changes: tuple[Mapping[str, str], ...] = ()
    error: str | None = None
    reboot: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_report(cls, host: str, said: Mapping[str, Any]) -> Answer:
        """The answer of *host* when its program said *said*: a report, an error, or both."""
        given = {part: tuple(said.get(part, ())) for part in ("changes", "reboot", "notes")}
        return cls(host, error=said.get("error"), **given)


@dataclass(slots=True)
class HostResult:
    """All answers of one host together."""

    changes: list[Mapping[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    reboot: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Changes without file contents, which are for people to read in a diff."""
        shown = [
            {key: change[key] for key in ("concern", "kind", "subject")}
            if change["kind"] == "file"
            else {key: change[key] for key in ("concern", "kind", "subject", "before", "after")}
            for change in self.changes
        ]
        return {"changes": shown, "errors": self.errors, "reboot": self.reboot, "notes": self.notes}


def append(path: Path, answer: Answer) -> None:
    """Add *answer* to the file, whole or not at all (one write)."""
    line = json.dumps(asdict(answer)) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Listener:
    """Hears who has answered while the file grows; each line is read once. A line that is still being written does not count yet."""

    path: Path
    hosts: set[str] = field(default_factory=set)
    _offset: int = 0

    def heard(self) -> set[str]:
        """The hosts that have answered so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                whole, end, _ = file.read().rpartition(b"\n")
            self._offset += len(whole) + len(end)
            self.hosts |= {json.loads(line)["host"] for line in whole.splitlines()}
        return self.hosts


def collect(path: Path, expected: tuple[str, ...]) -> dict[str, HostResult]:
    """The results of the hosts *expected*, in that order, from the file."""
    found = {name: HostResult() for name in expected}
    heard = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        said = json.loads(line)
        heard.add(said["host"])
        result = found.setdefault(said["host"], HostResult())
        result.changes += said["changes"]
        result.reboot = said["reboot"] or result.reboot
        result.notes += said["notes"]
        if said["error"] is not None and said["error"] not in result.errors:
            result.errors.append(said["error"])
    for name in expected:
        if name not in heard:
            found[name].errors.append(f"{UNREACHED}, or the run ended before it answered")
    return found
