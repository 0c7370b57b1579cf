"""What can go wrong with a switch: every error names the switch, the command, the reason and what to do. No error carries a password."""

from __future__ import annotations


class SwitchError(Exception):
    """Something failed at a switch.

    *switch* is its name with its address, *command* what was being done (None before the first command), *reason* what happened,
    *hint* what to do about it.
    """

    def __init__(self, switch: str, reason: str, *, command: str | None = None, hint: str = "") -> None:
        self.switch = switch
        self.reason = reason
        self.command = command
        self.hint = hint
        doing = f"`{command}`: " if command else ""
        super().__init__(f"switch {switch}: {doing}{reason}" + (f"; {hint}" if hint else ""))


class SwitchUnreachableError(SwitchError):
    """No connection, or it broke. Worth trying again."""


class NoAnswerError(SwitchUnreachableError):
    """The switch accepted the connection or the command and then said nothing in time. Worth trying again."""


class LoginRefusedError(SwitchError):
    """The switch refused the user name, the password or the enable password. Never tried again: it would lock the account."""


class HostKeyError(SwitchError):
    """The switch's host key is unknown or has changed. Never tried again."""


class CommandRefusedError(SwitchError):
    """The switch answered a command with an error (``% …``)."""


class SwitchBusyError(SwitchError):
    """Somebody else's change is under way on this switch."""


class NotConfirmedError(SwitchError):
    """A change was committed, but is not proved to last: no fresh login could confirm it, or the switch had gone back by then."""


class NotConvergedError(SwitchError):
    """The switch accepted a change but does not hold what it was told; the change was undone."""
