"""One SSH login to an EOS switch: a command in, its answer out, every failure as one of our errors.

netmiko does the login and the terminal (no paging, width, prompt, enable mode). Noticing that a connection broke is ours, because netmiko
would wait for its time-out. Nothing is ever logged by netmiko's session log, and no error holds a password.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

import paramiko
from netmiko.arista.arista import AristaSSH
from netmiko.base_connection import BaseConnection
from netmiko.exceptions import (
    NetmikoAuthenticationException,
    NetmikoBaseException,
    NetmikoTimeoutException,
    ReadException,
)

from pinion.drivers.switch.access import SwitchAccess
from pinion.drivers.switch.errors import (
    CommandRefusedError,
    HostKeyError,
    LoginRefusedError,
    NoAnswerError,
    SwitchError,
    SwitchUnreachableError,
)

#: Pause between two looks at the channel, seconds.
_PAUSE = 0.01


class _NoticingSSH(AristaSSH):
    """netmiko's EOS connection, which says so when the other side is gone instead of waiting for text that can't come."""

    def read_channel(self) -> str:
        """What has come since the last look. Raises `ReadException` when nothing has and nothing will."""
        ended = _ended(self)
        heard = super().read_channel()
        if ended and not heard:
            raise ReadException("the switch ended it")
        return heard


def _ended(connection: BaseConnection) -> bool:
    channel = cast("paramiko.Channel | None", connection.remote_conn)
    return channel is None or channel.closed or bool(channel.eof_received)


class EosShell:
    """An interactive, privileged session. Use `login`, which also closes it."""

    def __init__(self, connection: BaseConnection, switch: str, timeout: float) -> None:
        self._connection = connection
        self._switch = switch
        self._timeout = timeout
        # "tor-1#", "tor-1(config-if-Et1)#": the last line of whatever the switch has to say.
        self._prompt = re.compile(rf"(?:\A|\n){re.escape(connection.base_prompt)}(?:\([^()\n]*\))*[>#] ?\Z")

    def command(self, text: str) -> str:
        """Send one line and return what the switch answers, without echo and prompt.

        Raises `CommandRefusedError` when it answers ``% …``, `NoAnswerError` when the prompt does not come back in time,
        `SwitchUnreachableError` when the connection breaks.
        """
        answer = self._exchange(text)
        errors = [line.strip() for line in answer.splitlines() if line.startswith("%")]
        if errors:
            raise CommandRefusedError(self._switch, " ".join(errors).lstrip("% "), command=text)
        return answer

    def _exchange(self, text: str) -> str:
        give_up = time.monotonic() + self._timeout
        heard = ""
        try:
            self._connection.write_channel(f"{text}\n")
            while True:
                heard += self._connection.read_channel()
                # The echo comes first: what stands before it is left over from the line before.
                _, echo, rest = heard.partition(text)
                _, newline, answer = rest.partition("\n")
                if echo and newline and (match := self._prompt.search(answer)):
                    return answer[: match.start()]
                if time.monotonic() > give_up:
                    raise NoAnswerError(self._switch, f"no answer within {self._timeout:g} s", command=text)
                time.sleep(_PAUSE)
        except (OSError, EOFError, paramiko.SSHException, NetmikoBaseException) as error:
            raise SwitchUnreachableError(self._switch, f"the connection broke ({error})", command=text) from error

    def close(self, *, politely: bool) -> None:
        """End the login; when not *politely* (the switch hangs, the connection is gone) without a word."""
        _leave(self._connection, politely=politely)


@contextmanager
def login(access: SwitchAccess, switch: str) -> Iterator[EosShell]:
    """A fresh login in privileged mode. *switch* is how errors call it (name and address).

    Raises `SwitchUnreachableError`, `NoAnswerError`, `LoginRefusedError` or `HostKeyError`.
    """
    shell = EosShell(_connect(access, switch), switch, access.command_timeout)
    try:
        yield shell
    except BaseException:
        shell.close(politely=False)
        raise
    shell.close(politely=True)


def _connect(access: SwitchAccess, switch: str) -> BaseConnection:
    try:
        link = socket.create_connection((access.host, access.port), timeout=access.connect_timeout)
    except TimeoutError as error:
        raise NoAnswerError(
            switch, f"no answer within {access.connect_timeout:g} s", command="connect", hint=_REACH
        ) from error
    except OSError as error:
        raise SwitchUnreachableError(switch, f"{error.strerror or error}", command="connect", hint=_REACH) from error
    # paramiko waits without limit for some answers (a channel, a terminal): this ends the connection, and with it the wait.
    seconds = access.connect_timeout + access.command_timeout
    watchdog = threading.Timer(seconds, _cut, (link,))
    watchdog.daemon = True
    watchdog.start()
    started = time.monotonic()
    try:
        connection = _negotiate(access, switch, link)
        watchdog.cancel()
        return connection
    except SwitchError:
        _cut(link)
        raise
    except (OSError, EOFError, ValueError, paramiko.SSHException, NetmikoBaseException) as error:
        _cut(link)
        raise _failed(access, switch, error, late=time.monotonic() - started >= seconds) from error
    finally:
        watchdog.cancel()


_REACH = "check its power, its management cable and the address in the site file"


def _failed(access: SwitchAccess, switch: str, error: Exception, *, late: bool) -> SwitchError:
    """What *error*, raised by a library during a login, means; *late* when our own watchdog cut the connection."""
    known = error.__context__ if isinstance(error, NetmikoTimeoutException) and error.__context__ else error
    said = _first_line(known)
    # "No existing session" is what paramiko says when the key exchange took too long.
    if late or any(
        word in said.lower() for word in ("banner", "timeout", "timed out", "not detected", "no existing session")
    ):
        seconds = access.connect_timeout + access.command_timeout
        return NoAnswerError(switch, f"no SSH login within {seconds:g} s ({said})", command="login", hint=_REACH)
    return SwitchUnreachableError(switch, f"the connection broke ({said})", command="login")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _cut(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        link.close()


def _negotiate(access: SwitchAccess, switch: str, link: socket.socket) -> BaseConnection:
    try:
        connection = _NoticingSSH(
            device_type="arista_eos",
            host=access.host,
            port=access.port,
            sock=link,
            username=access.username,
            password=access.password.get_secret_value(),
            secret=access.enable_password.get_secret_value() if access.enable_password else "",
            ssh_strict=True,
            system_host_keys=False,
            alt_host_keys=True,
            alt_key_file=str(access.known_hosts),
            use_keys=False,
            allow_agent=False,
            conn_timeout=access.connect_timeout,
            banner_timeout=access.connect_timeout,
            auth_timeout=access.connect_timeout,
            session_log=None,
            keepalive=10,
        )
    except NetmikoAuthenticationException as error:
        # paramiko says "authentication failed" of a connection that broke or went silent meanwhile, too.
        cause = str(error.__context__).lower()
        if "timeout" in cause or "transport shut down" in cause:
            raise paramiko.SSHException(str(error.__context__)) from error
        reason = f"user name or password refused for '{access.username}'"
        raise LoginRefusedError(
            switch, reason, command="login", hint="check switch:username and switch:password"
        ) from error
    except paramiko.SSHException as error:
        raise _host_key_error(access, switch, error) or error from error
    except paramiko.hostkeys.InvalidHostKey as error:
        raise HostKeyError(
            switch, f"{access.known_hosts} has an unreadable line", command="login", hint="mend or remove it"
        ) from error
    try:
        connection.enable()
    except (ValueError, NetmikoBaseException) as error:
        _leave(connection, politely=False)
        reason = "privileged mode (enable) refused"
        raise LoginRefusedError(switch, reason, command="enable", hint="check the enable password") from error
    return connection


def _leave(connection: BaseConnection, *, politely: bool) -> None:
    if not politely:
        connection.paramiko_cleanup()  # what netmiko says afterwards goes nowhere, so it can't wait for an answer
    connection.disconnect()


def _host_key_error(access: SwitchAccess, switch: str, error: paramiko.SSHException) -> HostKeyError | None:
    cause = error.__context__ if error.__context__ is not None else error
    name = access.host if access.port == 22 else f"[{access.host}]:{access.port}"
    scan = f"ssh-keyscan -p {access.port} {access.host} >> {access.known_hosts}"
    if isinstance(cause, paramiko.BadHostKeyException):
        return HostKeyError(
            switch,
            f"the host key has changed: {cause.key.get_name()} {cause.key.fingerprint}, expected {cause.expected_key.fingerprint}",
            command="login",
            hint=f"if the switch was replaced, compare the fingerprint at its console, then: "
            f"ssh-keygen -R '{name}' -f {access.known_hosts} && {scan}",
        )
    if "not found in known_hosts" in str(cause):
        return HostKeyError(
            switch,
            f"the host key is not known ({access.known_hosts})",
            command="login",
            hint=f"to accept it: {scan}; then compare `ssh-keygen -lf {access.known_hosts}` with the fingerprint at its console",
        )
    return None
