"""How fast language models run on Pis, as published; each entry of `inference_rates.yml` with its conditions and its source."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Annotated, Self

import yaml
from pydantic import Field, TypeAdapter, model_validator

from pinion.site.catalog import Entry

Rate = Annotated[float, Field(gt=0)]


class InferenceRates(Entry):
    """One published measurement: *prefill* and *decode* in tokens a second, or *start*, a time to first token in seconds, for the former.

    *hardware* is what it was measured on, *conditions* what else was said of it; it is taken for all *boards*, with the HAT *hat*.
    """

    model: str
    quantisation: str
    hardware: str
    boards: Annotated[tuple[str, ...], Field(min_length=1)]
    hat: str | None = None
    prefill: Rate | None = None
    start: Rate | None = None
    decode: Rate
    conditions: str

    @model_validator(mode="after")
    def _reads_prompts_somehow(self) -> Self:
        if (self.prefill is None) == (self.start is None):
            raise ValueError("exactly one of prefill and start is published")
        return self

    def said(self) -> str:
        """The entry in one line."""
        reading = f"reads {self.prefill:g}" if self.prefill is not None else f"first token after {self.start:g} s"
        return (
            f"{self.model} {self.quantisation} on {self.hardware}: {reading}, writes {self.decode:g} tokens/s "
            f"({self.conditions}; {self.source})"
        )


@cache
def rates() -> dict[str, InferenceRates]:
    """The published measurements by name."""
    text = (resources.files(__package__) / "inference_rates.yml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, InferenceRates]).validate_python(yaml.safe_load(text))
