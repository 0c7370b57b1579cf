"""Parts of the router that need no server: when the pool counts as down, the Pi's slots, what the kernel tells, settings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.services.edge_router.breaker import FAILURES, FIRST_WAIT, LONGEST_WAIT, LOOKS, Breaker
from pinion.services.edge_router.measuring import TEMPERATURE, THROTTLED, Kernel, Slots
from pinion.services.edge_router.settings import SettingsError, read


def closed() -> Breaker:
    made = Breaker()
    for _ in range(LOOKS):
        made.looked(0, ready=True)
    assert not made.open
    return made


# --- the breaker --------------------------------------------------------------------------------------------------------


def test_nobody_is_sent_before_it_was_seen() -> None:
    made = Breaker()
    assert not made.lets(0)
    for _ in range(LOOKS - 1):
        made.looked(0, ready=True)
        assert not made.lets(0)
    made.looked(0, ready=True)
    assert made.lets(0)


def test_one_failed_look_opens_and_some_in_a_row_close() -> None:
    made = closed()
    made.looked(1, ready=False)
    assert not made.lets(1)
    for ready in (True, True, False, True, True, True):
        made.looked(2, ready=ready)
        assert not made.lets(100)
    made.looked(3, ready=True)
    assert made.lets(3)


def test_failures_in_a_row_open_it_and_only_a_request_closes_it() -> None:
    made = closed()
    for _ in range(FAILURES - 1):
        made.failed(1)
    made.succeeded()
    for _ in range(FAILURES):
        assert made.lets(1)
        made.failed(1)
    for _ in range(LOOKS * 3):
        made.looked(1, ready=True)
    assert not made.lets(1 + FIRST_WAIT / 2)
    assert made.lets(1 + FIRST_WAIT)
    made.begun()
    assert not made.lets(1 + FIRST_WAIT), "one trial at a time"
    made.succeeded()
    assert made.lets(1 + FIRST_WAIT)


def test_who_keeps_failing_is_tried_ever_more_rarely() -> None:
    made, now, waits = closed(), 0.0, []
    for _ in range(FAILURES):
        made.failed(now)
    for _ in range(9):
        began = now
        while not made.lets(now):
            now += 0.25
            made.looked(now, ready=True)
        waits.append(now - began)
        made.begun()
        made.failed(now)
    assert waits == sorted(waits)
    assert waits[0] < 2 * FIRST_WAIT
    assert waits[-1] == pytest.approx(LONGEST_WAIT, abs=2)


def test_a_trial_whose_client_leaves_makes_room_for_another() -> None:
    made = closed()
    for _ in range(FAILURES):
        made.failed(0)
    for _ in range(LOOKS):
        made.looked(1, ready=True)
    made.begun()
    made.left()
    assert made.lets(FIRST_WAIT)


EVENTS = st.sampled_from(["request", "fail", "refused", "succeed", "leave", "ready", "not ready", "wait"])


@given(st.lists(EVENTS, max_size=200))
def test_whatever_happens_a_pool_that_is_well_is_taken_back(events: list[str]) -> None:
    made, now = Breaker(), 0.0
    for event in events:
        now += 10.0 if event == "wait" else 0.1
        if event == "request" and made.lets(now):
            made.begun()
        elif event in {"fail", "refused"}:
            made.failed(now, certain=event == "refused")
        elif event == "succeed":
            made.succeeded()
        elif event == "leave":
            made.left()
        elif event in {"ready", "not ready"}:
            made.looked(now, ready=event == "ready")
    made.left()  # the last trial has ended, one way or another
    for _ in range(int(LONGEST_WAIT) + LOOKS + 1):
        now += 1.0
        made.looked(now, ready=True)
        if made.lets(now):
            made.begun()
            made.succeeded()
    assert not made.open


# --- the Pi -------------------------------------------------------------------------------------------------------------


def test_slots_foretell_the_wait() -> None:
    slots = Slots(2)
    assert (slots.free, slots.waiting, slots.wait()) == (2, 0, 0.0)
    with slots.taken(10), slots.taken(30):
        assert slots.free == 0
        assert slots.wait() == pytest.approx(10, abs=0.5)
        with slots.taken(5):  # from 10 to 15
            assert slots.waiting == 1
            assert slots.wait() == pytest.approx(15, abs=0.5)
    assert (slots.free, slots.ends) == (2, [])


def test_a_request_that_takes_longer_than_foretold_makes_no_negative_wait() -> None:
    slots = Slots(1)
    with slots.taken(0.0):
        time.sleep(0.01)
        assert slots.wait() == 0.0


def host(root: Path, busy: int, idle: int, temperature: str = "61300\n", throttled: str = "e0008\n") -> None:
    for file, text in (
        (Path("/proc/stat"), f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\n"),
        (TEMPERATURE, temperature),
        (THROTTLED, throttled),
    ):
        place = root / file.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def test_the_processor_counts_while_the_engine_is_idle(tmp_path: Path) -> None:
    host(tmp_path, 100, 100)
    kernel = Kernel(tmp_path)
    kernel.look(engine_idle=True)
    host(tmp_path, 125, 175)
    kernel.look(engine_idle=True)
    assert kernel.cpu == 0.25
    host(tmp_path, 225, 175)
    kernel.look(engine_idle=False)
    assert kernel.cpu == 0.25
    host(tmp_path, 235, 185)
    kernel.look(engine_idle=True)
    assert kernel.cpu == 0.5


@pytest.mark.parametrize(
    ("told", "now"), [("e0008\n", False), ("4\n", True), ("50005\n", True), ("", False), ("?\n", False)]
)
def test_temperature_and_throttling(tmp_path: Path, told: str, now: bool) -> None:
    host(tmp_path, 1, 1, throttled=told)
    kernel = Kernel(tmp_path)
    kernel.look(engine_idle=True)
    assert (kernel.temperature, kernel.throttled) == (61.3, now)


def test_a_host_without_these_files(tmp_path: Path) -> None:
    host(tmp_path, 1, 1)
    (tmp_path / TEMPERATURE.relative_to("/")).unlink()
    kernel = Kernel(tmp_path)
    kernel.look(engine_idle=True)
    assert kernel.temperature == 0.0


# --- settings -----------------------------------------------------------------------------------------------------------


def test_settings_name_every_wrong_key(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"host": "::1", "port": "x", "colour": 1}')
    with pytest.raises(SettingsError) as wrong:
        read(file)
    told = str(wrong.value)
    assert told.startswith(f"{file}: ")
    assert all(key in told for key in ("port", "colour", "engine", "planned"))
    with pytest.raises(SettingsError, match="No such file"):
        read(tmp_path / "none")
