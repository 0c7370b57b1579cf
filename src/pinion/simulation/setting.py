"""What is simulated, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinion.routing.inputs import PiModel
from pinion.routing.policy import RoutingPolicy
from pinion.simulation.scenario import Link, Pool


@dataclass(frozen=True, slots=True)
class Setting:
    """What is simulated: Pis alike with *models* and *slots*, the *pool* (None: none) with its *served* models, and the *path* to it.

    *mean_answer* is the answer in tokens that takes the pool its average time. *faults* are (time, what, whether it begins).
    """

    pis: int
    slots: int
    models: Mapping[str, PiModel]
    policy: RoutingPolicy
    path: tuple[Link, ...] = ()
    pool: Pool | None = None
    replicas: int = 0
    served: tuple[str, ...] = ()
    mean_answer: float = 1.0
    faults: tuple[tuple[float, str, bool], ...] = ()
