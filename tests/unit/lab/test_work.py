"""Work side by side: every failure told once, nothing started whose need failed, waits told."""

from __future__ import annotations

import io
import threading
import time

import pytest

from pinion.lab.errors import LabError
from pinion.lab.progress import Progress
from pinion.lab.work import NotReachedError, Work


def test_items_wait_for_each_other_in_any_order() -> None:
    work = Work(Progress(io.StringIO()), 2)
    seen: list[str] = []

    def second() -> None:
        work.need(["first"])
        seen.append("second")

    work.start("second", second)
    time.sleep(0.05)
    work.start("first", lambda: seen.append("first"))
    work.finish()
    assert seen == ["first", "second"]


def test_all_failures_are_told_and_what_followed_is_not() -> None:
    work = Work(Progress(io.StringIO()), 4)
    reached: list[str] = []

    def fails(text: str) -> None:
        raise LabError(text)

    def follows() -> None:
        work.need(["a"])
        reached.append("follows")

    work.start("a", lambda: fails("no disk"))
    work.start("b", lambda: fails("no memory"))
    work.start("c", follows)
    work.start("d", lambda: reached.append("d"))
    with pytest.raises(LabError) as told:
        work.finish()
    assert str(told.value).splitlines() == ["a: no disk", "b: no memory"]
    assert reached == ["d"]
    assert not isinstance(told.value, NotReachedError)


def test_a_failure_is_told_at_once_and_long_work_is_given_up() -> None:
    stream, stopped = io.StringIO(), threading.Event()
    work = Work(Progress(stream), 3, give_up=stopped.set, grace=0.1)

    def long() -> None:
        while True:
            time.sleep(0.01)
            work.go_on()

    def deaf() -> None:
        assert stopped.wait(30)
        raise LabError("killed")

    def fails() -> None:
        raise LabError("no disk\nmore of it")

    work.start("long", long)
    work.start("deaf", deaf)
    work.start("short", fails)
    with pytest.raises(LabError) as told:
        work.finish()
    assert str(told.value) == "short: no disk\nmore of it", "what was given up is no failure of its own"
    assert "short: FAILED: no disk; what else is under way has 0 s to end" in stream.getvalue()


def test_what_ends_soon_after_a_failure_is_kept() -> None:
    work = Work(Progress(io.StringIO()), 2, grace=30)
    done: list[str] = []

    def short() -> None:
        time.sleep(0.1)
        work.go_on()
        done.append("short")

    work.start("short", short)
    work.start("fails", lambda: 1 // 0)
    with pytest.raises(LabError):
        work.finish()
    assert done == ["short"]


def test_a_bug_is_told_with_its_traceback() -> None:
    work = Work(Progress(io.StringIO()), 1)
    work.start("a", lambda: 1 // 0)
    with pytest.raises(LabError, match=r"a: Traceback[\s\S]*ZeroDivisionError"):
        work.finish()


def test_long_silence_tells_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "SILENCE", 0.05)
    stream = io.StringIO()
    progress = Progress(stream)
    progress.waits("pi-01", "sshd")
    time.sleep(0.1)
    progress.tick()
    assert "waiting: pi-01 for sshd (0 s)" in stream.getvalue()
    progress.waits("pi-01", None)
    said = stream.getvalue()
    time.sleep(0.1)
    progress.tick()
    assert stream.getvalue() == said


def test_lines_have_the_time_and_the_stage() -> None:
    stream = io.StringIO()
    Progress(stream).say("network", "made")
    assert stream.getvalue() == "[   0.0s] network: made\n"
