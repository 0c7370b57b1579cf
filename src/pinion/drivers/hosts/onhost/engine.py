"""Read, compare, apply: the one order of steps in which a concern comes to be on a host, over any `Machine`.

Order: packages, users, files (all validated before the first is placed), live kernel parameters, units, reloads. What the journal says a
concern placed, and the concern no longer states, is taken back in the same run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from .journal import Journal, Original
from .machine import FileState, HostError, Machine, UnitState, UserState
from .wanted import Concern, File, Unit

#: Time for the controller to log in afresh after a change that could lock it out. Longer than any sane connect with retries.
CONFIRM_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs: *before* and *after* are short texts, or whole contents for a file."""

    kind: str
    subject: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found and did. *confirm* asks for `confirm` over a fresh login; *waited* are seconds spent behind another run."""

    changes: tuple[Change, ...]
    confirm: bool
    waited: float = 0.0

    def as_json(self) -> dict[str, object]:
        """The report as JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Found:
    """The state of everything that the concern or its journal names."""

    installed: frozenset[str]
    users: dict[str, UserState | None]
    journal_users: frozenset[str]
    files: dict[str, FileState | None]
    sysctls: dict[str, str | None]
    units: dict[str, UnitState]


def read(machine: Machine, wanted: Concern, journal: Journal) -> Found:
    """The state of everything that *wanted* or *journal* names. Changes nothing."""
    return Found(
        installed=machine.packages.installed([*wanted.packages, *wanted.packages_absent, *journal.packages]),
        users={user.name: machine.accounts.read(user) for user in wanted.users},
        journal_users=frozenset(name for name in journal.users if machine.accounts.exists(name)),
        files={path: machine.files.read(path) for path in [*(file.path for file in wanted.files), *journal.files]},
        sysctls={key: machine.kernel.read(key) for key in [*(s.key for s in wanted.sysctls), *journal.sysctls]},
        units=machine.units.read([*(unit.name for unit in wanted.units), *journal.units]),
    )


def diff(wanted: Concern, found: Found, journal: Journal) -> list[Change]:
    """What must change, in the order in which it will. Pure."""
    return [
        *_package_changes(wanted, found, journal),
        *_user_changes(wanted, found, journal),
        *_file_changes(wanted, found, journal),
        *_sysctl_changes(wanted, found, journal),
        *_unit_changes(wanted, found, journal),
        *(Change("reload", name, "reads an old file", "reads the new file") for name in sorted(journal.reload)),
    ]


def check(machine: Machine, wanted: Concern) -> Report:
    """What `converge` would change. Changes nothing and takes no lock."""
    journal = machine.journals.read(wanted.name)
    changes = diff(wanted, read(machine, wanted, journal), journal)
    return Report(tuple(changes), confirm=machine.guard.armed(wanted.name))


def converge(machine: Machine, wanted: Concern, *, wait: float, who: str) -> Report:
    """Bring the host to *wanted*. Waits up to *wait* seconds behind another run. Raises `HostError`; running again goes on from there."""
    with machine.guard.lock(wait, who) as waited:
        journal = machine.journals.read(wanted.name)
        found = read(machine, wanted, journal)
        changes = diff(wanted, found, journal)
        if changes or _leftover(wanted, journal):
            _apply(machine, wanted, found, journal)
            left = diff(wanted, read(machine, wanted, journal), journal)
            if left:
                raise HostError("did not take: " + "; ".join(f"{c.kind} {c.subject} ({c.before!r})" for c in left))
        return Report(tuple(changes), confirm=machine.guard.armed(wanted.name), waited=waited)


def undo(machine: Machine, name: str, *, wait: float, who: str) -> Report:
    """Take back all that the concern *name* placed, and only that. Packages that others need, and users' homes, stay."""
    return converge(machine, Concern(name), wait=wait, who=who)


def confirm(machine: Machine, wanted: Concern, *, wait: float, who: str) -> None:
    """Say over a fresh login that the change to *wanted* is good. Raises `HostError` when the host has already put back the old files.

    Nothing to confirm and the host as *wanted* means that another run at the same time has confirmed it: that is fine.
    """
    with machine.guard.lock(wait, who):
        if not machine.guard.disarm(wanted.name) and check(machine, wanted).changes:
            raise HostError(
                f"{wanted.name}: nothing to confirm: the host has already put back what was there before; run again"
            )


# --- what differs -----------------------------------------------------------------------------------------------------


def _package_changes(wanted: Concern, found: Found, journal: Journal) -> list[Change]:
    missing = [name for name in wanted.packages if name not in found.installed]
    unwanted = [name for name in wanted.packages_absent if name in found.installed]
    stale = [name for name in _stale(journal.packages, wanted.packages) if name in found.installed]
    return [
        *(Change("package", name, "absent", "installed") for name in missing),
        *(Change("package", name, "installed", "absent") for name in [*unwanted, *stale]),
    ]


def _user_changes(wanted: Concern, found: Found, journal: Journal) -> list[Change]:
    changes = []
    for user in wanted.users:
        state = found.users[user.name]
        target = UserState(user.comment, user.home, user.shell, frozenset(user.groups), home_exists=True)
        if state is None:
            changes.append(Change("user", user.name, "absent", _account(target)))
            continue
        if not user.create_home:
            target = UserState(user.comment, user.home, user.shell, frozenset(user.groups), state.home_exists)
        if state != target:
            changes.append(Change("user", user.name, _account(state), _account(target)))
    gone = _stale(journal.users, [user.name for user in wanted.users])
    return changes + [Change("user", name, "present", "absent") for name in gone if name in found.journal_users]


def _account(state: UserState) -> str:
    groups = f", in {','.join(sorted(state.groups))}" if state.groups else ""
    home = "" if state.home_exists else " (missing)"
    return (
        f"{state.comment}, home {state.home}{home}, shell {state.shell}{groups}{'' if state.whole else ', half made'}"
    )


def _target(file: File) -> FileState:
    return FileState(file.content, file.owner, file.group, file.mode)


def _restored(original: Original) -> FileState | None:
    if original.content is None or original.owner is None or original.group is None or original.mode is None:
        return None
    return FileState(original.content, original.owner, original.group, original.mode)


def _file_changes(wanted: Concern, found: Found, journal: Journal) -> list[Change]:
    targets: list[tuple[str, FileState | None]] = [(file.path, _target(file)) for file in wanted.files]
    stale = _stale(journal.files, [file.path for file in wanted.files])
    targets += [(path, _restored(journal.files[path])) for path in stale]
    return [
        Change("file", path, *_contents(found.files[path], target))
        for path, target in targets
        if found.files[path] != target
    ]


def _contents(before: FileState | None, after: FileState | None) -> tuple[str, str]:
    """Both contents; owner and mode on a first line where they differ."""

    def shown(state: FileState | None, other: FileState | None) -> str:
        if state is None:
            return ""
        same = other is not None and (state.owner, state.group, state.mode) == (other.owner, other.group, other.mode)
        return state.content if same else f"({state.owner}:{state.group} {state.mode:04o})\n{state.content}"

    return shown(before, after), shown(after, before)


def _sysctl_changes(wanted: Concern, found: Found, journal: Journal) -> list[Change]:
    targets = [(sysctl.key, sysctl.value) for sysctl in wanted.sysctls]
    targets += [(key, journal.sysctls[key]) for key in _stale(journal.sysctls, [key for key, _ in targets])]
    return [
        Change("sysctl", key, found.sysctls[key] or "not shown", value)
        for key, value in targets
        if found.sysctls[key] != value
    ]


def _unit_targets(wanted: Concern, journal: Journal) -> list[Unit]:
    stale = _stale(journal.units, [unit.name for unit in wanted.units])
    return [*wanted.units, *(Unit(name, *journal.units[name]) for name in stale)]


def _unit_changes(wanted: Concern, found: Found, journal: Journal) -> list[Change]:
    changes = []
    for unit in _unit_targets(wanted, journal):
        target, state = UnitState(unit.enabled, unit.active), found.units[unit.name]
        if state != target:
            changes.append(Change("unit", unit.name, _service(state), _service(target)))
    return changes


def _service(state: UnitState) -> str:
    return f"{'enabled' if state.enabled else 'disabled'}, {'active' if state.active else 'inactive'}"


def _leftover(wanted: Concern, journal: Journal) -> bool:
    """Whether the journal names things that the concern no longer states."""
    return any(
        (
            _stale(journal.packages, wanted.packages),
            _stale(journal.users, [user.name for user in wanted.users]),
            _stale(journal.files, [file.path for file in wanted.files]),
            _stale(journal.sysctls, [sysctl.key for sysctl in wanted.sysctls]),
            _stale(journal.units, [unit.name for unit in wanted.units]),
        )
    )


def _stale(placed: Iterable[str], wanted: Iterable[str]) -> list[str]:
    keep = set(wanted)
    return [name for name in placed if name not in keep]


# --- making it so -----------------------------------------------------------------------------------------------------


def _apply(machine: Machine, wanted: Concern, found: Found, journal: Journal) -> None:
    changed = [file for file in wanted.files if found.files[file.path] != _target(file)]
    dropped = _stale(journal.files, [file.path for file in wanted.files])
    _note(wanted, found, journal)
    machine.journals.write(wanted.name, journal)

    install = [name for name in wanted.packages if name not in found.installed]
    if install:
        machine.packages.install(install)
    for name in wanted.packages_absent:
        refusal = machine.packages.remove(name) if name in found.installed else None
        if refusal is not None:
            raise HostError(f"package {name} must go and cannot: {refusal}")
    for user in wanted.users:
        if any(change.subject == user.name for change in _user_changes(wanted, found, journal)):
            machine.accounts.put(user)
    _place(machine, wanted, found, journal, changed, dropped)
    for sysctl in _sysctl_changes(wanted, found, journal):
        machine.kernel.set(sysctl.subject, sysctl.after)
    for unit in _unit_targets(wanted, journal):
        if found.units[unit.name] != UnitState(unit.enabled, unit.active):
            machine.units.put(unit)
    for name in sorted(journal.reload):
        machine.units.reload(name)
    _take_back(machine, wanted, journal)
    journal.reload.clear()
    machine.journals.write(wanted.name, journal)


def _note(wanted: Concern, found: Found, journal: Journal) -> None:
    """Write into *journal* what is about to be placed and what was there; what it says already is older and stays."""
    journal.packages += [name for name in wanted.packages if name not in {*found.installed, *journal.packages}]
    new = [user.name for user in wanted.users if found.users[user.name] is None]
    journal.users += [name for name in new if name not in journal.users]
    for sysctl in wanted.sysctls:
        value = found.sysctls[sysctl.key]
        if value is not None and value != sysctl.value:
            journal.sysctls.setdefault(sysctl.key, value)
    for unit in wanted.units:
        state_of_unit = found.units[unit.name]
        if state_of_unit != UnitState(unit.enabled, unit.active):
            journal.units.setdefault(unit.name, (state_of_unit.enabled, state_of_unit.active))


def _note_files(found: Found, journal: Journal, changed: list[File], dropped: list[str]) -> None:
    """As `_note`, for files, and for the units that must then read them."""
    for file in changed:
        state = found.files[file.path]
        notify = sorted(file.notify)
        known = journal.files.get(file.path)
        if known is not None:
            known.notify, known.confirm = notify, file.confirm
        elif state is None:
            journal.files[file.path] = Original(None, None, None, None, notify, file.confirm)
        else:
            journal.files[file.path] = Original(
                state.content, state.owner, state.group, state.mode, notify, file.confirm
            )
    reload = [name for file in changed for name in file.notify]
    reload += [name for path in dropped for name in journal.files[path].notify]
    journal.reload += [name for name in dict.fromkeys(reload) if name not in journal.reload]


def _place(
    machine: Machine, wanted: Concern, found: Found, journal: Journal, changed: list[File], dropped: list[str]
) -> None:
    if not changed and not dropped:
        return
    for file in changed:
        problem = machine.files.validate(file)
        if problem is not None:
            raise HostError(f"{file.path}: refused by its validation, nothing was replaced: {problem}")
    _note_files(found, journal, changed, dropped)
    machine.journals.write(wanted.name, journal)
    risky = [file.path for file in changed if file.confirm]
    risky += [path for path in dropped if journal.files[path].confirm]
    if risky:
        units = sorted({name for path in risky for name in journal.files[path].notify})
        machine.guard.arm(wanted.name, {path: found.files[path] for path in risky}, units, CONFIRM_SECONDS)
    for file in changed:
        machine.files.put(file.path, _target(file))
    for path in dropped:
        original = _restored(journal.files[path])
        if original is None:
            machine.files.remove(path)
        else:
            machine.files.put(path, original)


def _take_back(machine: Machine, wanted: Concern, journal: Journal) -> None:
    """Remove what the concern brought and no longer states, and forget it."""
    for name in _stale(journal.packages, wanted.packages):
        machine.packages.remove(name)  # a refusal is fine: somebody else needs it now
        journal.packages.remove(name)
    for name in _stale(journal.users, [user.name for user in wanted.users]):
        machine.accounts.remove(name)
        journal.users.remove(name)
    for path in _stale(journal.files, [file.path for file in wanted.files]):
        del journal.files[path]
    for key in _stale(journal.sysctls, [sysctl.key for sysctl in wanted.sysctls]):
        del journal.sysctls[key]
    for name in _stale(journal.units, [unit.name for unit in wanted.units]):
        del journal.units[name]
