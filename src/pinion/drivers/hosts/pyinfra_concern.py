"""pyinfra operation: bring the host to the planned state of one concern.

The fact is what would change; the operation yields nothing when that is nothing. A change of the SSH configuration is confirmed over a
connection of its own.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api.command import FunctionCommand, StringCommand
from pyinfra.api.exceptions import FactProcessError
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State, StateStage
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.context import host as this_host
from pyinfra.context import state as this_state

from pinion.drivers.hosts.answers import VARIABLE, Answer, append
from pinion.drivers.hosts.bundle import COMMAND, standard_input

#: Seconds to wait for another run on the same host.
WAIT = 300
#: How the on-host program ends when it answered: 2 is an answer with an error.
_ANSWERED = [0, 2]


class ConcernReport(FactBase[Mapping[str, Any]]):
    """What converging would change: the answer to a check. *concern* is the concern's name."""

    def command(self, concern: str) -> str:  # noqa: ARG002  it tells the facts of two concerns apart
        """The on-host program; the request is on its standard input."""
        return COMMAND

    def process(self, output: list[str]) -> Mapping[str, Any]:
        """The answer. Raises `FactProcessError` when it is an error."""
        answer: Mapping[str, Any] = json.loads(output[-1])
        if "error" in answer:
            _keep(Answer(this_host.name, error=answer["error"]))
            raise FactProcessError(answer["error"])
        return answer


@operation()
def concern(wanted: Mapping[str, Any]) -> Generator[FunctionCommand, None, None]:
    """Bring the host to *wanted*, a concern of its HostPlan."""
    report: Mapping[str, Any] | None = this_host.get_fact(
        ConcernReport,
        concern=wanted["name"],
        _stdin=standard_input({"action": "check", "concern": wanted}),
        _success_exit_codes=_ANSWERED,
        _sudo=True,
    )
    if report is None:  # the fact has failed and said why
        return
    if this_state.current_stage == StateStage.Prepare:
        _show(report["changes"])
    if this_state.current_stage == StateStage.Prepare or not report["changes"]:
        _keep(Answer(this_host.name, changes=tuple(report["changes"])))
    if report["changes"]:
        yield FunctionCommand(_apply, [dict(wanted)], {})
    elif report["confirm"]:
        yield FunctionCommand(_confirm, [dict(wanted)], {})
    else:
        this_host.noop(f"{wanted['name']} is as planned")


def _show(changes: list[Mapping[str, str]]) -> None:
    """Print what would change; whole files as a diff when pyinfra runs with ``--diff``."""
    for change in changes:
        if change["kind"] != "file":
            this_host.log(f"{change['kind']} {change['subject']}: {change['before']} -> {change['after']}")
            continue
        this_host.log(f"file {change['subject']}: {'new' if not change['before'] else 'differs'}")
        if this_state.config.DIFF:
            before, after = change["before"].splitlines(), change["after"].splitlines()
            for line in difflib.unified_diff(before, after, "is", "planned", lineterm=""):
                logger.info("    %s", line)


def _apply(state: State, host: Host, wanted: Mapping[str, Any]) -> bool:
    answer = _ask(host.connector, "apply", wanted)
    if "error" in answer:
        return _refused(host, answer["error"])
    _keep(Answer(host.name, changes=tuple(answer["changes"])))
    return not answer["confirm"] or _confirm(state, host, wanted)


def _confirm(state: State, host: Host, wanted: Mapping[str, Any]) -> bool:
    """Log in afresh: the host keeps the new SSH configuration only if that works."""
    fresh = SSHConnector(state, host)
    fresh.connect()
    try:
        answer = _ask(fresh, "confirm", wanted)
    finally:
        if fresh.client is not None:
            fresh.client.close()
    return "error" not in answer or _refused(host, answer["error"])


def _refused(host: Host, reason: str) -> bool:
    host.log(reason, logger.error)
    _keep(Answer(host.name, error=reason))
    return False


def _keep(answer: Answer) -> None:
    """Keep *answer* for `pinion converge`, when that started pyinfra."""
    if VARIABLE in os.environ:
        append(Path(os.environ[VARIABLE]), answer)


def _ask(connector: BaseConnector, action: str, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of the on-host program to *action*."""
    request = {"action": action, "concern": wanted, "wait": WAIT, "who": "pyinfra"}
    answered, output = connector.run_shell_command(
        StringCommand(COMMAND),
        print_output=False,
        print_input=False,
        _stdin=standard_input(request),
        _success_exit_codes=_ANSWERED,
        _sudo=True,
    )
    if not answered or not output.stdout_lines:
        return {"error": output.stderr or "the host did not answer"}
    answer: Mapping[str, Any] = json.loads(output.stdout_lines[-1])
    return answer
