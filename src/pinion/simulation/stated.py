"""From a site and a scenario to what is simulated: what the site states goes first, the scenario says the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pinion.plan.model import DeviceKind, Plan
from pinion.routing.inputs import PiModel
from pinion.simulation.load import mean_answer
from pinion.simulation.scenario import Scenario, ScenarioError
from pinion.simulation.setting import Setting
from pinion.site.catalog.inference import InferenceRates, rates
from pinion.site.model import Site

#: What a Pi without `concerns.edge_runtime` is simulated with: that concern's own defaults.
_SLOTS, _CONTEXT = 1, 2048


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is simulated, the names of its Pis in order, and the published *rates* of them."""

    setting: Setting
    names: tuple[str, ...]
    rates: InferenceRates


def simulated(site: Site, plan: Plan, scenario: Scenario) -> Simulated:
    """*site*, planned as *plan*, under *scenario*. Raises `ScenarioError`, with the key and the fix, where the two do not go together."""
    policy = plan.routing if scenario.mode is None else replace(plan.routing, mode=scenario.mode)
    if not policy.models:
        raise ScenarioError(f"{plan.site} states no models: state at least one under `models` of its site file")
    unknown = {kind.model for kind in scenario.load.kinds} - {"", *(model.name for model in policy.models)}
    if unknown:
        raise ScenarioError(f"load.kinds: {plan.site} has no model '{min(unknown)}'; it has {policy.models[0].name}")
    published = rates()[scenario.rates]
    _need_hardware(site, published, scenario.rates)
    names = tuple(device.name for device in plan.devices if device.kind is DeviceKind.PI and not device.leaving)
    if scenario.pis is not None:
        names = tuple(f"pi-{number}" for number in range(1, scenario.pis + 1))
    if not names:
        raise ScenarioError(f"{plan.site} has no Pis: state `pis` in its site file, or in the scenario")
    runtime = site.concerns.edge_runtime
    slots, context = (runtime.slots, runtime.context) if runtime is not None else (_SLOTS, _CONTEXT)
    # a Pi that answers several at once is slower at each, as the site file says of `slots`
    each = PiModel(
        prefill=published.prefill / slots if published.prefill is not None else math.inf,
        decode=published.decode / slots,
        context=context,
        start=published.start or 0.0,
    )
    stated = tuple(model.name for model in policy.models if model.pool is not None)
    replicas = max((model.replicas for model in policy.models), default=0)
    pool = scenario.pool
    if pool is not None and pool.replicas is None and not stated:
        raise ScenarioError(f"pool.replicas: no model of {plan.site} states a pool; state how many GPUs are simulated")
    setting = Setting(
        pis=len(names),
        slots=slots,
        models={model.name: each for model in policy.models if model.edge is not None},
        policy=policy,
        path=scenario.path,
        pool=pool,
        replicas=(pool.replicas or replicas) if pool is not None else 0,
        served=stated or tuple(model.name for model in policy.models),
        mean_answer=mean_answer(scenario.load),
        faults=tuple(
            (at, fault.what, begins)
            for fault in scenario.faults
            for at, begins in ((fault.at, True), (fault.until, False))
        ),
    )
    return Simulated(setting, names, published)


def _need_hardware(site: Site, published: InferenceRates, name: str) -> None:
    """Refuse a rate that nobody published for the site's boards or HATs."""
    for group, stated in site.pis.items():
        if stated.board not in published.boards or published.hat not in {None, stated.hat}:
            raise ScenarioError(
                f"rates: {name} was measured on {published.hardware}, and pis.{group} is {stated.board} with "
                f"{stated.hat or 'no HAT'}; choose rates of its hardware"
            )
