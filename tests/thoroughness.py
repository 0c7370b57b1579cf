"""How many of the seeded points a run takes: some of them, or all with CI_FULL=1."""

from __future__ import annotations

import os

#: Whether this run takes all points and the tests that take minutes each.
FULL = os.environ.get("CI_FULL") == "1"


def points(some: int, every: int) -> int:
    """How many points a test takes: *every* one in a full run, else *some*."""
    return every if FULL else some
