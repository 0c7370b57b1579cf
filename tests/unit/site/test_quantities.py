"""Quantities: what each means, what each refuses, and that nothing but `NotAQuantity` ever comes out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.site.quantities import (
    MAXIMUM_EXPANSION,
    NotAQuantity,
    SwitchPorts,
    fraction,
    numbers,
    port_names,
    seconds,
    switch_ports,
)

MEANINGS: list[tuple[Callable[[str], object], str, object]] = [
    (seconds, "80ms", 0.08),
    (seconds, "5s", 5.0),
    (seconds, "2min", 120.0),
    (seconds, "1.5 h", 5400.0),
    (fraction, "0%", 0.0),
    (fraction, "60%", 0.6),
    (fraction, "99.9 %", 0.999),
    (fraction, "100%", 1.0),
    (numbers, "1-4", (1, 2, 3, 4)),
    (numbers, "7, 1-3", (1, 2, 3, 7)),
    (numbers, "12", (12,)),
    (port_names, "Ethernet1-3", ("Ethernet1", "Ethernet2", "Ethernet3")),
    (port_names, "Ethernet3,1", ("Ethernet3", "Ethernet1")),
    (port_names, "Ethernet49/1-50/1", ("Ethernet49/1", "Ethernet50/1")),
    (port_names, "Ethernet1, Management1", ("Ethernet1", "Management1")),
    (port_names, "Ethernet1-Ethernet2", ("Ethernet1", "Ethernet2")),
    (switch_ports, "tor-1 Ethernet1-2", SwitchPorts("tor-1", ("Ethernet1", "Ethernet2"))),
    (switch_ports, "tor-1  Ethernet7", SwitchPorts("tor-1", ("Ethernet7",))),
]

REFUSALS: list[tuple[Callable[[str], object], str, str]] = [
    (seconds, "80", "is not a duration"),
    (seconds, "80 parsecs", "is not a duration"),
    (seconds, "-1s", "is not a duration"),
    (seconds, "1s\n", "is not a duration"),
    (seconds, "\u0661s", "is not a duration"),  # the Arabic digit one, a digit to Python
    (fraction, "60", "is not a percentage"),
    (fraction, "101%", "more than 100%"),
    (numbers, "8-1", "runs backwards"),
    (numbers, "0-3", "contains 0"),
    (numbers, "1,,2", "is not a number"),
    (numbers, "1-3,2", "more than once"),
    (numbers, "1-4000000", "more than"),
    (numbers, "1-90000,90001-180000", "more than"),
    (port_names, "8", "is not a port"),
    (port_names, "Ethernet8-1", "runs backwards"),
    (port_names, "Ethernet1/1-2/2", "mixes sub-ports"),
    (port_names, "Ethernet1-Port2", "mixes two kinds"),
    (port_names, "Ethernet1-900000", "more than"),
    (switch_ports, "Ethernet1", "does not name a switch"),
]


@pytest.mark.parametrize(("parse", "written", "meaning"), MEANINGS)
def test_meaning(parse: Callable[[str], object], written: str, meaning: object) -> None:
    assert parse(written) == (pytest.approx(meaning) if isinstance(meaning, float) else meaning)


@pytest.mark.parametrize(("parse", "written", "why"), REFUSALS)
def test_refusal_says_what_is_wrong_and_the_fix(parse: Callable[[str], object], written: str, why: str) -> None:
    with pytest.raises(NotAQuantity) as refused:
        parse(written)
    assert why in refused.value.wrong
    fix = refused.value.fix("an-example")
    assert fix.texts[0].strip('"') in fix.words.replace('"', "")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("parse", [seconds, fraction, numbers, port_names, switch_ports])
@given(written=st.one_of(st.text(max_size=40), st.text(alphabet="0123456789-,/% .Ethrnetms", max_size=30)))
def test_any_text_is_a_quantity_or_is_refused(parse: Callable[[str], object], written: str) -> None:
    with suppress(NotAQuantity):
        parse(written)


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=60))
def test_numbers_come_back_ascending_and_each_once(members: set[int]) -> None:
    assert numbers(",".join(map(str, members))) == tuple(sorted(members))


@given(st.integers(1, 500), st.integers(0, 400), st.sampled_from(["", "/1", "/4"]))
def test_a_span_of_ports_is_every_port_in_order(first: int, more: int, lane: str) -> None:
    last = first + more
    assert port_names(f"Ethernet{first}{lane}-{last}{lane}") == tuple(
        f"Ethernet{number}{lane}" for number in range(first, last + 1)
    )


def test_no_list_grows_beyond_the_limit() -> None:
    assert len(numbers(f"1-{MAXIMUM_EXPANSION}")) == MAXIMUM_EXPANSION
    with pytest.raises(NotAQuantity):
        numbers(f"1-{MAXIMUM_EXPANSION + 1}")
