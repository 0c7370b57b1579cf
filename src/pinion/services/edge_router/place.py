"""What a place that was asked gives: a `Reply`, or an error that says whether the client has had any of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass


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
