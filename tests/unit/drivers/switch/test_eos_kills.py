"""SIGKILL at any moment, to driver or switch program: the switch is old or new, can be logged in to, and the next run converges."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from thoroughness import points
from unit.drivers.switch.bench import LoopbackBench
from unit.drivers.switch.plans import access_port, small_plan

from pinion.drivers.switch import SwitchError, SwitchState
from pinion.drivers.switch.state import wanted
from pinion.plan.model import SwitchPlan

TESTS = Path(__file__).parents[3]
OLD = small_plan()
NEW = small_plan(
    vlans=(*OLD.vlans[:1], OLD.vlans[1].model_copy(update={"name": "edge"})),
    ports=(OLD.ports[0], access_port("Ethernet2", 100, "pis.pi 2"), *OLD.ports[2:]),
)
#: Commands of one change, roughly; the test asks the driver for the exact number.
LEAST_COMMANDS = 35


def _dying(
    eos: LoopbackBench, plan: SwitchPlan, place: str, confirm_within: int = 60
) -> subprocess.CompletedProcess[str]:
    access = eos.access(confirm_within=confirm_within)
    secret = eos.folder / "access.json"
    secret.touch(mode=0o600)
    secret.write_text(json.dumps({**json.loads(access.model_dump_json()), "password": eos.switch.password}))
    (eos.folder / "plan.json").write_text(plan.model_dump_json())
    return subprocess.run(
        [sys.executable, "-m", "unit.drivers.switch.dying_driver", secret, eos.folder / "plan.json", place],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def _essence(state: SwitchState) -> SwitchState:
    """What a switch forwards by."""
    return state.model_copy(update={"saved": True, "unconfirmed": None})


def _converged(eos: LoopbackBench, plan: SwitchPlan = NEW, before: SwitchPlan = OLD) -> None:
    """The next run makes everything right: the plan, saved, and no session left."""
    state = _essence(eos.driver().read())
    assert state in (wanted(OLD), wanted(NEW)), "the switch is old or new, and can be logged in to"
    eos.driver().apply(plan, before)
    assert eos.driver().read() == wanted(plan)
    sessions = json.loads(eos.console("show configuration sessions detail | json"))["sessions"]
    assert [name for name, session in sessions.items() if session["state"] != "completed"] == []


@pytest.mark.timeout(900)
def test_the_driver_is_killed_at_every_step(eos: LoopbackBench) -> None:
    """After commands outside of the load of the candidate, and three of the load at random. Back and forth between two plans."""
    eos.driver().apply(OLD)
    said: list[str] = json.loads(_dying(eos, NEW, "never").stdout)
    assert len(said) > LEAST_COMMANDS
    plan, before = OLD, NEW
    begin = next(place for place, text in enumerate(said) if text.startswith("configure session")) + 1
    end = said.index("end") + 1
    load = random.Random(3).sample(range(begin + 1, end), 3)
    steps = [*range(1, begin + 1), *sorted(load), *range(end, len(said))]
    assert len(steps) >= 15
    for step in steps[:: points(3, 1)]:
        died = _dying(eos, plan, f"after:{step}")
        assert died.returncode == -signal.SIGKILL, (step, died.stdout, died.stderr)
        _converged(eos, plan, before)
        plan, before = before, plan


@pytest.mark.parametrize("switch_dies_too", [pytest.param(False, marks=pytest.mark.variant), True])
def test_a_change_that_nobody_confirms_is_undone_even_if_the_switch_program_dies_meanwhile(
    eos: LoopbackBench, switch_dies_too: bool
) -> None:
    eos.driver().apply(OLD)
    said: list[str] = json.loads(_dying(eos, NEW, "never").stdout)
    eos.driver().apply(OLD, NEW)
    commit = next(place for place, text in enumerate(said) if " commit timer " in text) + 1
    assert _dying(eos, NEW, f"after:{commit}", confirm_within=12).returncode == -signal.SIGKILL
    state = eos.driver().read()
    assert _essence(state) == wanted(NEW)
    assert state.unconfirmed is not None
    if switch_dies_too:
        eos.switch.kill()
        eos.switch.start()
        assert _essence(eos.driver().read()) == wanted(NEW)
    give_up = time.monotonic() + 90
    while eos.driver().read() != wanted(OLD):
        assert time.monotonic() < give_up, eos.switch.log.read_text()
        time.sleep(0.5)
    _converged(eos)


def test_an_unconfirmed_change_of_a_dead_run_is_confirmed_by_the_next_one_not_repeated(eos: LoopbackBench) -> None:
    eos.driver().apply(OLD)
    said: list[str] = json.loads(_dying(eos, NEW, "never").stdout)
    eos.driver().apply(OLD, NEW)
    commit = next(place for place, text in enumerate(said) if " commit timer " in text) + 1
    _dying(eos, NEW, f"after:{commit}", confirm_within=600)
    armed = eos.driver().read().unconfirmed
    assert armed is not None
    changes = [str(change) for change in eos.driver().apply(NEW, OLD).changes]
    assert changes == ["start-up configuration out of date -> saved"]
    assert eos.driver().read() == wanted(NEW)
    assert json.loads(eos.console("show configuration sessions | json"))["sessions"][armed]["state"] == "completed"


def test_the_switch_program_is_killed_while_the_driver_works(eos: LoopbackBench) -> None:
    eos.driver().apply(OLD)
    chance = random.Random(11)
    for _ in range(points(2, 6)):
        eos.driver().apply(OLD, NEW)
        failures: list[SwitchError] = []

        def work(failures: list[SwitchError] = failures) -> None:
            try:
                eos.driver(attempts=5).apply(NEW, OLD)
            except SwitchError as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(chance.uniform(0.0, 3.0))
        eos.switch.kill()
        eos.switch.start()
        thread.join(240)
        assert not thread.is_alive()
        _converged(eos)


def test_two_runs_of_one_machine_wait_for_each_other(eos: LoopbackBench) -> None:
    _both(eos, eos.folder / "locks", eos.folder / "locks")


def test_two_runs_of_two_machines_never_mix(eos: LoopbackBench) -> None:
    _both(eos, eos.folder / "here", eos.folder / "there")


def _both(eos: LoopbackBench, first: Path, second: Path) -> None:
    eos.driver().apply(OLD)
    failures: list[SwitchError] = []

    def work(plan: SwitchPlan, folder: Path) -> None:
        try:
            eos.driver(lock_folder=folder, attempts=10).apply(plan, OLD if plan is NEW else NEW)
        except SwitchError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=given) for given in ((NEW, first), (OLD, second), (NEW, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(280)
    assert failures == []
    assert eos.driver().read() in (wanted(OLD), wanted(NEW))
