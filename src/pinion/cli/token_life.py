"""The option that says for how long an enrolment token counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from pinion.drivers.identity.tokens import ENROLMENT_SECONDS, LONGEST_SECONDS
from pinion.site.quantities import seconds

P = ParamSpec("P")
R = TypeVar("R")


def _read(context: click.Context, parameter: click.Parameter, written: str) -> float:
    """A duration as site files write it, in seconds. Raises `click.BadParameter`."""
    del context, parameter
    try:
        found = seconds(written)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not ENROLMENT_SECONDS <= found <= LONGEST_SECONDS:
        bounds = f"{_written(ENROLMENT_SECONDS)} to {_written(LONGEST_SECONDS)}"
        raise click.BadParameter(
            f"'{written}' is not from {bounds}: shorter, and nobody is in time; longer, and it is lost"
        )
    return found


def _written(found: int) -> str:
    """Seconds as site files write them."""
    return f"{found // 3600}h" if found % 3600 == 0 else f"{found // 60}min"


def token_life(name: str, default: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The option called *name*, with the parameter ``token_life`` in seconds, *default* unless stated."""
    text = "How long the enrolment token counts, such as 12h."
    return click.option(
        name, "token_life", default=_written(default), show_default=True, callback=_read, metavar="DURATION", help=text
    )
