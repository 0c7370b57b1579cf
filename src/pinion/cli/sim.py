"""`pinion sim`: what a site would do under a load, routed by the production code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from pinion.cli.arguments import FINE, PROBLEM, CannotRunError, load_or_exit
from pinion.cli.completing import sites
from pinion.plan import plan as compile_plan
from pinion.simulation import EVIDENCE
from pinion.simulation.baselines import ROUTERS
from pinion.simulation.capacity import CapacityError, Question, needed
from pinion.simulation.engine import Simulation
from pinion.simulation.load import Arrival, TraceError, peak, synthetic, trace
from pinion.simulation.scenario import Scenario, ScenarioError, load_scenario, shipped
from pinion.simulation.setting import Setting
from pinion.simulation.stated import Simulated, simulated
from pinion.simulation.summary import Percentiles, Summary, summary


@click.command(
    epilog="""\b
Examples:
  pinion sim dc-rack-12 --scenario kiosks
  pinion sim dc-rack-12 --scenario kiosks --compare
  pinion sim dc-rack-12 --scenario my-load.yml --trace requests.jsonl --json
"""
)
@click.argument("site", shell_complete=sites)
@click.option(
    "--scenario",
    metavar="FILE",
    help=f"What no site file says: load, rates, links, pool, faults; or {', '.join(shipped())}.",
)
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(path_type=Path),
    help="Recorded requests, one JSON object a line, instead of made ones.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The same seed gives the same result."
)
@click.option("--compare", is_flag=True, help="Also everything in the pool, and fixed limits on lengths.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sim(site: str, scenario: str | None, trace_file: Path | None, seed: int, compare: bool, as_json: bool) -> None:
    """Simulate SITE (a path, or a name under inventories/) under a load, and print latency, hit rate, GPU need and cost.

    Nothing is measured: Pis are as fast as others published, and the rest is what the scenario says. Latencies that the site promises are
    times to the first token. Exits with 1 when the policy of the site misses an objective of the site, 2 when nothing could be simulated.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    try:
        assumed = load_scenario(scenario) if scenario is not None else Scenario()
        found = simulated(loaded, compile_plan(loaded), assumed)
        results = {name: _run(found, assumed, name, trace_file, seed) for name in (ROUTERS if compare else ("policy",))}
    except (ScenarioError, TraceError, CapacityError) as wrong:
        raise CannotRunError(str(wrong)) from None
    if as_json:
        told = {"evidence": EVIDENCE, "rates": found.rates.model_dump(), "seed": seed}
        click.echo(
            json.dumps(told | {"results": {name: result.as_dict() for name, result in results.items()}}, indent=2)
        )
    else:
        click.echo(f"{EVIDENCE}: {found.rates.said()}")
        _print(found.setting, results)
    raise SystemExit(PROBLEM if results["policy"].missed else FINE)


def _run(found: Simulated, assumed: Scenario, router: str, trace_file: Path | None, seed: int) -> Summary:
    """One run, routed by *router*. With everything in the pool, the pool has as many GPUs as that takes."""
    setting, pool = found.setting, found.setting.pool
    if router == "all-pool" and pool is not None and trace_file is None:
        way = sum(link.rtt for link in setting.path)
        promised = max(setting.policy.objectives.site_p95 or 0.0, 2 * (pool.first_token + way))
        asked = Question(peak(assumed.load), 0.0, pool.service, promised, pool.slots, pool.first_token, way)
        setting = replace(setting, replicas=max(setting.replicas, needed(asked, asked.rate).gpus))
    outcome = Simulation(setting, ROUTERS[router], seed).run(_arrivals(found, assumed, trace_file, seed))
    return summary(outcome, setting)


def _arrivals(found: Simulated, assumed: Scenario, trace_file: Path | None, seed: int) -> Iterator[Arrival]:
    policy = found.setting.policy
    if trace_file is not None:
        return trace(trace_file, found.names, policy)
    return synthetic(assumed.load, assumed.duration, found.setting.pis, policy, seed)


def _print(setting: Setting, results: dict[str, Summary]) -> None:
    """The figures for a person, one block for each way to route."""
    everything = results.get("all-pool")
    for name, result in results.items():
        click.echo(f"\n{name}: {result.requests:,} requests to {setting.pis:,} Pis")
        click.echo(f"  {'':<12} {'requests':>10} {'p50':>10} {'p95':>10} {'p99':>10}")
        for what, times in (("first token", result.first_token), ("answer", result.answer)):
            for place, found in times.items():
                click.echo(f"  {what:<12} {_row(place, found)}")
        click.echo(
            f"  answered on Pis {result.hit_rate:.1%}, in the pool {result.offload_rate:.1%}, refused {result.refused:,}"
        )
        click.echo(f"  degraded {result.degraded:,}, on Pis below the confidence asked for {result.doubtful:,}")
        used, each, held = result.gpu_seconds, result.gpu_seconds_per_1000, result.gpu_seconds_held
        click.echo(f"  GPU seconds used {used:,.1f} ({each:.2f} for 1,000 requests), held {held:,.1f}")
        if everything is not None and result is not everything and everything.gpu_seconds:
            saved = 1 - result.gpu_seconds / everything.gpu_seconds
            click.echo(f"  GPU seconds saved against everything in the pool: {saved:.1%}")
        whole, thousand = result.cost, result.cost_per_1000
        click.echo(f"  cost {whole:.2f} ({thousand:.3f} for 1,000 requests), paid by users {result.price_paid:.2f}")
        click.echo("  first reasons: " + ", ".join(f"{reason} {count:,}" for reason, count in result.reasons.items()))
        if result.error_budget is not None:
            click.echo(f"  error budget used: {result.error_budget:.0%}{', an alert fires' if result.alert else ''}")
        for miss in result.missed:
            click.echo(f"  missed: {miss.objective} is {miss.promised:g}, and {miss.found:.3g} was found")


def _row(place: str, found: Percentiles) -> str:
    times = " ".join(f"{value * 1000:>7,.0f} ms" for value in (found.p50, found.p95, found.p99))
    return f"{place:<5}{found.count:>6,} {times}"
