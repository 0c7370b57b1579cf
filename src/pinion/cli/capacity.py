"""`pinion capacity`: how many GPUs and which link a load needs, and what happens when one dies."""

from __future__ import annotations

import json
import math

import click

from pinion.cli.arguments import FINE, PROBLEM, CannotRunError, load_or_exit
from pinion.cli.completing import sites
from pinion.plan.routing import routing_policy
from pinion.simulation import EVIDENCE
from pinion.simulation.capacity import Answer, CapacityError, PoolOf, Question
from pinion.simulation.capacity import capacity as answer_to
from pinion.site import quantities


def _of(parse: object) -> object:
    """A callback that turns a written quantity into its number."""

    def value(context: click.Context, option: click.Parameter, written: str | None) -> float | None:  # noqa: ARG001
        if written is None:
            return None
        try:
            return parse(written)  # type: ignore[operator, no-any-return]
        except quantities.NotAQuantity as wrong:
            raise click.BadParameter(str(wrong)) from None

    return value


_SECONDS, _SHARE = _of(quantities.seconds), _of(quantities.fraction)


@click.command(
    epilog="""\b
Example:
  pinion capacity dc-rack-12 --rate 1000 --local 70% --service 200ms --p95 150ms
"""
)
@click.argument("site", shell_complete=sites)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True, max=1e7),
    required=True,
    help="Requests a second, the whole site.",
)
@click.option("--local", default="70%", show_default=True, callback=_SHARE, help="Share of them that the Pis answer.")
@click.option("--service", default="200ms", show_default=True, callback=_SECONDS, help="Time of a request in the pool.")
@click.option(
    "--slots", type=click.IntRange(1, 4096), default=8, show_default=True, help="Requests that a GPU works on at once."
)
@click.option(
    "--first-token",
    default="20ms",
    show_default=True,
    callback=_SECONDS,
    help="Its first token, from when it is worked on.",
)
@click.option("--rtt", default="1ms", show_default=True, callback=_SECONDS, help="Round-trip time to the pool.")
@click.option(
    "--p95",
    callback=_SECONDS,
    help="Promised 95th percentile to the first token. Unstated: objectives.site.p95 of SITE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def capacity(
    site: str,
    rate: float,
    local: float,
    service: float,
    slots: int,
    first_token: float,
    rtt: float,
    p95: float | None,
    as_json: bool,
) -> None:
    """Say how many GPUs and which link the pool of SITE needs, by queueing formulas (Erlang C), and what happens when one dies.

    Exits with 1 when the site states fewer replicas than the promise takes, 2 when no number keeps it.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    policy = routing_policy(loaded)
    promised = p95 if p95 is not None else policy.objectives.site_p95
    if promised is None:
        raise CannotRunError(f"{loaded.site} promises no latency: state objectives.site.p95, or give --p95")
    question = Question(rate, local, service, promised, slots, first_token, rtt)
    try:
        found = answer_to(question)
    except CapacityError as cannot:
        raise CannotRunError(str(cannot)) from None
    stated = max((model.replicas for model in policy.models if model.pool is not None), default=None)
    missed = stated is not None and stated < found.needed.gpus
    if as_json:
        click.echo(
            json.dumps(
                {**found.as_dict(), "promised_p95": promised, "stated_replicas": stated, "enough": not missed}, indent=2
            )
        )
    else:
        _print(found, question, stated)
    raise SystemExit(PROBLEM if missed else FINE)


def _print(found: Answer, question: Question, stated: int | None) -> None:
    link = "no link of the list" if found.link is None else f"{found.link // 1000} Gbit/s"
    click.echo(f"{EVIDENCE}, by Erlang C; promised: 95% of first tokens within {question.p95 * 1000:g} ms")
    click.echo(f"  to the pool      {found.pool_rate:g} requests/s, {found.in_service:g} in service at once")
    click.echo(f"  GPUs needed      {_pool(found.needed)}")
    click.echo(f"  if one dies      {_pool(found.one_dead)}")
    click.echo(f"  to be safe       {found.needed.gpus + 1}: any one may die")
    click.echo(f"  without the Pis  {_pool(found.all_in_pool)}")
    click.echo(f"  link             {link}: {found.link_mbits:.1f} Mbit/s are needed")
    if stated is not None:
        enough = "enough" if stated >= found.needed.gpus else "too few"
        click.echo(f"  the site states  {stated}: {enough}")


def _pool(pool: PoolOf) -> str:
    if math.isinf(pool.p95):
        return f"{pool.gpus}: more comes than they can do, the queue grows without end"
    return f"{pool.gpus}: {pool.used:.0%} used, {pool.waiting:.1%} wait, p95 {pool.p95 * 1000:.0f} ms"
