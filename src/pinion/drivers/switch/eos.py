"""Arista EOS: a change is a configuration session with a commit timer, confirmed by a fresh login; else the switch undoes it.

Order of one change, and what a death after each step leaves behind:

1. take the lock of this machine; look at the sessions on the switch         nothing
2. read the running configuration                                            nothing
3. load the whole scope into the session ``pinion-<owner>-<tail>``           a pending session: the next run aborts it
4. nobody else at work, running configuration still the same?                as 3
5. commit with a timer                                                       the switch goes back by itself, or the next run confirms
6. log in afresh, read back, compare                                         as 5
7. confirm, read back, compare                                               the new configuration, not saved: the next run saves it
8. save to the start-up configuration, read back both, compare               the new configuration
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from pinion.drivers.switch.access import SwitchAccess
from pinion.drivers.switch.diff import Change, SwitchDiff, compare, emptied
from pinion.drivers.switch.eos_parser import parse
from pinion.drivers.switch.eos_sessions import LIST_SESSIONS, PREFIX, ConfigSession, parse_sessions
from pinion.drivers.switch.eos_shell import EosShell, login
from pinion.drivers.switch.errors import (
    CommandRefusedError,
    LoginRefusedError,
    NotConfirmedError,
    NotConvergedError,
    SwitchBusyError,
    SwitchUnreachableError,
)
from pinion.drivers.switch.lock import locked, owner
from pinion.drivers.switch.replacement import eos_commands
from pinion.plan.model import SwitchPlan, SwitchState

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Seconds before the end of the commit timer at which we stop trying to log in: the confirmation itself needs a moment.
_MARGIN = 3.0
_SAVE = "copy running-config startup-config"


class _OvertakenError(Exception):
    """Somebody else changed the switch, or began to, while our session was being loaded. Nothing was committed."""


class EosDriver:
    """The `SwitchDriver` of Arista EOS. *name* is the switch's name in the plan."""

    def __init__(self, name: str, access: SwitchAccess) -> None:
        self._name = name
        self._access = access
        self._called = f"{name} ({access.host}:{access.port})"

    def read(self) -> SwitchState:
        """See `SwitchDriver.read`."""
        return self._again(lambda: self._with_shell(self._state))

    def diff(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        """See `SwitchDriver.diff`."""
        return compare(self.read(), want, previous)

    def apply(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        """See `SwitchDriver.apply`."""
        folder = self._access.lock_folder
        with locked(folder, self._access.host, self._access.port, self._called, self._access.wait_for_others):
            run = _Run(self._name, self._called, self._access, want, previous)
            done = self._again(run.once)
            return run.first if done.empty and run.first is not None else done

    def undo(self, had: SwitchPlan) -> SwitchDiff:
        """See `SwitchDriver.undo`."""
        return self.apply(emptied(had), had)

    def _state(self, shell: EosShell) -> SwitchState:
        return read_state(shell, self._called)

    def _with_shell(self, work: Callable[[EosShell], _T]) -> _T:
        with login(self._access, self._called) as shell:
            return work(shell)

    def _again(self, work: Callable[[], _T]) -> _T:
        """Do *work*, which is safe to repeat, again when the connection fails or somebody overtook us; a bounded number of times."""
        for attempt in range(1, self._access.attempts + 1):
            try:
                return work()
            except SwitchUnreachableError as error:
                if attempt == self._access.attempts:
                    raise
                _log.info("%s; trying again (%d of %d)", error, attempt + 1, self._access.attempts)
            except _OvertakenError as error:
                if attempt == self._access.attempts:
                    raise SwitchBusyError(
                        self._called, str(error), hint="run again when nobody else configures it"
                    ) from None
                _log.info(
                    "switch %s: %s; trying again (%d of %d)", self._called, error, attempt + 1, self._access.attempts
                )
            time.sleep(0.5 * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        raise AssertionError


def read_state(shell: EosShell, switch: str) -> SwitchState:
    """The declared scope of the switch that *shell* is logged in to."""
    running = parse(shell.command("show running-config"))
    try:
        startup = parse(shell.command("show startup-config"))
    except CommandRefusedError:
        startup = SwitchState()  # a switch that was never saved has none
    armed = next((session for session in sessions(shell, switch) if session.armed), None)
    return running.model_copy(update={"saved": running == startup, "unconfirmed": armed.name if armed else None})


def sessions(shell: EosShell, switch: str) -> tuple[ConfigSession, ...]:
    """The configuration sessions on the switch that are not over."""
    try:
        return parse_sessions(shell.command(LIST_SESSIONS))
    except ValueError as error:
        raise CommandRefusedError(
            switch, str(error), command=LIST_SESSIONS, hint="is it an Arista EOS switch, 4.17 or later?"
        ) from error


def significant(text: str) -> str:
    """A configuration without its comment lines, some of which hold a time."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("!"))


class _Run:
    """One convergence of one switch, under the lock. `once` may be called again after it failed."""

    def __init__(
        self, name: str, called: str, access: SwitchAccess, want: SwitchPlan, previous: SwitchPlan | None
    ) -> None:
        self._name = name
        self._called = called
        self._access = access
        self._want = want
        self._previous = previous
        self._owner = owner(access.lock_folder)
        self.first: SwitchDiff | None = None

    def once(self) -> SwitchDiff:
        """Bring the switch to the plan and return what differed."""
        with login(self._access, self._called) as shell:
            self._settle(shell)
            before = significant(shell.command("show running-config"))
            state = read_state(shell, self._called)
            diff = compare(state, self._want, self._previous)
            if diff.empty:
                return diff
            self.first = self.first or diff
            if diff.only_unsaved:
                shell.command(_SAVE)
                return diff
            session = f"{PREFIX}{self._owner}-{secrets.token_hex(4)}"
            try:
                self._commit(shell, session, eos_commands(state, self._want, self._previous), before)
            except _OvertakenError:
                self._abort(shell, session)
                raise
            except CommandRefusedError as error:
                gone = all(known.name != session for known in sessions(shell, self._called))
                self._abort(shell, session)
                if gone:  # between its end and its commit nobody is in it: to another machine's run it looks like a dead one's
                    raise _OvertakenError(f"another run cleared configuration session {session} away") from error
                raise
        self._confirm(session)
        return diff

    # --- before ---

    def _settle(self, shell: EosShell) -> None:
        """Clear away what dead runs left behind, and wait for whoever is alive."""
        give_up = time.monotonic() + self._access.wait_for_others
        while (busy := self._blocking(shell)) is not None:
            if time.monotonic() >= give_up:
                at_work = "waits for its confirmation" if busy.armed else f"is in use by {', '.join(busy.users)}"
                raise SwitchBusyError(
                    self._called,
                    f"configuration session {busy.name} {at_work}",
                    hint=f"wait for it, or end it on the switch: configure session {busy.name} abort",
                )
            time.sleep(min(1.0, self._access.wait_for_others / 10 + 0.05))

    def _blocking(self, shell: EosShell) -> ConfigSession | None:
        blocking = None
        for session in sessions(shell, self._called):
            if session.of(self._owner):
                if session.armed and not self._differences(shell):
                    _log.info("switch %s: confirming session %s of a run that died", self._called, session.name)
                    shell.command(f"configure session {session.name} commit")
                else:
                    self._abort(shell, session.name)
            elif session.armed or (session.of_pinion and session.users):
                blocking = session
            elif session.of_pinion:
                self._abort(shell, session.name)
        return blocking

    # --- the change ---

    def _commit(self, shell: EosShell, session: str, commands: list[str], before: str) -> None:
        shell.command(f"configure session {session}")
        for command in commands:
            shell.command(command)
        shell.command("end")
        others = [other for other in sessions(shell, self._called) if other.name != session]
        if any(other.armed or (other.of_pinion and other.users) for other in others):
            raise _OvertakenError("another run is at work on this switch")
        if significant(shell.command("show running-config")) != before:
            raise _OvertakenError("its configuration was changed by somebody else at the same moment")
        _log.debug("switch %s: %s", self._called, shell.command(f"show session-config named {session} diffs"))
        hours, rest = divmod(self._access.confirm_within, 3600)
        timer = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        try:
            shell.command(f"configure session {session} commit timer {timer}")
        except CommandRefusedError as error:
            if "pending commit timer" in error.reason:
                raise _OvertakenError("another change waits for its confirmation") from error
            raise

    def _abort(self, shell: EosShell, session: str) -> None:
        with suppress(CommandRefusedError):
            shell.command("end")
        _log.info("switch %s: aborting configuration session %s", self._called, session)
        with suppress(CommandRefusedError):
            shell.command(f"configure session {session} abort")

    # --- after ---

    def _confirm(self, session: str) -> None:
        """Prove by fresh logins that the switch is reachable and holds the plan, before it is confirmed and after."""
        give_up = time.monotonic() + self._access.confirm_within - _MARGIN
        while True:
            try:
                with login(self._access, self._called) as shell:
                    self._prove(shell, session)
                return
            except (SwitchUnreachableError, LoginRefusedError) as error:
                if time.monotonic() >= give_up:
                    back = f"the switch goes back to its former configuration within {self._access.confirm_within} s"
                    asked = "is where this runs among concerns.firewall.operators? " if self._want.ssh_sources else ""
                    raise NotConfirmedError(
                        self._called,
                        f"the change could not be confirmed by a fresh login: {error.reason}",
                        command=error.command,
                        hint=f"{asked}{back}; then run again",
                    ) from error
                time.sleep(0.5)

    def _prove(self, shell: EosShell, session: str) -> None:
        """Confirm a change that holds the plan, and save it; then read all again: the switch may go back between two of our commands."""
        if self._armed(shell, session):
            if wrong := self._differences(shell):
                self._abort(shell, session)
                raise NotConvergedError(
                    self._called, f"after the change it still differs ({_some(wrong)})", hint="the change was undone"
                )
            try:
                shell.command(f"configure session {session} commit")
            except CommandRefusedError:
                if self._armed(shell, session):
                    raise  # else its timer ran out meanwhile: what the switch holds now says more than its refusal
        if wrong := self._differences(shell):
            raise NotConfirmedError(
                self._called, f"the switch undid the change before it was confirmed ({_some(wrong)})", hint="run again"
            )
        shell.command(_SAVE)
        if wrong := compare(read_state(shell, self._called), self._want, self._previous).changes:
            raise NotConfirmedError(
                self._called, f"read again after the confirmation it differs ({_some(wrong)})", hint="run again"
            )

    def _armed(self, shell: EosShell, session: str) -> bool:
        return any(known.armed and known.name == session for known in sessions(shell, self._called))

    def _differences(self, shell: EosShell) -> tuple[Change, ...]:
        """How the running configuration differs from the plan."""
        running = parse(shell.command("show running-config"))
        return compare(running, self._want, self._previous).changes


def _some(changes: Sequence[Change]) -> str:
    """The first of *changes*, for an error."""
    return "; ".join(map(str, changes[:5]))
