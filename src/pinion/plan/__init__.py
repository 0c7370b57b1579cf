"""What follows from a Site: `plan(site)` is pure, with no I/O, no clock and no randomness."""

from __future__ import annotations

from pinion.plan.compile import plan
from pinion.plan.model import Plan

__all__ = ["Plan", "plan"]
