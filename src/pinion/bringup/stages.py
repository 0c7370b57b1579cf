"""The stages of bringing a site up, each a command of its own: what fails can be run again alone, and a kill at any moment loses nothing.

Every stage prints progress on standard error and one JSON object on standard output; this module runs them in order, shows stage and
elapsed time with each line, and collects what they changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pinion.plan.concerns import firewall
from pinion.plan.flows import POOL_MODELS
from pinion.plan.model import Plan

#: A stage that runs alone shows its own elapsed time; here the whole run's stands at the left.
_OWN_CLOCK = re.compile(r"^\[\s*[\d.]+s\] ")

#: Seconds without a line after which a stage is said to be still at work.
QUIET = 15.0


#: Seconds that a site has after a change until its claims must hold: a kubelet that was cut off tries again within a minute.
SETTLE = "90"


class StageFailedError(Exception):
    """A stage ended with an error.

    Attributes:
        code: its exit code (1: it found a problem, 2: it could not run).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its name, its command, and how many changes its JSON answer reports. *tolerated* exit codes are findings, not failures.

    *wanted* says from the answers of the stages before it, by their names, whether there is anything to do for it.
    """

    name: str
    command: Sequence[str]
    changes: Callable[[Mapping[str, Any]], int]
    tolerated: frozenset[int] = frozenset({0})
    wanted: Callable[[Mapping[str, Mapping[str, Any]]], bool] = lambda _: True


@dataclass(slots=True)
class StageResult:
    """What a stage did: changes, seconds, exit code and its JSON answer."""

    name: str
    changes: int
    seconds: float
    code: int
    answer: Mapping[str, Any] = field(default_factory=dict)


def stages(
    plan: Plan, site: str, instance: str | None, *, by: str, report: Path, endpoints: Path | None
) -> list[Stage]:
    """The stages for *plan*, in order. A site with lab devices gets its lab first, and the later stages run at its management host's place
    in the network; *endpoints* then says where its services are. A real site's stack is configured by its user beforehand.
    """
    pinion = [sys.executable, "-m", "pinion"]
    found: list[Stage] = []
    place: list[str] = []
    if any(device.lab for device in plan.devices):
        chosen = ["--instance", instance] if instance else []
        found.append(Stage("lab", [*pinion, "lab", "up", "--site", site, *chosen, "--json"], _changes))
        place = [*pinion, "lab", "exec", "--site", site, *chosen, "--"]
    if endpoints is not None:
        found.append(
            Stage("stack", [*pinion, "stack", "prepare", site, "--endpoints", str(endpoints), "--json"], _changed)
        )
    update = [*place, *pinion, "stack", "up", site, "--json"]
    if serving := model_hosts(plan):
        # releases are awaited until their pods are ready, and these fetch their model: a host's firewall must know of it first
        limits = [word for name in serving for word in ("--limit", name)]
        opened = [*place, *pinion, "converge", site, "--by", by, *limits, "--concern", "firewall", "--check-changed"]
        found.append(Stage("sources", [*opened, "--json"], _changed))
    found += [
        Stage("pulumi", update, _changed),
        # all hosts are verified in a moment: a wave has to be judged by what was changed in it
        Stage("hosts", [*place, *pinion, "converge", site, "--by", by, "--check-changed", "--json"], _changed),
        # hosts are reached over the switch that Pulumi configures, and join the cluster when they are converged: then their labels
        Stage("nodes", update, _changed, wanted=lambda answers: bool(answers["pulumi"].get("awaited"))),
        Stage(
            "verify",
            [*place, *pinion, "verify", site, "--settle", SETTLE, "--report", str(report), "--json"],
            lambda _: 0,
            frozenset({0, 1, 2}),
        ),
    ]
    return found


def model_hosts(plan: Plan) -> tuple[str, ...]:
    """The hosts with a firewall from which pods of the pool fetch their models."""
    named = {name for flow in plan.flows if flow.name == POOL_MODELS for name in flow.hosts}
    return tuple(host.name for host in plan.hosts if host.name in named and firewall.NAME in host.concerns)


def _changes(answer: Mapping[str, Any]) -> int:
    return int(answer["changes"])


def _changed(answer: Mapping[str, Any]) -> int:
    return int(answer.get("changed", 0))


def run(stage: Stage, say: Callable[[str], None]) -> StageResult:
    """Run one stage to its end.

    Raises `StageFailedError` when its exit code is not tolerated; its last lines are in the message.
    """
    started = time.monotonic()
    last: list[str] = []
    heard = [started]
    process = subprocess.Popen(
        list(stage.command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def listen(stream: IO[str]) -> None:
        for line in stream:
            if text := _OWN_CLOCK.sub("", line.rstrip()):
                heard[0] = time.monotonic()
                last.append(text)
                say(text)

    def reassure() -> None:
        while process.poll() is None:
            time.sleep(1.0)
            if time.monotonic() - heard[0] > QUIET:
                heard[0] = time.monotonic()
                say("still at work")

    assert process.stdout is not None
    assert process.stderr is not None
    listener = threading.Thread(target=listen, args=(process.stderr,), daemon=True)
    listener.start()
    threading.Thread(target=reassure, daemon=True).start()
    output = process.stdout.read()
    code = process.wait()
    listener.join(timeout=5)
    if code not in stage.tolerated:
        raise StageFailedError(
            "\n".join(last[-20:]) or output.strip() or f"{stage.name} ended with {code}", code if code == 1 else 2
        )
    try:
        answer = json.loads(output) if output.strip() else {}
    except ValueError:
        raise StageFailedError(f"{stage.name} did not answer with JSON: {output[:400]}", 2) from None
    return StageResult(stage.name, stage.changes(answer), time.monotonic() - started, code, answer)
