"""Ansible callback: keeps each host's answer for `pinion converge`, one JSON line an answer, in the file that PINION_ANSWERS names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.executor.task_result import CallbackTaskResult
from ansible.plugins.callback import CallbackBase

from pinion.drivers.hosts.answers import UNREACHED, Answer, append

DOCUMENTATION = """
name: pinion_answers
type: aggregate
short_description: Keeps each host's answer for pinion converge
description:
  - Appends one JSON line for each answer of the module C(pinion_host), for each failure and each unreachable host.
  - Does nothing unless the environment variable E(PINION_ANSWERS) names a file.
requirements:
  - enable in configuration
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Appends answers to the file; silent without one."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "pinion_answers"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.disabled = "PINION_ANSWERS" not in os.environ

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """An answer of the module; other tasks have none."""
        said = result.result
        if "changes" in said:
            self._keep(Answer.from_report(result.host.get_name(), said))

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        """A failure: the host refused, or its answer could not be read."""
        if not ignore_errors:
            self._keep(Answer(result.host.get_name(), error=_reason(result.result)))

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        """A host that did not let us in."""
        self._keep(Answer(result.host.get_name(), error=f"{UNREACHED}: {_reason(result.result)}"))

    def _keep(self, answer: Answer) -> None:
        append(Path(os.environ["PINION_ANSWERS"]), answer)


def _reason(said: dict[str, Any]) -> str:
    return str(said.get("msg") or said.get("module_stderr") or said.get("exception") or "no reason given")
