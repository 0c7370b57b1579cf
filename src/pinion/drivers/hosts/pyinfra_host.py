"""pyinfra operation: bring the host to the planned state of its concerns, all in one request.

While pyinfra prepares (unless it is told not to look first, ``-y``), the request is a check, and what would change is shown. While it
executes, the request applies, and the operation has commands only when something was changed. A change that could lock us out is
confirmed over a connection of its own.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paramiko import SSHException
from pyinfra import logger
from pyinfra.api.command import FunctionCommand, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State, StateStage
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.context import host as this_host
from pyinfra.context import state as this_state

from pinion.drivers.hosts.answers import VARIABLE, Answer, append
from pinion.drivers.hosts.bundle import COMMAND, standard_input
from pinion.drivers.hosts.requests import WAIT, UnknownConcernError, answered, approved, selection, task, who
from pinion.drivers.identity.place import AuthorityError

#: How the on-host program ends when it answered: 2 is an answer with an error.
_ANSWERED = [0, 2]

#: pyinfra asks people for it; a run without a terminal has nobody to ask.
_NO_SUDO = "sudo: a password is required: the login must be allowed to become root without one"

_Request = Mapping[str, Any]
_Said = Mapping[str, Any]


def bring(only: Sequence[str] = ()) -> None:
    """Add the operation for the host at hand: all concerns of its plan, or *only* these. Raises `PyinfraError` for an unknown one."""
    try:
        wanted = selection(this_host.data.pinion_host, this_host.data.pinion_concerns, only)
    except UnknownConcernError as error:
        raise PyinfraError(str(error)) from error
    planned(name="Bring the host to its planned state", request=wanted)


@operation()
def planned(request: _Request) -> Generator[FunctionCommand, None, None]:
    """Have the host do *request*."""
    executing = this_state.current_stage != StateStage.Prepare
    asked = {**request, **(task(os.environ) if executing else {"action": "check"}), "wait": WAIT, "who": who("pyinfra")}
    try:
        answer = answered(asked, os.environ, lambda filled: _ask(this_host.connector, filled))
    except AuthorityError as error:
        answer = {"error": str(error)}
    if "error" not in answer and executing and answer["confirm"]:
        answer = {**answer, **_confirm(this_state, this_host, answer["confirm"])}
    answer = approved(asked, answer, os.environ)
    _keep(this_host.name, answer)
    if "error" in answer:
        this_host.log(answer["error"], logger.error)
        yield FunctionCommand(_failed, [], {})
    elif answer["changes"]:
        _show(answer["changes"])
        yield FunctionCommand(_done, [], {})
    else:
        this_host.noop("the host is as planned")


# pyinfra hands the state and the host to functions that name them so, and fails the operation when they return False.


def _failed(state: State, host: Host) -> bool:  # noqa: ARG001
    return False


def _done(state: State, host: Host) -> bool:  # noqa: ARG001
    """What was to be done is done: the command stands for it, so that pyinfra counts a change."""
    return True


def _show(changes: Sequence[Mapping[str, str]]) -> None:
    """Print what changes; whole files as a diff when pyinfra runs with ``--diff``."""
    for change in changes:
        if change["kind"] != "file":
            text = f"{change['concern']}: {change['kind']} {change['subject']}: {change['before']} -> {change['after']}"
            this_host.log(text)
            continue
        state = "new" if not change["before"] else "differs" if change["after"] else "goes"
        this_host.log(f"{change['concern']}: file {change['subject']}: {state}")
        if this_state.config.DIFF:
            before, after = change["before"].splitlines(), change["after"].splitlines()
            for line in difflib.unified_diff(before, after, "is", "planned", lineterm=""):
                logger.info("    %s", line)


def _confirm(state: State, host: Host, names: Sequence[str]) -> _Said:
    """Log in afresh: the host keeps the change only if that works. The error, if there is one."""
    fresh = SSHConnector(state, host)
    try:
        fresh.connect()
        answer = _ask(fresh, {"action": "confirm", "concerns": [{"name": name} for name in names], "wait": WAIT})
    except PyinfraError as error:
        return {"error": f"no fresh login after the change: {error}"}
    finally:
        if fresh.client is not None:
            fresh.client.close()
    return {"error": answer["error"]} if "error" in answer else {}


def _keep(name: str, answer: _Said) -> None:
    """Keep *answer* for `pinion converge`, when that started pyinfra."""
    if VARIABLE in os.environ:
        append(Path(os.environ[VARIABLE]), Answer.from_report(name, answer))


def _why(connector: BaseConnector) -> str:
    """What the host says when nothing is asked of it but to be root: a refused sudo closes its input before it can be read."""
    try:
        _, output = connector.run_shell_command(
            StringCommand("true"), print_output=False, print_input=False, _sudo=True
        )
    except EOFError:
        return _NO_SUDO
    except (OSError, SSHException):
        return ""
    return output.stderr


def _ask(connector: BaseConnector, request: _Request) -> _Said:
    """The answer of the on-host program to *request*."""
    try:
        answered, output = connector.run_shell_command(
            StringCommand(COMMAND),
            print_output=False,
            print_input=False,
            _stdin=standard_input(request),
            _success_exit_codes=_ANSWERED,
            _sudo=True,
        )
    except EOFError:
        return {"error": _NO_SUDO}
    except (OSError, SSHException) as error:
        return {"error": _why(connector) or f"the connection broke: {str(error) or type(error).__name__}"}
    if not answered or not output.stdout_lines:
        return {"error": output.stderr or "the host did not answer"}
    answer: _Said = json.loads(output.stdout_lines[-1])
    return answer
