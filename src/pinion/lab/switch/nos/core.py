"""The switch itself: its running configuration, configuration sessions, commit timer, and the data plane that follows.

Invariants:

* The running configuration changes as a whole or not at all: a change that the data plane or the storage refuses is taken back and told.
* Whatever kills this process, the next one starts with the old or the new configuration and keeps the deadline of a running commit timer.
* Everything happens under one lock, one command at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from . import text
from .config import Config
from .dataplane import DataPlane, DataPlaneError, desired
from .grammar import CliError
from .loading import load
from .storage import ArmedTimer, Saved, Storage, uptime

_log = logging.getLogger("switch")

#: EOS's own limits on sessions.
MOST_PENDING = 5
MOST_COMPLETED = 1


class SessionState(StrEnum):
    """The states of a configuration session, as EOS calls them."""

    PENDING = "pending"
    ARMED = "pendingCommitTimer"
    COMPLETED = "completed"


@dataclass
class ConfigSession:
    """A configuration session: a candidate that starts as a copy of the running configuration. *terminals* (name to user) are in it now."""

    name: str
    config: Config
    user: str
    state: SessionState = SessionState.PENDING
    terminals: dict[str, str] = field(default_factory=dict)
    completed: datetime | None = None


class Switch:
    """One switch. *base* is its configuration out of the box, *clock* seconds since boot."""

    def __init__(self, storage: Storage, plane: DataPlane, base: Config, clock: Callable[[], float] = uptime) -> None:
        self.base = base
        self.plane = plane
        self.clock = clock
        self.sessions: dict[str, ConfigSession] = {}
        self.timer: ArmedTimer | None = None
        self.fault: str | None = None
        self._storage = storage
        self._lock = threading.RLock()
        self._numbered = 0
        self.running = self._restored()
        self.reconcile()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """One command at a time."""
        with self._lock:
            yield

    def _restored(self) -> Config:
        saved = self._storage.running()
        if saved is None:
            startup = self._storage.startup()
            return self.base if startup is None else self._loaded(startup, "startup-config")
        running = self._loaded(saved.running, "running-config")
        if saved.timer is not None:
            self.timer = saved.timer
            name = saved.timer.session
            self.sessions[name] = ConfigSession(name, running, user="", state=SessionState.ARMED)
        return running

    def _loaded(self, saved: str, what: str) -> Config:
        config, refused = load(saved, self.base)
        for line in refused:
            _log.error("%s: %s", what, line)
        return config

    # --- the running configuration ---

    def change(self, config: Config, timer: ArmedTimer | None = None) -> None:
        """Make *config* the running configuration, with *timer* armed. `CliError` when that fails; then nothing has changed."""
        before = self.running
        try:
            self.plane.apply(desired(config))
        except DataPlaneError as error:
            self._restore(before)
            raise CliError(f"% Error: data plane: {error}") from error
        try:
            self._storage.save_running(Saved(text.render(config), timer))
        except OSError as error:
            self._restore(before)
            raise CliError(f"% Error: cannot write running-config: {error.strerror}") from error
        self.running, self.timer, self.fault = config, timer, None

    def _restore(self, config: Config) -> None:
        try:
            self.plane.apply(desired(config))
        except DataPlaneError as error:
            self.fault = str(error)
            _log.error("data plane is out of step with running-config: %s", error)

    def reconcile(self) -> None:
        """Have the data plane hold the running configuration. What fails is kept in `fault`, and tried again at the next call."""
        with self._lock:
            try:
                self.plane.apply(desired(self.running))
            except DataPlaneError as error:
                if self.fault != str(error):
                    _log.error("data plane is out of step with running-config: %s", error)
                self.fault = str(error)
            else:
                self.fault = None

    def startup(self) -> str | None:
        """The text of the start-up configuration."""
        return self._storage.startup()

    def save(self) -> None:
        """Copy the running configuration to the start-up configuration. `CliError` when that fails."""
        try:
            self._storage.save_startup(text.render(self.running))
        except OSError as error:
            raise CliError(f"% Error: cannot write startup-config: {error.strerror}") from error

    # --- sessions ---

    def enter(self, name: str | None, user: str, terminal: str) -> ConfigSession:
        """Put *terminal* into the session *name*, made when it is new; without a name, into a new one. `CliError` when that can't be."""
        if name is None:
            self._numbered += 1
            name = f"sess-{self._numbered}"
        known = self.sessions.get(name)
        if known is not None and known.state is SessionState.ARMED:
            raise CliError(f"% Cannot enter session {name} (state pendingCommitTimer)")
        if known is None or known.state is SessionState.COMPLETED:
            if sum(session.state is SessionState.PENDING for session in self.sessions.values()) >= MOST_PENDING:
                raise CliError(
                    "% Maximum number of pending sessions has been reached. "
                    "Please commit or abort previous sessions before creating a new one."
                )
            known = self.sessions[name] = ConfigSession(name, self.running, user)
        known.terminals[terminal] = user
        return known

    def is_open(self, session: ConfigSession) -> bool:
        """True while *session* may still be edited."""
        return self.sessions.get(session.name) is session and session.state is SessionState.PENDING

    def leave(self, name: str, terminal: str) -> None:
        """Take *terminal* out of the session, which stays."""
        session = self.sessions.get(name)
        if session is not None:
            session.terminals.pop(terminal, None)

    def commit(self, name: str, seconds: int | None = None) -> None:
        """Commit the session *name*; with *seconds*, on trial; or confirm it when it is on trial already."""
        session = self._session(name)
        if self.timer is not None and self.timer.session != name:
            raise CliError(
                f"% Cannot commit session {name}: another session ({self.timer.session}) is pending commit timer"
            )
        if session.state is SessionState.ARMED and self.timer is not None:
            timer = None if seconds is None else ArmedTimer(name, self.clock() + seconds, self.timer.rollback)
            self._rewrite(timer)
            if timer is None:
                self._complete(session)
            return
        if session.state is not SessionState.PENDING:
            raise CliError(f"% Cannot commit session {name} (state {session.state})")
        if seconds is None:
            self.change(session.config)
            self._complete(session)
        else:
            self.change(session.config, ArmedTimer(name, self.clock() + seconds, text.render(self.running)))
            session.state = SessionState.ARMED
        session.terminals.clear()

    def abort(self, name: str) -> None:
        """Give up the session *name*; when it is on trial, go back at once."""
        session = self._session(name)
        if session.state is SessionState.COMPLETED:
            raise CliError(f"% Cannot abort session {name} (state {session.state})")
        if session.state is SessionState.ARMED:
            self._go_back()
        else:
            del self.sessions[name]

    def tick(self) -> None:
        """Go back when the commit timer has run out."""
        with self._lock:
            if self.timer is not None and self.clock() >= self.timer.deadline:
                _log.warning("commit timer of session %s ran out: going back", self.timer.session)
                try:
                    self._go_back()
                except CliError as error:
                    _log.error("going back failed, will be tried again: %s", error)

    def _go_back(self) -> None:
        if self.timer is None:
            return
        session = self.timer.session
        self.change(self._loaded(self.timer.rollback, "rollback"))
        self.sessions.pop(session, None)

    def _rewrite(self, timer: ArmedTimer | None) -> None:
        try:
            self._storage.save_running(Saved(text.render(self.running), timer))
        except OSError as error:
            raise CliError(f"% Error: cannot write running-config: {error.strerror}") from error
        self.timer = timer

    def _session(self, name: str) -> ConfigSession:
        session = self.sessions.get(name)
        if session is None:
            raise CliError(f"% Session {name} not found")
        return session

    def _complete(self, session: ConfigSession) -> None:
        session.state = SessionState.COMPLETED
        session.completed = datetime.now(UTC)
        session.terminals.clear()
        done = [known for known in self.sessions.values() if known.state is SessionState.COMPLETED]
        for old in sorted(done, key=lambda known: known.completed or datetime.min.replace(tzinfo=UTC))[
            :-MOST_COMPLETED
        ]:
            del self.sessions[old.name]
