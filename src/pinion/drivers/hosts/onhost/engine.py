"""Check, converge, go back: what a run does on a host, for all its concerns together, over any `Machine`.

What the journal says a concern placed, and the concern no longer states, is taken back in the same run, unless another concern states it
now: that one takes it over. A *whole* run also takes back every concern that the host has and the plan has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from .found import Change, Found, diff, leftover, read
from .handover import Thing, hand_over, owners
from .history import History, freeze, thaw
from .journal import Journal
from .machine import HostError, Machine
from .placing import CONFIRM_SECONDS, Placing, note_boot, note_packages
from .wanted import Concern, File

__all__ = ["CONFIRM_SECONDS", "Change", "Report", "back", "check", "confirm", "converge", "undo"]

Work = list[tuple[Concern, Journal]]
#: What a host's concerns beside those of a run state, by concern.
Others = Mapping[str, Iterable[Thing]]
_NONE: Others = {}


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found and did. *confirm* names the concerns that ask for `confirm` over a fresh login; *waited* are seconds spent behind
    another run. *reboot* is what waits for the next boot, *notes* is what stays although its concern is gone, and why. *needs* are files
    that the host needs and whose content was held back: nothing was done then, and the same request is to be put again with it. *asks*
    are concerns whose host waits for the operator's machine to approve something.
    """

    changes: tuple[Change, ...]
    confirm: tuple[str, ...] = ()
    waited: float = 0.0
    reboot: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The report as JSON data."""
        return asdict(self)


@dataclass(slots=True)
class _Run:
    """The work of one run: retired concerns first, in an order of their own, then the others in the plan's.

    *undoes* names the run that it takes back, if any.
    """

    machine: Machine
    work: Work
    history: History = field(default_factory=History)
    name: str = ""
    undoes: str = ""
    kept: str = ""
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def read(self) -> Found:
        return read(self.machine, self.work)

    def shared(self, concern: Concern) -> frozenset[str]:
        """The packages that other concerns name or brought."""
        others = [(other, journal) for other, journal in self.work if other.name != concern.name]
        return frozenset(name for other, journal in others for name in (*other.packages, *journal.packages))

    def diff(self, concern: Concern, found: Found, journal: Journal) -> list[Change]:
        return diff(concern, found, journal, self.shared(concern))

    def shape(self, concern: Concern) -> dict[str, object] | None:
        """The concern as the history keeps it, None for one that asks for nothing."""
        return None if concern == Concern(concern.name) else freeze(concern, self.machine.vault.keep)

    def keep_history(self) -> None:
        """Write the history if it has changed."""
        text = self.history.to_json()
        if text != (self.kept or self.machine.journals.read_history().to_json()):
            self.machine.journals.write_history(self.history)
        self.kept = text


def check(machine: Machine, wanted: Sequence[Concern], *, whole: bool = False, others: Others = _NONE) -> Report:
    """What `converge` would change. Changes nothing and takes no lock."""
    run = _Run(machine, _work(machine, wanted, others, whole=whole, write=lambda *_: None))
    found = run.read()
    changes = [change for concern, journal in run.work for change in run.diff(concern, found, journal)]
    return _report(machine, run, changes, waited=0.0)


def needed(machine: Machine, wanted: Sequence[Concern]) -> tuple[str, ...]:
    """The files of *wanted* whose content is held back and which the host cannot do without."""
    held_back = (file for concern in wanted for file in concern.files if file.held_back)
    return tuple(file.path for file in held_back if file.unless is None or not machine.commands.holds(file.unless))


def converge(
    machine: Machine,
    wanted: Sequence[Concern],
    *,
    wait: float,
    who: str,
    whole: bool = False,
    name: str = "",
    others: Others = _NONE,
) -> Report:
    """Bring the host to *wanted*. Waits up to *wait* seconds behind another run. Raises `HostError`; running again goes on from there.

    *name* is what the controller calls the run; `back` with that name takes the host to where it was before. What *others* state is left to
    them, whoever placed it.
    """
    with machine.guard.lock(wait, who) as waited:
        work = _work(machine, wanted, others, whole=whole, write=machine.journals.write)
        return _converge(_Run(machine, work, machine.journals.read_history(), name), waited)


def undo(machine: Machine, names: Sequence[str], *, wait: float, who: str, name: str = "") -> Report:
    """Take back all that the concerns *names* placed, and only that. Packages that others need, and users' homes, stay."""
    return converge(machine, [Concern(concern) for concern in names], wait=wait, who=who, name=name)


def back(machine: Machine, run: str, means: Sequence[Concern] = (), *, wait: float, who: str, name: str = "") -> Report:
    """Take every concern that the run called *run* changed back to what it was before; what is not from there stays as it is.

    Only the last run that changed the host can be taken back; of another one nothing is left to go by, and a note says so. A way back that
    was killed or failed is gone on with. A concern that cannot go back does not hold up the others. *means* has, by concern and path, the
    files that are kept nowhere because they are made anew when they are needed; the host takes of them only what it needs.
    """
    with machine.guard.lock(wait, who) as waited:
        history = machine.journals.read_history()
        goal = history.way_back(run)
        if goal is None:
            last = history.run or "none"
            return Report(
                (), waited=waited, notes=(f"run {run} changed nothing here, or another came after it: {last}",)
            )
        new = [Concern(concern) for concern, data in goal.items() if data is None]
        old = [_with(means, thaw(data, machine.vault.fetch)) for data in goal.values() if data is not None]
        if needs := needed(machine, [_offered(means, concern) for concern in old]):
            return Report((), waited=waited, needs=needs)
        work = _work(machine, [*reversed(new), *old], _NONE, whole=False, write=machine.journals.write)
        return _converge(_Run(machine, work, history, name, undoes=run), waited)


def confirm(machine: Machine, names: Sequence[str], *, wait: float, who: str) -> None:
    """Say over a fresh login that the change is good; another run may have said so before.

    Raises `HostError` when the host has already put back the old files.
    """
    with machine.guard.lock(wait, who):
        late = [name for name in names if not machine.guard.disarm(name) and machine.guard.undone(name)]
    if late:
        said = "nothing to confirm: the host has already put back what was there before; run again"
        raise HostError(f"{', '.join(late)}: {said}")


def _work(
    machine: Machine,
    wanted: Sequence[Concern],
    others: Others,
    *,
    whole: bool,
    write: Callable[[str, Journal], None],
) -> Work:
    """The concerns and their journals, after what has another owner now was handed over."""
    asked = [concern.name for concern in wanted]
    kept = machine.journals.names()
    journals = {name: machine.journals.read(name) for name in dict.fromkeys([*kept, *asked, *others])}
    hand_over(journals, owners(wanted, others), write)
    retired = [Concern(name) for name in kept if whole and name not in asked]
    return [(concern, _with_secrets(machine, journals[concern.name])) for concern in [*retired, *wanted]]


def _with_secrets(machine: Machine, journal: Journal) -> Journal:
    """*journal* with the contents of secret files."""
    for original in journal.files.values():
        if original.kept is not None:
            original.content = machine.vault.fetch(original.kept)
    return journal


def _made(means: Sequence[Concern], concern: Concern) -> dict[str, File]:
    """What *means* has for *concern*, by path."""
    return {file.path: file for other in means if other.name == concern.name for file in other.files}


def _offered(means: Sequence[Concern], concern: Concern) -> Concern:
    """*concern* less all that *means* does not have."""
    made = _made(means, concern)
    return replace(concern, files=tuple(file for file in concern.files if file.path in made))


def _with(means: Sequence[Concern], concern: Concern) -> Concern:
    """*concern* with what *means* has of its files that are made anew."""
    made = _made(means, concern)
    files = tuple(
        replace(file, content=made[file.path].content, held_back=made[file.path].held_back)
        if file.held_back and file.path in made
        else file
        for file in concern.files
    )
    return replace(concern, files=files)


def _converge(run: _Run, waited: float) -> Report:
    machine = run.machine
    machine.journals.sweep()
    for concern, journal in run.work:
        machine.files.sweep([*journal.files, *(file.path for file in concern.files)])
    found = run.read()
    foretold = [change for concern, journal in run.work for change in run.diff(concern, found, journal)]
    _remember(run)
    try:
        if foretold or any(leftover(concern, journal) for concern, journal in run.work):
            _install(run, found)
            _each(run)
            _prune(run)
        else:
            for concern, _ in run.work:  # a run that was killed at its very end has not noted them
                _reached(run, concern)
    finally:
        run.keep_history()
        for concern, _ in run.work:
            # The time for the fresh login starts now: other concerns may have taken long.
            if foretold and machine.guard.armed(concern.name):
                machine.guard.arm(concern.name, {}, [], CONFIRM_SECONDS)
    seen = {(change.concern, change.kind, change.subject) for change in foretold}
    late = [change for change in run.changes if (change.concern, change.kind, change.subject) not in seen]
    return _report(machine, run, [*foretold, *late], waited=waited)


def _report(machine: Machine, run: _Run, changes: list[Change], *, waited: float) -> Report:
    armed = tuple(concern.name for concern, _ in run.work if machine.guard.armed(concern.name))
    return Report(tuple(changes), armed, waited, machine.boots.waiting(), tuple(run.notes))


def _install(run: _Run, found: Found) -> None:
    """What the package system reads, then the packages of all concerns at once: the package system is slow to start.

    When that fails, each concern tries its own: one of them may bring the archive that another needs, and the error names the concern.
    """
    ready: Work = []
    for concern, journal in run.work:
        with suppress(HostError):
            Placing(run.machine, concern, found, journal, frozenset()).prepare()
            ready.append((concern, journal))
    missing: list[str] = []
    for concern, journal in ready:
        new = [name for name in concern.packages if name not in found.installed]
        if new:
            note_packages(concern, found.installed, journal)
            run.machine.journals.write(concern.name, journal)
            note_boot(run.machine, concern, found.installed)
            missing += new
    if missing:
        with suppress(HostError):
            run.machine.packages.install(list(dict.fromkeys(missing)))


def _each(run: _Run) -> None:
    """Bring the concerns about, one after the other; on the way back, all that can be, before the reasons of the others are raised."""
    refused: list[str] = []
    for concern, journal in run.work:
        try:
            _one(run, concern, journal)
        except HostError as error:
            if not run.undoes:
                raise
            refused.append(str(error))
        else:
            _reached(run, concern)
    if refused:
        raise HostError("; ".join(refused))


def _one(run: _Run, concern: Concern, journal: Journal) -> None:
    """Bring one concern about; read afresh, because those before it may have changed what it needs."""
    machine = run.machine
    found = read(machine, [(concern, journal)])
    changes = run.diff(concern, found, journal)
    if not changes and not leftover(concern, journal):
        return
    placing = Placing(machine, concern, found, journal, run.shared(concern))
    try:
        placing.apply()
    except HostError as error:
        raise HostError(f"{concern.name}: {error}") from error
    left = run.diff(concern, read(machine, [(concern, journal)]), journal)
    if left:
        said = "; ".join(f"{change.kind} {change.subject} ({change.before!r})" for change in left)
        raise HostError(f"{concern.name}: did not take: {said}")
    run.changes += changes
    run.notes += placing.notes


def _remember(run: _Run) -> None:
    """Note what the concerns that this run gives another shape were before, for the way back; and where it goes, if it is one itself."""
    history = run.history
    before = {
        concern.name: history.reached.get(concern.name)
        for concern, _ in run.work
        if history.reached.get(concern.name) != run.shape(concern)
    }
    if before:
        goal = (history.way_back(run.undoes) or {}) if run.undoes else {}
        goes_on = history.run == run.name or (run.undoes and history.undoes == run.undoes)
        history.before = {**before, **(history.before if goes_on else {})}
        history.run, history.undoes, history.goal = run.name, run.undoes, goal
        run.keep_history()


def _reached(run: _Run, concern: Concern) -> None:
    shape = run.shape(concern)
    if shape is None:
        run.history.reached.pop(concern.name, None)
    else:
        run.history.reached[concern.name] = shape


def _prune(run: _Run) -> None:
    """Drop secrets that nothing needs any more."""
    journals = [journal for _, journal in run.work]
    asked = {concern.name for concern, _ in run.work}
    journals += [run.machine.journals.read(name) for name in run.machine.journals.names() if name not in asked]
    originals = [original.kept for journal in journals for original in journal.files.values()]
    run.machine.vault.prune(run.history.secrets() | {kept for kept in originals if kept is not None})
