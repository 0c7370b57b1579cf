"""The routing policy that a site file states: `routing`, `objectives` and `models`, as the programs that route read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pinion.routing.policy import ModelForms, Objectives, RoutingPolicy
from pinion.site.model import Objectives as StatedObjectives
from pinion.site.model import ServedModel, Site
from pinion.site.quantities import fraction, seconds


def routing_policy(site: Site) -> RoutingPolicy:
    """The policy of *site*, version 0: not published. What the site does not state is as `RoutingPolicy` has it."""
    policy = RoutingPolicy(
        site=site.site,
        objectives=_objectives(site.objectives),
        models=tuple(_forms(name, model) for name, model in site.models.items()),
    )
    stated = site.routing
    if stated is None:
        return policy
    limits: dict[str, Any] = {
        "prompt_tokens": stated.prompt_tokens,
        "queue_wait": _seconds(stated.queue_wait),
        "cpu": _fraction(stated.cpu),
        "confidence": stated.confidence,
        "local_tokens": stated.local_tokens,
        "speculative_tokens": stated.speculative_tokens,
        "pool_timeout": _seconds(stated.pool_timeout),
    }
    return replace(policy, **{name: limit for name, limit in limits.items() if limit is not None})


def _objectives(stated: StatedObjectives | None) -> Objectives:
    if stated is None:
        return Objectives()
    edge, site = stated.edge, stated.site
    return Objectives(
        edge_p50=_seconds(edge.p50) if edge is not None else None,
        edge_p95=_seconds(edge.p95) if edge is not None else None,
        site_p95=_seconds(site.p95) if site is not None else None,
        availability=_fraction(site.availability) if site is not None else None,
        alert_at=_fraction(stated.alert_at),
    )


def _forms(name: str, model: ServedModel) -> ModelForms:
    return ModelForms(
        name=name,
        edge=model.edge.artefact if model.edge is not None else None,
        pool=model.pool.artefact if model.pool is not None else None,
        runtime=model.pool.runtime if model.pool is not None else None,
        replicas=model.pool.replicas if model.pool is not None else 0,
    )


def _seconds(written: str | None) -> float | None:
    return None if written is None else seconds(written)


def _fraction(written: str | None) -> float | None:
    return None if written is None else fraction(written)
