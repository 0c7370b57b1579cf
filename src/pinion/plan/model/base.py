"""What all of a plan shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Planned(BaseModel):
    """Base of everything in a plan: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
