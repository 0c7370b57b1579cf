"""What is there, and what differs from what is asked: reading a host, and the pure comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .journal import Journal, Original
from .machine import DirectoryState, FileState, Machine, UnitState, UserState
from .wanted import Argument, Concern, Directory, File, Unit

#: Shown instead of what a secret file holds.
HIDDEN = "(secret, not shown)"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs: *before* and *after* are short texts, or whole contents for a file."""

    concern: str
    kind: str
    subject: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Found:
    """The state of everything that some concerns or their journals name. *waiting* is what waits for the next boot."""

    installed: frozenset[str]
    users: dict[str, UserState | None]
    journal_users: frozenset[str]
    directories: dict[str, DirectoryState | None]
    files: dict[str, FileState | None]
    modules: frozenset[str]
    sysctls: dict[str, str | None]
    units: dict[str, UnitState]
    waiting: frozenset[str] = frozenset()

    def line(self, path: str) -> list[str] | None:
        """The arguments in the kernel command line file *path*, None when there is none."""
        state = self.files[path]
        return None if state is None else state.content.split()


def read(machine: Machine, concerns: Sequence[tuple[Concern, Journal]]) -> Found:
    """The state of everything that *concerns* name. Changes nothing; each kind of thing is asked for once."""
    wanted, journals = [concern for concern, _ in concerns], [journal for _, journal in concerns]
    packages = [name for concern in wanted for name in (*concern.packages, *concern.packages_absent)]
    paths = [file.path for concern in wanted for file in concern.files]
    paths += [argument.file for concern in wanted for argument in concern.arguments]
    sysctls = [sysctl.key for concern in wanted for sysctl in concern.sysctls]
    units = [unit.name for concern in wanted for unit in concern.units]
    folders = [folder.path for concern in wanted for folder in concern.directories]
    for journal in journals:
        packages += journal.packages
        paths += [*journal.files, *journal.arguments]
        sysctls += journal.sysctls
        units += journal.units
        folders += journal.directories
    names = [name for journal in journals for name in journal.users]
    modules = dict.fromkeys(module.name for concern in wanted for module in concern.modules)
    files = {path: machine.files.read(path) for path in dict.fromkeys(paths)}
    for file in (file for concern in wanted for file in concern.files if file.unless is not None):
        if machine.commands.holds(file.unless or ""):
            files[file.path] = file_target(file)
    return Found(
        installed=machine.packages.installed(list(dict.fromkeys(packages))),
        users={user.name: machine.accounts.read(user) for concern in wanted for user in concern.users},
        journal_users=frozenset(name for name in names if machine.accounts.exists(name)),
        directories={path: machine.files.read_directory(path) for path in dict.fromkeys(folders)},
        files=files,
        modules=frozenset(name for name in modules if machine.kernel.loaded(name)),
        sysctls={key: machine.kernel.read(key) for key in dict.fromkeys(sysctls)},
        units=machine.units.read(list(dict.fromkeys(units))),
        waiting=frozenset(machine.boots.waiting()),
    )


def diff(wanted: Concern, found: Found, journal: Journal, shared: frozenset[str] = frozenset()) -> list[Change]:
    """What must change for *wanted*, in the order in which it will. *shared* are packages that other concerns name. Pure."""
    changes = [
        *_package_changes(wanted, found, journal, shared),
        *user_changes(wanted, found, journal),
        *_directory_changes(wanted, found, journal),
        *_file_changes(wanted, found, journal),
        *_argument_changes(wanted, found, journal),
        *(
            ("module", module.name, "not loaded", "loaded")
            for module in wanted.modules
            if module.name not in found.modules
        ),
        *sysctl_changes(wanted, found, journal),
        *_unit_changes(wanted, found, journal),
        *(("command", command, "did not see the new file", "sees it") for command in journal.run),
        *(("restart", name, "runs with an old file", "runs with the new file") for name in sorted(journal.restart)),
        *(("reload", name, "reads an old file", "reads the new file") for name in sorted(journal.reload)),
    ]
    return [Change(wanted.name, *change) for change in changes]


_Change = tuple[str, str, str, str]


def stale(placed: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Those of *placed* that are not *wanted* any more."""
    keep = set(wanted)
    return [name for name in placed if name not in keep]


def leftover(wanted: Concern, journal: Journal) -> bool:
    """Whether the journal names things that the concern no longer states."""
    return any(
        (
            stale(journal.packages, wanted.packages),
            stale(journal.users, [user.name for user in wanted.users]),
            stale(journal.directories, [folder.path for folder in wanted.directories]),
            stale(journal.files, [file.path for file in wanted.files]),
            stale_arguments(wanted, journal),
            stale(journal.sysctls, [sysctl.key for sysctl in wanted.sysctls]),
            stale(journal.units, [unit.name for unit in wanted.units]),
        )
    )


# --- packages, users --------------------------------------------------------------------------------------------------


def _package_changes(wanted: Concern, found: Found, journal: Journal, shared: frozenset[str]) -> list[_Change]:
    missing = [name for name in wanted.packages if name not in found.installed]
    unwanted = [name for name in wanted.packages_absent if name in found.installed]
    gone = [name for name in stale(journal.packages, wanted.packages) if name in found.installed - shared]
    return [
        *(("package", name, "absent", "installed") for name in missing),
        *(("package", name, "installed", "absent") for name in dict.fromkeys([*unwanted, *gone])),
    ]


def user_changes(wanted: Concern, found: Found, journal: Journal) -> list[_Change]:
    """The changes of users."""
    changes = []
    for user in wanted.users:
        state = found.users[user.name]
        target = UserState(user.comment, user.home, user.shell, frozenset(user.groups), home_exists=True)
        if state is None:
            changes.append(("user", user.name, "absent", _account(target)))
            continue
        if not user.create_home:
            target = UserState(user.comment, user.home, user.shell, frozenset(user.groups), state.home_exists)
        if state != target:
            changes.append(("user", user.name, _account(state), _account(target)))
    gone = stale(journal.users, [user.name for user in wanted.users])
    return changes + [("user", name, "present", "absent") for name in gone if name in found.journal_users]


def _account(state: UserState) -> str:
    groups = f", in {','.join(sorted(state.groups))}" if state.groups else ""
    home = "" if state.home_exists else " (missing)"
    return (
        f"{state.comment}, home {state.home}{home}, shell {state.shell}{groups}{'' if state.whole else ', half made'}"
    )


# --- folders, files, the kernel command line --------------------------------------------------------------------------


def directory_target(folder: Directory) -> DirectoryState:
    """The state that *folder* asks for."""
    return DirectoryState(folder.owner, folder.group, folder.mode)


def _directory_changes(wanted: Concern, found: Found, journal: Journal) -> list[_Change]:
    targets: list[tuple[str, DirectoryState | None]] = [
        (folder.path, directory_target(folder)) for folder in wanted.directories
    ]
    for path in stale(journal.directories, [path for path, _ in targets]):
        before = journal.directories[path]
        targets.append((path, None if before is None else DirectoryState(*before)))
    return [
        ("folder", path, _folder(found.directories[path]), _folder(target))
        for path, target in targets
        if found.directories[path] != target
    ]


def _folder(state: DirectoryState | None) -> str:
    return "absent" if state is None else f"{state.owner}:{state.group} {state.mode:04o}"


def file_target(file: File) -> FileState:
    """The state that *file* asks for."""
    return FileState(file.content, file.owner, file.group, file.mode)


def restored(original: Original) -> FileState | None:
    """The state of a file before the concern came, None when there was none. A secret's content must have been fetched."""
    if original.content is None or original.owner is None or original.group is None or original.mode is None:
        return None
    return FileState(original.content, original.owner, original.group, original.mode)


def _file_changes(wanted: Concern, found: Found, journal: Journal) -> list[_Change]:
    targets: list[tuple[str, FileState | None, bool]] = [
        (file.path, file_target(file), file.secret) for file in wanted.files
    ]
    gone = stale(journal.files, [file.path for file in wanted.files])
    targets += [(path, restored(journal.files[path]), journal.files[path].secret) for path in gone]
    return [
        ("file", path, *_contents(found.files[path], target, secret=secret))
        for path, target, secret in targets
        if found.files[path] != target
    ]


def _contents(before: FileState | None, after: FileState | None, *, secret: bool) -> tuple[str, str]:
    """Both contents; owner and mode on a first line where they differ."""

    def shown(state: FileState | None, other: FileState | None, hidden: str) -> str:
        if state is None:
            return ""
        same = other is not None and (state.owner, state.group, state.mode) == (other.owner, other.group, other.mode)
        content = hidden if secret else state.content
        return content if same else f"({state.owner}:{state.group} {state.mode:04o})\n{content}"

    differs = before is not None and after is not None and before.content != after.content
    return shown(before, after, HIDDEN), shown(after, before, f"(another {HIDDEN[1:]}" if differs else HIDDEN)


def stale_arguments(wanted: Concern, journal: Journal) -> list[tuple[str, str]]:
    """File and argument of those that the concern placed and no longer states."""
    keep = {(argument.file, argument.argument) for argument in wanted.arguments}
    placed = [(path, argument) for path, given in journal.arguments.items() for argument in given]
    return [entry for entry in placed if entry not in keep]


def gives_way(argument: Argument, line: Sequence[str], wanted: Concern) -> list[str]:
    """Other values of *argument*'s key in *line* that *wanted* does not state itself."""
    keep = {other.argument for other in wanted.arguments if other.file == argument.file}
    return [word for word in line if word.partition("=")[0] == argument.key and word not in keep]


def _argument_changes(wanted: Concern, found: Found, journal: Journal) -> list[_Change]:
    changes = []
    for argument in wanted.arguments:
        line = found.line(argument.file) or []
        others = gives_way(argument, line, wanted)
        if argument.argument not in line or others:
            changes.append(("kernel argument", argument.argument, " ".join(others) or "absent", argument.argument))
    for path, gone in stale_arguments(wanted, journal):
        if gone in (found.line(path) or []):
            changes.append(("kernel argument", gone, gone, " ".join(journal.arguments[path][gone]) or "absent"))
    return changes


# --- parameters, units ------------------------------------------------------------------------------------------------


def sysctl_changes(wanted: Concern, found: Found, journal: Journal) -> list[_Change]:
    """The changes of live kernel parameters."""
    targets = [(sysctl.key, sysctl.value) for sysctl in wanted.sysctls]
    targets += [(key, journal.sysctls[key]) for key in stale(journal.sysctls, [key for key, _ in targets])]
    return [
        ("sysctl", key, found.sysctls[key] or "not shown", value)
        for key, value in targets
        if found.sysctls[key] != value
    ]


def unit_target(unit: Unit) -> UnitState:
    """The state that *unit* asks for: a masked one is off whatever else is said."""
    return UnitState(unit.enabled and not unit.masked, unit.active and not unit.masked, unit.masked)


def unit_targets(wanted: Concern, found: Found, journal: Journal) -> list[Unit]:
    """The units of the concern, and those that go back to what they were; of one that waits for a boot, whether it runs stays as it is."""
    gone = stale(journal.units, [unit.name for unit in wanted.units])
    stated = [
        unit if found.waiting.isdisjoint(unit.after_boot) else replace(unit, active=found.units[unit.name].active)
        for unit in wanted.units
    ]
    return [*stated, *(Unit(name, *journal.units[name]) for name in gone)]


def _unit_changes(wanted: Concern, found: Found, journal: Journal) -> list[_Change]:
    return [
        ("unit", unit.name, _service(found.units[unit.name]), _service(unit_target(unit)))
        for unit in unit_targets(wanted, found, journal)
        if found.units[unit.name] != unit_target(unit)
    ]


def _service(state: UnitState) -> str:
    masked = ", masked" if state.masked else ""
    return f"{'enabled' if state.enabled else 'disabled'}, {'active' if state.active else 'inactive'}{masked}"
