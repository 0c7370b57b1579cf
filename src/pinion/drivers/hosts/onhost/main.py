"""One request in, one answer out: what Ansible's action, pyinfra's operation and the SSH driver call.

A request is ``{"action": "check" | "apply" | "undo" | "back" | "confirm", "concerns": [...], "wait": seconds, "who": text, "run": text}``.
With ``"whole": true`` the concerns are all that the host is to have, and any other that it has is taken back. Else ``"others"`` has what
its other concerns state, ``{concern: [thing, ...]}``, each a `handover.Thing` as a list. ``back`` takes back what the run ``"of"`` changed;
its concerns are what is made anew for it (`engine.back`). The answer is the `engine.Report`, or ``{"error": text}``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import engine, wanted
from .accounts import Accounts
from .commands import Shell
from .files import Files
from .guard import SystemdGuard
from .kernel import ProcSys
from .machine import HostError, Machine
from .notes import FileJournals, FileVault, RunBoots
from .packages import Dpkg
from .units import Systemd


def this_host() -> Machine:
    """The machine that this program runs on."""
    return Machine(
        Dpkg(),
        Accounts(),
        Files(),
        ProcSys(),
        Systemd(),
        Shell(),
        FileJournals(),
        FileVault(),
        RunBoots(),
        SystemdGuard(),
    )


def answer(request: Mapping[str, Any], machine: Machine) -> engine.Report:
    """Do what *request* asks. Raises `HostError` and `wanted.BadRequestError`."""
    action, whole = request.get("action"), bool(request.get("whole"))
    asked = [wanted.concern(concern) for concern in request.get("concerns", ())]
    names = [concern.name for concern in asked]
    others = {name: [tuple(thing) for thing in things] for name, things in request.get("others", {}).items()}
    wait, who, run = float(request.get("wait", 0)), str(request.get("who", "")), str(request.get("run", ""))
    if action == "check":
        return engine.check(machine, asked, whole=whole, others=others)
    if action == "apply":
        if needs := engine.needed(machine, asked):
            return engine.Report((), needs=needs)
        asking = [(name, command) for data in request["concerns"] for name, command in wanted.asks(data)]
        done = engine.converge(machine, asked, wait=wait, who=who, whole=whole, name=run, others=others)
        return replace(done, asks=tuple(name for name, command in asking if machine.commands.holds(command)))
    if action == "undo":
        return engine.undo(machine, names, wait=wait, who=who, name=run)
    if action == "back":
        return engine.back(machine, str(request.get("of", "")), asked, wait=wait, who=who, name=run)
    if action == "confirm":
        engine.confirm(machine, names, wait=wait, who=who)
        return engine.Report(())
    raise wanted.BadRequestError(f"unknown action {action!r}")


def main() -> int:
    """Answer the request on standard input, one line of JSON; exit 2 when the host refused."""
    try:
        request = json.loads(sys.stdin.read())
        said = answer(request, this_host())
    except (HostError, wanted.BadRequestError, OSError) as error:  # OSError: the disk is full, or read-only
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        return 2
    sys.stdout.write(json.dumps(said.as_json()) + "\n")
    return 0
