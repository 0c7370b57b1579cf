"""The switch's SSH server: password logins, each with a terminal of its own. Everything slow happens beside the event loop."""

from __future__ import annotations

import asyncio
import itertools
import logging

import asyncssh

from .core import Switch
from .shell import Shell
from .terminal import Terminal
from .users import Users

_log = logging.getLogger("switch")

#: Seconds that a connection may take to log in, and password tries that it has.
LOGIN_SECONDS, LOGIN_TRIES = 30, 3
#: Logins at the same time; a further one is refused.
MOST_LOGINS = 16
_TERMINALS = itertools.count(1)


class _Connection(asyncssh.SSHServer):
    def __init__(self, users: Users) -> None:
        self._users = users
        self._tries = 0
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002
        return True

    def password_auth_supported(self) -> bool:
        return True

    async def validate_password(self, username: str, password: str) -> bool:
        right = await asyncio.to_thread(self._users.admits, username, password)
        peer = self._connection.get_extra_info("peername", ("?",))[0] if self._connection else "?"
        _log.info("login of %s from %s: %s", username, peer, "accepted" if right else "refused")
        self._tries += not right
        if self._tries >= LOGIN_TRIES and self._connection is not None:
            self._connection.disconnect(
                asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "Too many authentication failures"
            )
        return right


class SwitchServer:
    """Serves *switch* to *users*. Commands of all logins run one at a time, in the order in which they arrive."""

    def __init__(self, switch: Switch, users: Users) -> None:
        self._switch = switch
        self._users = users
        self._logins = 0

    def connection(self) -> asyncssh.SSHServer:
        """The factory of connections for asyncssh."""
        return _Connection(self._users)

    async def session(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """One login, until it ends."""
        if self._logins >= MOST_LOGINS:
            process.stdout.write(b"% Too many logins\r\n")
            process.exit(1)
            return
        self._logins += 1
        terminal = f"vty{next(_TERMINALS)}"
        user = str(process.get_extra_info("username"))
        shell = Shell(self._switch, user, terminal, may_enable=self._users.may_enable)
        try:
            if process.command is not None:
                await self._one_command(process, shell, process.command)
            else:
                await self._interactive(process, shell)
        except (asyncssh.Error, ConnectionError, asyncssh.TerminalSizeChanged) as error:
            _log.debug("login %s ended: %r", terminal, error)
        finally:
            self._logins -= 1
            await asyncio.to_thread(shell.close)
            process.exit(0)

    async def _one_command(self, process: asyncssh.SSHServerProcess[bytes], shell: Shell, command: str) -> None:
        shell.length = 0
        for line in command.splitlines():
            output = await asyncio.to_thread(shell.execute, line)
            if output:
                process.stdout.write(f"{output}\n".encode())

    async def _interactive(self, process: asyncssh.SSHServerProcess[bytes], shell: Shell) -> None:
        terminal = Terminal(shell, pages=process.term_type is not None)
        shell.length = (process.term_size[1] or 24) if process.term_type is not None else 0
        process.stdout.write(terminal.greeting().encode())
        while not shell.closed:
            try:
                data = await process.stdin.read(4096)
            except asyncssh.TerminalSizeChanged as change:
                shell.length = change.height or shell.length if shell.length else 0
                continue
            except asyncssh.BreakReceived:
                data = b"\x03"
            except asyncssh.SignalReceived:
                break
            if not data:
                break
            process.stdout.write((await asyncio.to_thread(terminal.feed, data)).encode())
            await process.stdout.drain()
