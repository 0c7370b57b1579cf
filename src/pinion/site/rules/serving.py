"""What the site serves: models, routing and objectives that the site's own hardware can meet."""

from __future__ import annotations

from pinion.site.edge_models import ENGINE_FORMATS, served, server, stored
from pinion.site.errors import Path
from pinion.site.model import PoolModel
from pinion.site.node_concerns import EdgeRuntime
from pinion.site.pool_models import FORMAT, fits_release, pooled
from pinion.site.quantities import fraction, seconds
from pinion.site.rules.bounds import bounded
from pinion.site.rules.facts import Facts

#: Oftener asks a server that has nothing new to say; less often leaves a Pi without its model for a day after a break.
_RETRY = ("1min", "24h")
#: Nothing answers within less; and who waits longer has no objective.
_LATENCY = ("1ms", "1h")
#: Less holds no model; more leaves nothing for the system.
_MEMORY = ("10%", "95%")
#: Shorter gathers nothing; longer is felt by who asks for one token.
_WINDOW = ("1ms", "5ms")
#: The chip whose HAT answers language models (vendor's documentation: Hailo's GenAI server is for the Hailo-10H).
_LANGUAGE_CHIP = "hailo-10h"


def check(facts: Facts) -> None:
    """All rules about models, routing and objectives."""
    for name, model in facts.site.models.items():
        path: Path = ("models", name)
        if model.edge is None and model.pool is None and not any(facts.has((*path, key)) for key in ("edge", "pool")):
            facts.report.on_key("MODEL-001", path, name=name)
        if model.edge is not None and facts.lacks("pis"):
            facts.report.on_key("MODEL-002", (*path, "edge"), name=name)
        if model.pool is not None and facts.lacks("gpu_servers"):
            facts.report.on_key("MODEL-003", (*path, "pool"), name=name)
    if facts.site.routing is not None and facts.site.routing.pool_timeout is not None:
        bounded(facts, ("routing", "pool_timeout"), facts.site.routing.pool_timeout, *_LATENCY)
    _objectives(facts)
    _store(facts)
    _runtime(facts)
    for name, pool in pooled(facts.site).items():
        _pool(facts, name, pool)


def _pool(facts: Facts, name: str, model: PoolModel) -> None:
    path: Path = ("models", name, "pool")
    if not fits_release(name):
        facts.report.on_key("MODEL-016", ("models", name), name=name)
    if facts.site.kubernetes is None and not facts.has(("kubernetes",)):
        facts.report.on_key("MODEL-017", path, name=name, host=next(iter(facts.site.management_hosts), None))
    if not facts.has(("concerns", "model_store")):
        facts.report.on_key("MODEL-018", (*path, "source"), name=name)
    if model.image is None:
        platforms = {server.platform for server in facts.site.gpu_servers.values()}
        if any(known.lab is False for slug, known in facts.catalog.platforms.items() if slug in platforms):
            facts.report.on_key("MODEL-019", path, name=name)
    elif "@sha256:" not in model.image:
        facts.report.on("MODEL-019", (*path, "image"), name=name)
    if model.source.format != FORMAT and not facts.guessed((*path, "source", "format")):
        values = {"format": model.source.format, "engine": model.runtime, "needed": FORMAT}
        facts.report.on_key("MODEL-009", (*path, "source"), name=name, **values)
    host, _ = server(model.source)
    if any(node.name == host for node in facts.nodes()):
        facts.report.on("MODEL-020", (*path, "source", "url"), host=host)
    bounded(facts, (*path, "batching", "window"), model.batching.window, *_WINDOW)
    for at, size in enumerate(model.batching.preferred):
        if size > model.batching.largest:
            facts.report.on(
                "MODEL-021", (*path, "batching", "preferred", at), size=size, largest=model.batching.largest
            )


def _store(facts: Facts) -> None:
    stated = facts.site.concerns.model_store
    if stated is None:
        return
    low, high = _RETRY
    bounded(facts, ("concerns", "model_store", "interval"), stated.interval, low, high)
    sizes = [source.size for _, source in stored(facts.site).values()]
    forms = ((name, form) for name in facts.site.models for form in ("edge", "pool"))
    if not sizes and not any(facts.has(("models", name, form, "source")) for name, form in forms):
        facts.report.on_key("MODEL-006", ("concerns", "model_store"))
    elif sizes and sum(sizes) + max(sizes) > stated.budget_mib << 20:
        needed = -(-(sum(sizes) + max(sizes)) >> 20)
        where = ("concerns", "model_store", "budget_mib")
        report = facts.report.on if facts.has(where) else facts.report.on_key
        report("MODEL-010", where if facts.has(where) else where[:2], budget=stated.budget_mib, needed=needed)


def memory_is_sound(stated: EdgeRuntime) -> bool:
    """Whether the runtime's share of memory leaves something for the system and for a model."""
    return fraction(_MEMORY[0]) <= fraction(stated.memory) <= fraction(_MEMORY[1])


def _runtime(facts: Facts) -> None:
    stated, where = facts.site.concerns.edge_runtime, ("concerns", "edge_runtime")
    if stated is None:
        return
    if not memory_is_sound(stated):
        low, high = _MEMORY
        nearest = low if fraction(stated.memory) < fraction(low) else high
        facts.report.on("MODEL-014", (*where, "memory"), value=stated.memory, low=low, high=high, nearest=nearest)
    groups = {name: group for name, group in facts.site.pis.items() if group.board in facts.catalog.boards}
    for name, group in groups.items():
        cores = facts.catalog.boards[group.board].cores
        if stated.cores is not None and stated.cores > cores:
            facts.report.on("MODEL-012", (*where, "cores"), cores=stated.cores, group=name, has=cores)
            break
    if stated.engine not in ENGINE_FORMATS:
        for name, group in groups.items():
            hat = facts.catalog.hats.get(group.hat or "")
            if hat is None or hat.chip != _LANGUAGE_CHIP:
                facts.report.on("MODEL-011", (*where, "engine"), group=name, chip=_LANGUAGE_CHIP)
        return
    if not facts.has(("concerns", "model_store")):
        facts.report.on_key("MODEL-007", where)
        return
    chosen = served(facts.site)
    if chosen is None:
        kept, first = ", ".join(stored(facts.site)) or "none", next(iter(stored(facts.site)), None)
        if facts.has((*where, "model")):
            facts.report.on("MODEL-008", (*where, "model"), kept=kept, first=first)
        elif len(stored(facts.site)) > 1:
            facts.report.on_key("MODEL-008", where, kept=kept, first=first)
        return
    source, needed = stored(facts.site)[chosen][1], ENGINE_FORMATS[stated.engine]
    if source.format != needed:
        path = ("models", chosen, "edge", "source")
        facts.report.on_key("MODEL-009", path, name=chosen, format=source.format, engine=stated.engine, needed=needed)


def _objectives(facts: Facts) -> None:
    stated = facts.site.objectives
    if stated is None:
        return
    sound = True
    for section, key in (("edge", "p50"), ("edge", "p95"), ("site", "p95")):
        written = getattr(getattr(stated, section), key, None)
        if written is not None:
            sound &= bounded(facts, ("objectives", section, key), written, *_LATENCY)
    p50, p95 = (stated.edge.p50, stated.edge.p95) if stated.edge is not None else (None, None)
    if sound and p50 is not None and p95 is not None and seconds(p50) > seconds(p95):
        facts.report.on("MODEL-004", ("objectives", "edge", "p50"), p50=p50, p95=p95)
    if stated.site is not None and stated.site.availability is not None and fraction(stated.site.availability) == 1.0:
        facts.report.on("MODEL-005", ("objectives", "site", "availability"))
