"""One request in, one answer out: what Ansible's module, pyinfra's operation and the SSH driver call.

A request is ``{"action": "check" | "apply" | "confirm" | "undo", "concern": {...}, "wait": seconds, "who": text}``; the answer has
``changes``, ``confirm`` and ``waited``, or ``error``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from . import engine, wanted
from .accounts import Accounts
from .files import Files
from .guard import FileJournals, SystemdGuard
from .kernel import ProcSys
from .machine import HostError, Machine
from .packages import Dpkg
from .units import Systemd


def this_host() -> Machine:
    """The machine that this program runs on."""
    return Machine(Dpkg(), Accounts(), Files(), ProcSys(), Systemd(), FileJournals(), SystemdGuard())


def answer(request: Mapping[str, Any], machine: Machine) -> dict[str, object]:
    """Do what *request* asks. Raises `HostError` and `wanted.BadRequestError`."""
    action = request.get("action")
    asked = wanted.concern(request["concern"])
    wait, who = float(request.get("wait", 0)), str(request.get("who", ""))
    if action == "check":
        return engine.check(machine, asked).as_json()
    if action == "apply":
        return engine.converge(machine, asked, wait=wait, who=who).as_json()
    if action == "undo":
        return engine.undo(machine, asked.name, wait=wait, who=who).as_json()
    if action == "confirm":
        engine.confirm(machine, asked, wait=wait, who=who)
        return engine.Report((), confirm=False).as_json()
    raise wanted.BadRequestError(f"unknown action {action!r}")


def main() -> int:
    """Answer the request on standard input, one line of JSON; exit 2 when the host refused."""
    try:
        request = json.loads(sys.stdin.read())
        said = answer(request, this_host())
    except (HostError, wanted.BadRequestError, OSError) as error:  # OSError: the disk is full, or read-only
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return 2
    sys.stdout.write(json.dumps(said) + "\n")
    return 0
