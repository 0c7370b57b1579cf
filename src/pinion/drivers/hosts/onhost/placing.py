"""Making it so: the one order of steps in which a concern comes to be on a host, each noted before it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .found import (
    Found,
    directory_target,
    file_target,
    gives_way,
    restored,
    stale,
    stale_arguments,
    sysctl_changes,
    unit_target,
    unit_targets,
    user_changes,
)
from .journal import Journal, Original
from .machine import DirectoryState, FileState, HostError, Machine
from .wanted import Concern, File, Unit

#: Time for the controller to log in afresh after a change that could lock it out. Longer than any sane connect with retries.
CONFIRM_SECONDS = 120
#: systemd reads unit files and its own settings again only when told.
_SYSTEMD_FOLDERS = ("/etc/systemd/", "/run/systemd/", "/usr/local/lib/systemd/")
RELOAD_SYSTEMD = "systemctl daemon-reload"


@dataclass(slots=True)
class Placing:
    """One concern on its way to the host. *notes* collects what stays although it was to go, *shared* are packages that others name."""

    machine: Machine
    wanted: Concern
    found: Found
    journal: Journal
    shared: frozenset[str]
    notes: list[str] = field(default_factory=list)

    def apply(self) -> None:
        """Take every step. Raises `HostError`; running again goes on from there."""
        changed = self._changed(for_packages=False)
        dropped = stale(self.journal.files, [file.path for file in self.wanted.files])
        if why := next((file.path for file in changed if file.held_back), None):
            raise HostError(
                f"{why}: is made anew when a host needs it, and none came: state it in the site file, run again"
            )
        self.prepare()
        self._note()
        self._write()
        self._packages()
        for user in self.wanted.users:
            if any(subject == user.name for _, subject, _, _ in user_changes(self.wanted, self.found, self.journal)):
                self.machine.accounts.put(user)
        # Before the files: a unit that we brought is stopped while its file is still there.
        stopped = self._units([unit for unit in self._differing() if unit.masked or not (unit.enabled or unit.active)])
        self._directories()
        self._files(changed, dropped)
        self._arguments()
        self._run(self.journal.run)
        for module in self.wanted.modules:
            if module.name not in self.found.modules:
                self.machine.kernel.load(module.name)
        for _, key, _, value in sysctl_changes(self.wanted, self.found, self.journal):
            self.machine.kernel.set(key, value)
        started = self._units([unit for unit in self._differing() if unit.name not in stopped])
        for name in sorted(set(self.journal.restart) - started):
            self.machine.units.restart(name)
        for name in sorted({*self.journal.reload} - {*started, *self.journal.restart}):
            self.machine.units.reload(name)
        self._take_back()
        self.journal.restart.clear()
        self.journal.reload.clear()
        self._write()

    def prepare(self) -> None:
        """Place what the package system reads, and have it read that. Raises `HostError`; running again goes on from there."""
        files = [file for file in self.wanted.files if file.for_packages]
        self._files(self._changed(for_packages=True), [])
        if due := [command for command in self.journal.run if any(command in file.run for file in files)]:
            self._run(due)
            self._write()

    def _changed(self, *, for_packages: bool) -> list[File]:
        """The files that are not as they are to be."""
        return [
            file
            for file in self.wanted.files
            if file.for_packages is for_packages and self.found.files[file.path] != file_target(file)
        ]

    def _write(self) -> None:
        self.machine.journals.write(self.wanted.name, self.journal)

    # --- notes before the steps ---------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Write into the journal what is about to be placed and what was there; what it says already is older and stays."""
        journal, found = self.journal, self.found
        note_packages(self.wanted, found.installed, journal)
        new = [user.name for user in self.wanted.users if found.users[user.name] is None]
        journal.users += [name for name in new if name not in journal.users]
        for folder in self.wanted.directories:
            state = found.directories[folder.path]
            if state != directory_target(folder):
                before = None if state is None else (state.owner, state.group, state.mode)
                journal.directories.setdefault(folder.path, before)
        for sysctl in self.wanted.sysctls:
            value = found.sysctls[sysctl.key]
            if value is not None and value != sysctl.value:
                journal.sysctls.setdefault(sysctl.key, value)
        for unit in self.wanted.units:
            now = found.units[unit.name]
            if now != unit_target(unit):
                journal.units.setdefault(unit.name, (now.enabled, now.active, now.masked))

    def _note_files(self, changed: list[File], dropped: list[str]) -> None:
        """As `_note`, for files, and for what must then read them."""
        journal = self.journal
        for file in changed:
            original = journal.files.get(file.path)
            if original is None:
                original = journal.files[file.path] = self._original(file)
            original.notify, original.restart, original.run = sorted(file.notify), sorted(file.restart), list(file.run)
            original.confirm, original.needs_reboot = file.confirm, file.needs_reboot
        touched = [(path, journal.files[path]) for path in [*(file.path for file in changed), *dropped]]
        run = [RELOAD_SYSTEMD] if any(path.startswith(_SYSTEMD_FOLDERS) for path, _ in touched) else []
        run += [command for _, original in touched for command in original.run]
        _add(journal.run, run)
        _add(journal.reload, [name for _, original in touched for name in original.notify])
        _add(journal.restart, [name for _, original in touched for name in original.restart])

    def _original(self, file: File) -> Original:
        state = self.found.files[file.path]
        if state is None:
            return Original(None, None, None, None, [], confirm=False, secret=file.secret)
        kept = self.machine.vault.keep(state.content) if file.secret else None
        return Original(
            state.content, state.owner, state.group, state.mode, [], confirm=False, secret=file.secret, kept=kept
        )

    # --- steps --------------------------------------------------------------------------------------------------------

    def _packages(self) -> None:
        install = [name for name in self.wanted.packages if name not in self.found.installed]
        if install:
            note_boot(self.machine, self.wanted, self.found.installed)
            self.machine.packages.install(install)
        for name in self.wanted.packages_absent:
            refusal = self.machine.packages.remove(name) if name in self.found.installed else None
            if refusal is not None:
                raise HostError(f"package {name} must go and cannot: {refusal}")

    def _differing(self) -> list[Unit]:
        found = replace(self.found, waiting=frozenset(self.machine.boots.waiting()))
        return [
            unit
            for unit in unit_targets(self.wanted, found, self.journal)
            if found.units[unit.name] != unit_target(unit)
        ]

    def _units(self, units: list[Unit]) -> set[str]:
        """Bring *units* to their state; the names of those, of which the active ones have read their files afresh."""
        for unit in units:
            self.machine.units.put(unit)
        return {unit.name for unit in units if self.found.units[unit.name].active != unit.active or not unit.active}

    def _directories(self) -> None:
        for folder in self.wanted.directories:
            if self.found.directories[folder.path] != directory_target(folder):
                self.machine.files.put_directory(folder.path, directory_target(folder))

    def _files(self, changed: list[File], dropped: list[str]) -> None:
        if not changed and not dropped:
            return
        for file in changed:
            problem = self.machine.files.validate(file)
            if problem is not None:
                why = "its words are not shown, the file is secret" if file.secret else problem
                raise HostError(f"{file.path}: refused by its validation, nothing was replaced: {why}")
        self._note_files(changed, dropped)
        self._write()
        journal = self.journal
        paths = [*(file.path for file in changed), *dropped]
        if risky := [path for path in paths if journal.files[path].confirm]:
            units = sorted(
                {name for path in risky for name in (*journal.files[path].notify, *journal.files[path].restart)}
            )
            before = {path: self.found.files[path] for path in risky}
            self.machine.guard.arm(self.wanted.name, before, units, CONFIRM_SECONDS)
        if for_boot := [path for path in paths if journal.files[path].needs_reboot]:
            self.machine.boots.note(for_boot)
        for file in changed:
            self.machine.files.put(file.path, file_target(file))
        for path in dropped:
            original = restored(journal.files[path])
            if original is None:
                self.machine.files.remove(path)
            else:
                self.machine.files.put(path, original)

    def _arguments(self) -> None:
        """Change the one line of each kernel command line: what goes, goes, and what comes is added at its end."""
        gone = stale_arguments(self.wanted, self.journal)
        for path in dict.fromkeys(
            [*(argument.file for argument in self.wanted.arguments), *(path for path, _ in gone)]
        ):
            before = self.found.line(path)
            given = self.journal.arguments.setdefault(path, {})
            dropped = [argument for at, argument in gone if at == path]
            line = list(before or ())
            for argument in dropped:
                line = [word for word in line if word != argument]
                line += [word for word in given[argument] if word not in line]
            line = self._with_arguments(path, line, exists=before is not None)
            if line != (before or []):
                self._put_line(path, line)
            for argument in dropped:
                given.pop(argument)
            if not given:
                self.journal.arguments.pop(path)

    def _with_arguments(self, path: str, line: list[str], *, exists: bool) -> list[str]:
        """*line* with the arguments that the concern wants in *path*; what is new is noted."""
        given = self.journal.arguments[path]
        for wanted in [argument for argument in self.wanted.arguments if argument.file == path]:
            if not exists and wanted.live:
                raise HostError(f"{path}: there is no such file; is the boot partition mounted?")
            others = gives_way(wanted, line, self.wanted)
            if wanted.argument not in line or others:
                given.setdefault(wanted.argument, others)
                line = [word for word in line if word not in others]
                line += [] if wanted.argument in line else [wanted.argument]
        return line

    def _put_line(self, path: str, line: list[str]) -> None:
        self._write()
        self.machine.boots.note([path])
        state = self.found.files[path] or FileState("", "root", "root", 0o644)
        if line:
            content = " ".join(line) + "\n"
            self.machine.files.put(path, FileState(content, state.owner, state.group, state.mode))
        else:
            self.machine.files.remove(path)  # we made it, else it would name a root file system

    def _run(self, commands: Sequence[str]) -> None:
        for command in list(commands):
            self.machine.commands.run(command)
            self.journal.run.remove(command)

    # --- what the concern no longer states ----------------------------------------------------------------------------

    def _take_back(self) -> None:
        """Remove what the concern brought and no longer states, and forget it. What somebody else needs by now stays, with a note."""
        wanted, journal = self.wanted, self.journal
        for name in stale(journal.packages, wanted.packages):
            if name not in self.shared and (refusal := self.machine.packages.remove(name)) is not None:
                self.notes.append(f"package {name} stays: {refusal}")
            journal.packages.remove(name)
        for name in stale(journal.users, [user.name for user in wanted.users]):
            refusal = self.machine.accounts.remove(name) if name in self.found.journal_users else None
            if refusal is not None:
                self.notes.append(f"user {name} stays: {refusal}")
            journal.users.remove(name)
        for path in stale(journal.files, [file.path for file in wanted.files]):
            del journal.files[path]
        # Inner folders first.
        for path in sorted(stale(journal.directories, [folder.path for folder in wanted.directories]), reverse=True):
            before = journal.directories[path]
            if before is not None and self.found.directories[path] is not None:
                self.machine.files.put_directory(path, DirectoryState(*before))
            elif before is None and (refusal := self.machine.files.remove_directory(path)) is not None:
                self.notes.append(f"folder {path} stays: {refusal}")
            del journal.directories[path]
        for key in stale(journal.sysctls, [sysctl.key for sysctl in wanted.sysctls]):
            del journal.sysctls[key]
        for name in stale(journal.units, [unit.name for unit in wanted.units]):
            del journal.units[name]


def note_packages(wanted: Concern, installed: frozenset[str], journal: Journal) -> None:
    """Note in *journal* the packages that *wanted* is about to bring."""
    journal.packages += [name for name in wanted.packages if name not in {*installed, *journal.packages}]


def note_boot(machine: Machine, wanted: Concern, installed: frozenset[str]) -> None:
    """Note which packages that *wanted* is about to bring count from the next boot on."""
    if new := [name for name in wanted.packages_need_reboot if name not in installed]:
        machine.boots.note([f"package {name}" for name in new])


def _add(names: list[str], more: list[str]) -> None:
    """Add those of *more* that are not there yet, in order."""
    names += [name for name in dict.fromkeys(more) if name not in names]
