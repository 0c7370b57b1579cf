"""A host in memory: the same Protocols as the real one, for tests of the engine and of those who call it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pinion.drivers.hosts.onhost import history
from pinion.drivers.hosts.onhost.found import unit_target
from pinion.drivers.hosts.onhost.history import History
from pinion.drivers.hosts.onhost.journal import Journal, from_json
from pinion.drivers.hosts.onhost.machine import (
    DirectoryState,
    FileState,
    HostError,
    Machine,
    UnitState,
    UserState,
)
from pinion.drivers.hosts.onhost.placing import RELOAD_SYSTEMD
from pinion.drivers.hosts.onhost.wanted import File, Unit, User

#: Reads its files afresh whenever it installs.
APT = "apt-get"
#: Called before each step that changes the host, with the step's name. Raising there is a kill at that point.
Step = Callable[[str], None]


def _no_fault(_: str) -> None:
    return


@dataclass
class MemoryHost:
    """All state of a host. *known* are the packages that the archive has; *needs* maps a package to those that depend on it.

    *refuse* maps a path to what its validation says, *busy* a user to why it cannot go. *read_by* is what each unit or command has read of
    each file so far. *modules* are loaded, of those that the kernel has in *loadable*. *fail* maps a command to its error, and
    *holding* are the conditions that hold.
    """

    known: set[str] = field(default_factory=set)
    packages: set[str] = field(default_factory=set)
    needs: dict[str, set[str]] = field(default_factory=dict)
    accounts: dict[str, UserState] = field(default_factory=dict)
    busy: dict[str, str] = field(default_factory=dict)
    directories: dict[str, DirectoryState] = field(default_factory=dict)
    files: dict[str, FileState] = field(default_factory=dict)
    refuse: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    loadable: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    units: dict[str, UnitState] = field(default_factory=dict)
    fail: dict[str, str] = field(default_factory=dict)
    holding: set[str] = field(default_factory=set)
    restarts: list[str] = field(default_factory=list)
    read_by: dict[str, dict[str, FileState]] = field(default_factory=dict)
    journals: dict[str, str] = field(default_factory=dict)
    history: str | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    guards: dict[str, tuple[dict[str, FileState | None], tuple[str, ...]]] = field(default_factory=dict)
    undone: set[str] = field(default_factory=set)
    locked_by: str | None = None
    step: Step = _no_fault

    def machine(self) -> Machine:
        """The host as the engine sees it."""
        return Machine(
            _Packages(self),
            _Accounts(self),
            _Files(self),
            _Kernel(self),
            _Units(self),
            _Commands(self),
            _Journals(self),
            _Vault(self),
            _Boots(self),
            _Guard(self),
        )

    def reload(self, unit: str) -> None:
        """Let *unit* read its files again."""
        self.read_by[unit] = dict(self.files)

    def fire(self, name: str) -> None:
        """Let the guard's time pass: what was not confirmed is undone."""
        before, units = self.guards.pop(name)
        self.undone.add(name)
        for path, state in before.items():
            if state is None:
                self.files.pop(path, None)
            else:
                self.files[path] = state
        for unit in units:
            self.reload(unit)


@dataclass
class _Packages:
    host: MemoryHost

    def installed(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(names) & frozenset(self.host.packages)

    def install(self, names: Sequence[str]) -> None:
        self.host.step("install")
        for name in names:
            if name not in self.host.known:
                raise HostError(f"apt-get install {name}: Unable to locate package {name}")
        self.host.reload(APT)
        self.host.packages |= set(names)

    def remove(self, name: str) -> str | None:
        self.host.step("remove package")
        needed_by = self.host.needs.get(name, set()) & self.host.packages
        if needed_by:
            return f"needed by {', '.join(sorted(needed_by))}"
        self.host.packages.discard(name)
        return None


@dataclass
class _Accounts:
    host: MemoryHost

    def read(self, user: User) -> UserState | None:
        state = self.host.accounts.get(user.name)
        if state is None:
            return None
        shown = state.groups & frozenset(user.groups)
        return UserState(state.comment, state.home, state.shell, shown, state.home_exists, state.whole)

    def put(self, user: User) -> None:
        self.host.step("user")
        old = self.host.accounts.get(user.name)
        groups = frozenset(user.groups) | (old.groups if old is not None else frozenset())
        home = user.create_home or (old is not None and old.home_exists)
        self.host.accounts[user.name] = UserState(user.comment, user.home, user.shell, groups, home)

    def remove(self, name: str) -> str | None:
        self.host.step("remove user")
        if name in self.host.busy:
            return self.host.busy[name]
        self.host.accounts.pop(name, None)
        return None

    def exists(self, name: str) -> bool:
        return name in self.host.accounts


@dataclass
class _Files:
    host: MemoryHost

    def read(self, path: str) -> FileState | None:
        return self.host.files.get(path)

    def validate(self, file: File) -> str | None:
        return self.host.refuse.get(file.path) if file.validate_command is not None else None

    def put(self, path: str, state: FileState) -> None:
        self.host.step("file")
        self.host.files[path] = state

    def remove(self, path: str) -> None:
        self.host.step("remove file")
        self.host.files.pop(path, None)

    def sweep(self, paths: Iterable[str]) -> None:
        """A file comes in one step here."""

    def read_directory(self, path: str) -> DirectoryState | None:
        return self.host.directories.get(path)

    def put_directory(self, path: str, state: DirectoryState) -> None:
        self.host.step("folder")
        self.host.directories[path] = state

    def remove_directory(self, path: str) -> str | None:
        self.host.step("remove folder")
        if any(inside.startswith(f"{path}/") for inside in (*self.host.files, *self.host.directories)):
            return "Directory not empty"
        self.host.directories.pop(path, None)
        return None


@dataclass
class _Kernel:
    host: MemoryHost

    def read(self, key: str) -> str | None:
        return self.host.sysctls.get(key)

    def set(self, key: str, value: str) -> None:
        self.host.step("sysctl")
        if key not in self.host.sysctls:
            raise HostError(f"sysctl {key} = {value}: No such file or directory")
        self.host.sysctls[key] = value

    def loaded(self, module: str) -> bool:
        return module in self.host.modules

    def load(self, module: str) -> None:
        self.host.step("module")
        if module not in self.host.loadable:
            raise HostError(f"modprobe -- {module}: exit 1: Module {module} not found")
        self.host.modules.add(module)


@dataclass
class _Units:
    host: MemoryHost

    def read(self, names: Sequence[str]) -> dict[str, UnitState]:
        return {name: self.host.units.get(name, UnitState(enabled=False, active=False)) for name in names}

    def put(self, unit: Unit) -> None:
        self.host.step("unit")
        known = {*self.host.units, *map(os.path.basename, self.host.read_by.get(RELOAD_SYSTEMD, {}))}
        if not unit.masked and unit.name not in known:
            raise HostError(f"systemctl enable {unit.name}: no such unit")
        before = self.host.units.get(unit.name)
        if unit.active and (before is None or not before.active):
            self.host.reload(unit.name)
        self.host.units[unit.name] = unit_target(unit)

    def reload(self, name: str) -> None:
        self.host.step("reload")
        self.host.reload(name)

    def restart(self, name: str) -> None:
        self.host.step("restart")
        self.host.restarts.append(name)
        self.host.reload(name)


@dataclass
class _Commands:
    host: MemoryHost

    def run(self, command: str) -> None:
        self.host.step("command")
        if command in self.host.fail:
            raise HostError(f"/bin/sh -c {command}: exit 1: {self.host.fail[command]}")
        self.host.reload(command)

    def holds(self, command: str) -> bool:
        return command in self.host.holding


@dataclass
class _Journals:
    host: MemoryHost

    def names(self) -> list[str]:
        return sorted(self.host.journals)

    def read(self, name: str) -> Journal:
        text = self.host.journals.get(name)
        return from_json(text) if text is not None else Journal()

    def write(self, name: str, journal: Journal) -> None:
        self.host.step("journal")
        if journal:
            self.host.journals[name] = journal.to_json()
        else:
            self.host.journals.pop(name, None)

    def read_history(self) -> History:
        return history.from_json(self.host.history) if self.host.history is not None else History()

    def write_history(self, history: History) -> None:
        self.host.step("history")
        self.host.history = history.to_json()

    def sweep(self) -> None:
        """As for files."""


@dataclass
class _Vault:
    host: MemoryHost

    def keep(self, content: str) -> str:
        name = hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()
        self.host.secrets[name] = content
        return name

    def fetch(self, name: str) -> str:
        if name not in self.host.secrets:
            raise HostError(f"{name}: what a secret file held before is gone")
        return self.host.secrets[name]

    def prune(self, names: frozenset[str]) -> None:
        self.host.secrets = {name: content for name, content in self.host.secrets.items() if name in names}


@dataclass
class _Boots:
    host: MemoryHost

    def note(self, reasons: Sequence[str]) -> None:
        self.host.waiting |= set(reasons)

    def waiting(self) -> tuple[str, ...]:
        return tuple(sorted(self.host.waiting))


@dataclass
class _Guard:
    host: MemoryHost

    @contextmanager
    def lock(self, seconds: float, who: str) -> Iterator[float]:
        if self.host.locked_by is not None:
            raise HostError(f"another run is at work on this host since {self.host.locked_by}; try again later")
        self.host.locked_by = who
        try:
            yield 0.0
        finally:
            self.host.locked_by = None

    def arm(self, name: str, before: Mapping[str, FileState | None], units: Sequence[str], seconds: int) -> None:
        self.host.step("arm")
        if name not in self.host.guards:
            self.host.undone.discard(name)
            self.host.guards[name] = (dict(before), tuple(units))

    def armed(self, name: str) -> bool:
        return name in self.host.guards

    def undone(self, name: str) -> bool:
        return name in self.host.undone

    def disarm(self, name: str) -> bool:
        self.host.step("disarm")
        return self.host.guards.pop(name, None) is not None
