"""The way back from a run: what it leads to, cut anywhere and gone on with, failing in part, and what is kept nowhere."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from doubles.hosts import MemoryHost
from thoroughness import points
from unit.hosts.test_engine_whole import (
    BOOT,
    BOTH,
    CONFIG,
    EDGE,
    SERVICE,
    STEPS,
    Killed,
    converge,
    file,
    fresh,
    kill_at,
    seen,
)

from pinion.drivers.hosts.onhost import engine, history
from pinion.drivers.hosts.onhost.machine import HostError
from pinion.drivers.hosts.onhost.wanted import Concern

WORSE = replace(
    EDGE,
    files=(
        file(SERVICE, "[Service]\nNice=19\n", restart=("edge.service",)),
        replace(EDGE.files[1], content="sesame-3\n"),
    ),
    packages=(),
)
NEW = Concern("new", files=(file("/etc/new", "new\n"),))


def back(host: MemoryHost, run: str) -> engine.Report:
    return engine.back(host.machine(), run, wait=0, who="test", name=f"undo of {run}")


def test_a_run_is_taken_back_to_the_state_before_it() -> None:
    host = fresh()
    converge(host, BOOT, EDGE, name="run-1")
    good = seen(host)
    worse = replace(EDGE, files=(file(SERVICE, "[Service]\nNice=19\n", restart=("edge.service",)),), packages=())
    new = Concern("new", files=(file("/etc/new"),))
    converge(host, worse, new, name="run-2")  # changes one, brings one, retires one
    assert "/etc/new" in host.files
    report = back(host, "run-2")
    assert {change.concern for change in report.changes} == {"edge", "new", "pi_boot"}
    assert seen(host) == good
    assert host.read_by["edge.service"][SERVICE].content == "[Service]\n"
    assert host.files["/etc/edge/key"].content == "sesame-2\n"
    assert back(host, "run-2").changes == ()


def test_only_the_last_run_that_changed_something_can_be_taken_back() -> None:
    host = fresh()
    converge(host, BOOT, name="run-1")
    converge(host, BOOT, EDGE, name="run-2")
    converge(host, BOOT, EDGE, name="run-3")  # changes nothing
    report = back(host, "run-1")
    assert report.changes == ()
    assert report.notes == ("run run-1 changed nothing here, or another came after it: run-2",)
    assert {change.concern for change in back(host, "run-2").changes} == {"edge"}
    assert list(host.journals) == ["pi_boot"]
    assert back(host, "").changes == ()


def test_going_back_can_be_taken_back() -> None:
    host = fresh()
    converge(host, BOOT, name="run-1")
    converge(host, BOOT, EDGE, name="run-2")
    good = seen(host)
    back(host, "run-2")
    back(host, "undo of run-2")
    assert seen(host) == good


@pytest.mark.parametrize("number", range(0, STEPS, 3))
def test_a_killed_run_and_its_repetition_are_taken_back_as_one(number: int) -> None:
    host = fresh()
    converge(host, BOOT, name="run-1")
    good = seen(host)
    changed = replace(BOOT, files=(file(CONFIG, "dtparam=pciex1_gen=1\n"),))
    kill_at(host, number)
    with contextlib.suppress(Killed):
        converge(host, changed, EDGE, name="run-2")
    host.locked_by, host.step = None, lambda _: None
    converge(host, changed, EDGE, name="run-3")
    back(host, host_run(host))
    host.units.pop("edge.service", None)
    assert seen(host) == good


def host_run(host: MemoryHost) -> str:
    """The run that the host would take back."""
    return str(json.loads(host.history or "{}")["run"])


def worse() -> tuple[MemoryHost, dict[str, object]]:
    """A host after run-2, which changed one concern, brought one and retired one; and what it was before."""
    host = fresh()
    converge(host, *BOTH, name="run-1")
    good = seen(host)
    converge(host, WORSE, NEW, name="run-2")
    assert seen(host) != good
    return host, good


def back_steps() -> int:
    host, _ = worse()
    steps = kill_at(host, 10_000)
    back(host, "run-2")
    return len(steps)


BACK_STEPS = back_steps()


def test_there_are_steps_to_kill_at() -> None:
    assert BACK_STEPS > 15


@pytest.mark.parametrize("number", range(0, BACK_STEPS, points(2, 1)))
def test_a_way_back_that_was_killed_is_gone_on_with(number: int) -> None:
    host, good = worse()
    bad = seen(host)
    kill_at(host, number)
    with contextlib.suppress(Killed):
        engine.back(host.machine(), "run-2", wait=0, who="test", name="run-3")
    host.locked_by, host.step = None, lambda _: None
    again = engine.back(host.machine(), "run-2", wait=0, who="test", name="run-4")
    assert again.notes == ()
    assert seen(host) == good
    assert engine.back(host.machine(), "run-2", wait=0, who="test", name="run-5").changes == (), "also when it is done"
    last = host_run(host)
    assert last in {"run-3", "run-4"}
    back(host, last)
    assert seen(host) == bad, "the whole of it, although two runs took part"


def test_a_way_back_that_fails_in_one_concern_takes_the_others_back_and_can_be_run_again() -> None:
    host, good = worse()
    host.fail["check-config"] = "line 1"  # BOOT returns
    with pytest.raises(HostError, match=r"pi_boot: .*check-config.*line 1"):
        back(host, "run-2")
    assert host.files[SERVICE].content == "[Service]\n"
    assert "/etc/new" not in host.files
    assert list(host.journals) == ["edge", "pi_boot"]
    host.fail.clear()
    back(host, "run-2")
    assert seen(host) == good


def test_another_run_in_between_ends_the_way_back() -> None:
    host, _ = worse()
    kill_at(host, 8)
    with contextlib.suppress(Killed):
        back(host, "run-2")
    host.locked_by, host.step = None, lambda _: None
    converge(host, BOOT, name="run-4")
    assert back(host, "run-2").notes == ("run run-2 changed nothing here, or another came after it: run-4",)
    assert list(host.journals) == ["pi_boot"]


def test_a_history_of_the_format_before_is_read() -> None:
    old = history.from_json('{"format": 1, "reached": {}, "run": "run-1", "before": {"a": null}}')
    assert old.way_back("run-1") == {"a": None}
    assert old.way_back("run-0") is None
    assert old.way_back("") is None
    assert history.from_json(old.to_json()) == old
    with pytest.raises(ValueError, match="not format 2"):
        history.from_json('{"format": 3}')


# --- what is kept nowhere ---------------------------------------------------------------------------------------------

TOKEN = "/run/token"
#: What succeeds while the certificate is one for so many hours.
GOOD = {8: "good --hours 8", 9: "good --hours 9"}


def identity(hours: int, token: str) -> Concern:
    """A concern whose command needs a token unless the host has a certificate for so many *hours*."""
    asks = (f"enrol {hours}",)
    return Concern(
        "identity",
        files=(
            file("/etc/identity", f"{hours}\n", run=asks),
            file(TOKEN, token, secret=True, unless=GOOD[hours], run=asks),
        ),
    )


def enrolled(host: MemoryHost, hours: int) -> None:
    """Whoever enrols has used the token, and the certificate is one for *hours*."""
    assert host.read_by[f"enrol {hours}"][TOKEN].content
    del host.files[TOKEN]
    host.holding = {GOOD[hours]}


def changed() -> MemoryHost:
    """A host whose certificate run-2 has made one for 9 hours."""
    host = fresh()
    converge(host, identity(8, "one"), BOOT, name="run-1")
    enrolled(host, 8)
    converge(host, identity(9, "two"), name="run-2")
    enrolled(host, 9)
    return host


def test_a_token_that_is_needed_on_the_way_back_is_asked_for_and_made_anew() -> None:
    host = changed()
    before = seen(host)
    held_back = replace(identity(9, ""), files=(replace(identity(9, "").files[1], held_back=True),))
    asked = engine.back(host.machine(), "run-2", [held_back], wait=0, who="test", name="run-3")
    assert (asked.needs, asked.changes, seen(host)) == ((TOKEN,), (), before)
    made = replace(held_back, files=(replace(held_back.files[0], content="three", held_back=False),))
    done = engine.back(host.machine(), "run-2", [made], wait=0, who="test", name="run-3")
    assert {change.subject for change in done.changes} >= {"/etc/identity", TOKEN, CONFIG}
    assert host.read_by["enrol 8"][TOKEN].content == "three"
    assert "three" not in str(host.history)
    enrolled(host, 8)
    assert engine.back(host.machine(), "run-2", [held_back], wait=0, who="test", name="run-4").needs == ()


def test_without_one_nothing_empty_is_placed_and_the_rest_goes_back() -> None:
    host = changed()
    another = Concern("another", files=(replace(identity(9, "").files[1], held_back=True),))
    with pytest.raises(HostError, match=rf"identity: {TOKEN}: is made anew when a host needs it"):
        engine.back(host.machine(), "run-2", [another], wait=0, who="test", name="run-3")
    assert TOKEN not in host.files
    assert host.files["/etc/identity"].content == "9\n"
    assert host.files[CONFIG].content == "dtparam=pciex1_gen=3\n", "pi_boot has returned"
    back_with = [identity(8, "three")]  # the site file states it again
    engine.back(host.machine(), "run-2", back_with, wait=0, who="test", name="run-4")
    assert host.files["/etc/identity"].content == "8\n"


def test_a_host_that_has_what_a_token_is_good_for_needs_none_on_the_way_back() -> None:
    host = changed()
    host.holding.add(GOOD[8])
    back(host, "run-2")
    assert TOKEN not in host.files
    assert host.files["/etc/identity"].content == "8\n"
