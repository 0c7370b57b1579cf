"""One decision with all that it was made from, as one line of JSON: whoever has the line can make the decision again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import TypeAdapter

from pinion.routing.decision import Decision, decide
from pinion.routing.inputs import Request, State
from pinion.routing.policy import STRICT, RoutingPolicy


@dataclass(frozen=True, slots=True)
class Record:
    """A decision and its inputs."""

    request: Request
    state: State
    policy: RoutingPolicy
    decision: Decision

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    def line(self) -> str:
        """The record as JSON, without a line break. Infinities and NaN are written as texts."""
        return _RECORD.dump_json(self).decode()

    def replayed(self) -> Decision:
        """The decision, made again from the recorded inputs."""
        return decide(self.request, self.state, self.policy)


_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


def read(line: str) -> Record:
    """The record that *line* holds; `pydantic.ValidationError` (a `ValueError`), with the keys, when it is none."""
    return _RECORD.validate_json(line)
