"""What the engine needs of a host: one small Protocol a kind of thing, and the states that they report.

A double implements them all in memory for tests; the modules beside this one implement them for Debian. One contract suite runs
against both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from .history import History
from .journal import Journal
from .wanted import File, Unit, User


class HostError(Exception):
    """The host refused something; the text says what, on which object and why."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it is. *content* is text; bytes that are no UTF-8 are kept as surrogates."""

    content: str
    owner: str
    group: str
    mode: int


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """A folder as it is."""

    owner: str
    group: str
    mode: int


@dataclass(frozen=True, slots=True)
class UserState:
    """A user as it is. *groups* are those of its further groups that were asked about; *whole* false means a half-made account."""

    comment: str
    home: str
    shell: str
    groups: frozenset[str]
    home_exists: bool
    whole: bool = True


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit as it is."""

    enabled: bool
    active: bool
    masked: bool = False


class Packages(Protocol):
    """The package system."""

    def installed(self, names: Sequence[str]) -> frozenset[str]:
        """Those of *names* that are installed and configured."""

    def install(self, names: Sequence[str]) -> None:
        """Install. Waits for the package system's lock; finishes an interrupted run first. Raises `HostError`."""

    def remove(self, name: str) -> str | None:
        """Remove *name* and nothing else; None when it is gone, else why not (another package needs it)."""


class Accounts(Protocol):
    """Users and their groups."""

    def read(self, user: User) -> UserState | None:
        """The state of the user of that name, None when there is none."""

    def put(self, user: User) -> None:
        """Make or change the user. Raises `HostError`."""

    def remove(self, name: str) -> str | None:
        """Remove the user, its home stays; None when it is gone, else why not (it has processes)."""

    def exists(self, name: str) -> bool:
        """Whether there is a user of that name."""


class Files(Protocol):
    """Whole files."""

    def read(self, path: str) -> FileState | None:
        """The file at *path*, None when there is none. Raises `HostError` when something else is there."""

    def validate(self, file: File) -> str | None:
        """Run the file's validation on a candidate beside nothing that is in use; the error's text, None when it is valid."""

    def put(self, path: str, state: FileState) -> None:
        """Replace the file by rename. Raises `HostError`."""

    def remove(self, path: str) -> None:
        """Remove the file if there is one."""

    def sweep(self, paths: Iterable[str]) -> None:
        """Remove what a run that was killed left beside *paths*, half written."""

    def read_directory(self, path: str) -> DirectoryState | None:
        """The folder at *path*, None when there is none. Raises `HostError` when something else is there."""

    def put_directory(self, path: str, state: DirectoryState) -> None:
        """Make the folder, or change its owner and mode. Raises `HostError`."""

    def remove_directory(self, path: str) -> str | None:
        """Remove the folder; None when it is gone, else why not (there is something in it)."""


class Kernel(Protocol):
    """Live kernel parameters and modules."""

    def read(self, key: str) -> str | None:
        """The value with single blanks, None when the kernel does not show it."""

    def set(self, key: str, value: str) -> None:
        """Set it. Raises `HostError`."""

    def loaded(self, module: str) -> bool:
        """Whether the kernel has the module, loaded or built in."""

    def load(self, module: str) -> None:
        """Load it. Raises `HostError`."""


class Units(Protocol):
    """The service manager."""

    def read(self, names: Sequence[str]) -> dict[str, UnitState]:
        """The state of each unit; one that does not exist is neither enabled nor active."""

    def put(self, unit: Unit) -> None:
        """Mask or unmask, enable or disable, start or stop. Raises `HostError`."""

    def reload(self, name: str) -> None:
        """Let a running unit read its configuration again. Raises `HostError`."""

    def restart(self, name: str) -> None:
        """Restart a running unit. Raises `HostError`."""


class Commands(Protocol):
    """What makes a changed file count beyond units: a shell command that may be run again."""

    def run(self, command: str) -> None:
        """Run it. Raises `HostError`."""

    def holds(self, command: str) -> bool:
        """Whether *command*, which only reads, succeeds."""


class Journals(Protocol):
    """The notes of what each concern placed, and of the states that the host has reached."""

    def names(self) -> list[str]:
        """The concerns that have placed something, sorted."""

    def read(self, name: str) -> Journal:
        """The journal of the concern *name*, empty when there is none."""

    def write(self, name: str, journal: Journal) -> None:
        """Keep the journal, by rename; drop it when it is empty."""

    def read_history(self) -> History:
        """What the host has reached and how to go back, empty at first."""

    def write_history(self, history: History) -> None:
        """Keep it, by rename."""

    def sweep(self) -> None:
        """Remove notes that a run that was killed left half written."""


class Vault(Protocol):
    """Contents of secret files that are needed again, apart from all notes, each under the SHA-256 of its own text."""

    def keep(self, content: str) -> str:
        """Keep *content*; its name."""

    def fetch(self, name: str) -> str:
        """What was kept under *name*. Raises `HostError`."""

    def prune(self, names: frozenset[str]) -> None:
        """Forget all but *names*."""


class Boots(Protocol):
    """What waits for a reboot."""

    def note(self, reasons: Sequence[str]) -> None:
        """*reasons* wait for the next boot; kept until then."""

    def waiting(self) -> tuple[str, ...]:
        """What has waited since this boot, sorted."""


class Guard(Protocol):
    """Confirm, or the host undoes it by itself."""

    def lock(self, seconds: float, who: str) -> AbstractContextManager[float]:
        """Be the only run on this host; yields the seconds waited. Raises `HostError`, naming the holder, after *seconds*."""

    def arm(self, name: str, before: Mapping[str, FileState | None], units: Sequence[str], seconds: int) -> None:
        """Unless disarmed within *seconds* from now, put back *before* and reload *units*. What an earlier `arm` saved is kept."""

    def armed(self, name: str) -> bool:
        """Whether it waits for its confirmation."""

    def disarm(self, name: str) -> bool:
        """The change is good. False when there was nothing to confirm (any more)."""

    def undone(self, name: str) -> bool:
        """Whether the host has put back by itself what was last armed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One host."""

    packages: Packages
    accounts: Accounts
    files: Files
    kernel: Kernel
    units: Units
    commands: Commands
    journals: Journals
    vault: Vault
    boots: Boots
    guard: Guard
