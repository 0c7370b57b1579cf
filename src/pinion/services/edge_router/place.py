"""What a place that was asked gives: a `Reply`, or an error that says whether the client has had any of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

_T = TypeVar("_T")


class FailedError(Exception):
    """A place gave no answer, or none that can be believed; the text says why. Nothing of it has reached the client."""


class CutOffError(Exception):
    """A place's answer ended in the middle, when its beginning had reached the client already."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in OpenAI's form that has begun: *pieces* are its bytes as they come, the first of which is there. Raises `CutOffError`."""

    status: int
    content_type: str
    pieces: Callable[[], AsyncIterator[bytes]]


async def while_up(answer: Awaitable[_T], down: asyncio.Event, patience: float | None = None) -> _T:
    """*answer*, as long as its place is not *down*, and within *patience* seconds. Raises `FailedError`, and what *answer* raises."""
    asking, gone = asyncio.ensure_future(answer), asyncio.ensure_future(down.wait())
    try:
        await asyncio.wait({asking, gone}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise FailedError("it went silent" if gone.done() else f"no answer within {patience:g} s")
        return asking.result()
    finally:
        for task in (asking, gone):
            task.cancel()
        # what it still says is of no use to anybody
        with suppress(asyncio.CancelledError, aiohttp.ClientError, TimeoutError, FailedError):
            await asking
