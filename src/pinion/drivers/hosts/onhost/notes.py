"""What the program remembers on the host, below /var/lib/pinion: journals, history, secrets; and until the next boot, what waits for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from .files import replace
from .history import History
from .history import from_json as history_from_json
from .journal import Journal
from .journal import from_json as journal_from_json
from .machine import HostError

#: Only root reads it: it may hold what was in files that only root could read.
STATE = Path("/var/lib/pinion")
#: /run is empty after a boot, so what waits for one is forgotten by it.
BOOT = Path("/run/pinion-needs-boot.json")


class FileJournals:
    """Implements `machine.Journals`: one JSON file a concern, and one for the history."""

    def names(self) -> list[str]:
        return sorted(path.stem for path in (STATE / "concerns").glob("[!.]*.json"))

    def read(self, name: str) -> Journal:
        path = journal_file(name)
        try:
            return journal_from_json(path.read_text())
        except FileNotFoundError:
            return Journal()
        except (ValueError, TypeError, KeyError) as error:
            raise _refused(path, error) from error

    def write(self, name: str, journal: Journal) -> None:
        if journal:
            _write(journal_file(name), journal.to_json())
        else:
            journal_file(name).unlink(missing_ok=True)

    def read_history(self) -> History:
        path = STATE / "history.json"
        try:
            return history_from_json(path.read_text())
        except FileNotFoundError:
            return History()
        except (ValueError, TypeError, KeyError) as error:
            raise _refused(path, error) from error

    def write_history(self, history: History) -> None:
        _write(STATE / "history.json", history.to_json())

    def sweep(self) -> None:
        # Not all below STATE: on an operator's machine the lab has its machines there.
        for folder in (STATE, STATE / "concerns", STATE / "secrets"):
            for left in folder.glob(".*.pinion-new"):
                left.unlink()


class FileVault:
    """Implements `machine.Vault`: one file a content, which only root reads."""

    def keep(self, content: str) -> str:
        data = content.encode("utf-8", "surrogateescape")
        name = hashlib.sha256(data).hexdigest()
        if not _secret(name).exists():
            STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(_secret(name), data, 0o600)
        return name

    def fetch(self, name: str) -> str:
        try:
            return _secret(name).read_bytes().decode("utf-8", "surrogateescape")
        except FileNotFoundError as error:
            raise HostError(f"{_secret(name)}: what a secret file held before is gone") from error

    def prune(self, names: frozenset[str]) -> None:
        for path in (STATE / "secrets").glob("*"):
            if path.name not in names:
                path.unlink()


class RunBoots:
    """Implements `machine.Boots`."""

    def note(self, reasons: Sequence[str]) -> None:
        waiting = {*self.waiting(), *reasons}
        if waiting != set(self.waiting()):
            replace(BOOT, json.dumps(sorted(waiting)).encode(), 0o600)

    def waiting(self) -> tuple[str, ...]:
        return tuple(json.loads(BOOT.read_text())) if BOOT.exists() else ()


def journal_file(name: str) -> Path:
    """Where the journal of the concern *name* lies."""
    return STATE / "concerns" / f"{name}.json"


def _secret(name: str) -> Path:
    return STATE / "secrets" / name


def _write(path: Path, text: str) -> None:
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(path, text.encode(), 0o600)


def _refused(path: Path, error: Exception) -> HostError:
    return HostError(f"{path}: not written by this program: {error}; move it away to start afresh")
