"""Applies a plan and dies by SIGKILL at a chosen moment: `python -m unit.drivers.switch.dying_driver ACCESS PLAN PLACE`.

PLACE is ``before:N`` or ``after:N``: when the N-th command is about to be sent, or when its answer has come. ``never`` runs to the end and
prints the commands, so that a test can choose. Access (with the password) and plan come as files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pydantic import SecretStr

from pinion.drivers.switch import SwitchAccess, open_driver
from pinion.drivers.switch.eos_shell import EosShell
from pinion.plan.model import SwitchPlan

_said: list[str] = []


def main(access: Path, plan: Path, place: str) -> None:
    """Apply, or die."""
    moment, _, number = place.partition(":")
    send = EosShell.command

    def command(shell: EosShell, text: str) -> str:
        _said.append(text)
        if moment == "before" and len(_said) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send(shell, text)
        if moment == "after" and len(_said) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    EosShell.command = command  # type: ignore[method-assign]
    fields = json.loads(access.read_text())
    driver = open_driver(
        "eos", "tor-1", SwitchAccess.model_validate({**fields, "password": SecretStr(fields["password"])})
    )
    driver.apply(SwitchPlan.model_validate_json(plan.read_text()))
    print(json.dumps(_said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
