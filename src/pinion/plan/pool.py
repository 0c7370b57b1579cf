"""The releases that serve models on the NVLink pool: Triton by the chart `triton`, one release a model. Pure."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pinion.plan.artefacts import artefact_facts, public_key
from pinion.plan.flows import DOMAIN, TRITON_HTTP, TRITON_METRICS, prefixes_of
from pinion.plan.model import ClusterPlan, FlowPlan, ReleasePlan
from pinion.plan.triton_config import Batching, model_config
from pinion.site.edge_models import server
from pinion.site.model import PoolModel, Site
from pinion.site.pool_models import CHART, NAMESPACE, pooled, release_name
from pinion.site.quantities import seconds

#: The image that a lab makes and imports into its nodes. ``.invalid`` can never be resolved (RFC 2606); the tag is Triton's version.
LAB_IMAGE = "pinion.invalid/triton:2.51.0"
#: True as soon as all models are loaded (KServe's protocol, version 2).
READY_PATH = "/v2/health/ready"
#: Seconds from when a pod is told to end: until nobody sends it anything new, and then until its last answer.
_UNLISTED, _LAST_ANSWER = 5, 30
#: Shared memory of the Python backend: 1 MiB a process to begin with (Triton's documentation), and as much as long texts take.
_SHARED_MEMORY = "64Mi"
#: Cores that a copy is sure to have, in thousandths; more while nobody else wants them.
_SURE_CORES = 250


def pool_release(
    site: Site, name: str, *, place: Mapping[str, object], account: str, flows: Iterable[FlowPlan]
) -> ReleasePlan:
    """The release of the model called *name*. *place* are the values that say where its pods run."""
    model, release = pooled(site)[name], release_name(name)
    return ReleasePlan(
        name=release,
        namespace=NAMESPACE,
        chart=CHART,
        values={
            "replicas": model.replicas,
            **place,
            "serviceAccount": account,
            "image": {"reference": model.image or LAB_IMAGE},
            "model": {"name": name, "config": _config(name, model), "settings": _settings(site, name, model)},
            "ports": {"http": TRITON_HTTP, "metrics": TRITON_METRICS},
            "drain": {"unlistedSeconds": _UNLISTED, "answerSeconds": _LAST_ANSWER},
            "sharedMemory": _SHARED_MEMORY,
            "resources": _resources(model),
            "networkPolicy": _policy(release, model, flows),
        },
        port=TRITON_HTTP,
        probe_path=READY_PATH,
        answers_within=_objective(site),
        origin=f"models.{name}.pool",
    )


def pool_releases(plan: ClusterPlan) -> tuple[ReleasePlan, ...]:
    """The releases of *plan* that serve models of the pool."""
    return tuple(release for release in plan.releases if release.chart == CHART and release.namespace == NAMESPACE)


def serves_lab_image(plan: ClusterPlan) -> bool:
    """Whether a release of *plan* runs the image that a lab makes."""
    return any(release.values["image"] == {"reference": LAB_IMAGE} for release in pool_releases(plan))


def model_settings(release: ReleasePlan) -> dict[str, Any]:
    """What the pods of *release*, one of `pool_releases`, are told of their model, by its name: its source, and how it is checked."""
    model = release.values["model"]
    assert isinstance(model, Mapping)
    found: dict[str, Any] = json.loads(str(model["settings"]))["models"]
    return found


def _config(name: str, model: PoolModel) -> str:
    """The model's config.pbtxt."""
    stated = model.batching
    batching = Batching(most=stated.largest, window=seconds(stated.window), preferred=stated.preferred)
    return model_config(
        name, model.source.sha256, instances=model.instances, threads=model.threads, batching=batching
    ).text()


def _settings(site: Site, name: str, model: PoolModel) -> str:
    """What the program that places the model in the pod is told, in the form of the model store's settings."""
    stored = site.concerns.model_store
    assert stored is not None, "what is served has a key"
    facts = {**artefact_facts(model.artefact, model.source), "units": []}
    # One model, and the pod's own folder: no store, so no budget.
    told = {"folder": "", "budget": model.source.size, "key": public_key(stored.key), "models": {name: facts}}
    return json.dumps(told, indent=1) + "\n"


def _objective(site: Site) -> float | None:
    """The 95th percentile that answers are to have, in seconds, as far as the site states one."""
    stated = site.objectives.site if site.objectives is not None else None
    return seconds(stated.p95) if stated is not None and stated.p95 is not None else None


def _resources(model: PoolModel) -> dict[str, dict[str, str]]:
    cores = model.instances * model.threads
    memory = f"{model.memory_mib}Mi"
    # one core more than the model computes with, for Triton itself
    return {
        "requests": {"cpu": f"{_SURE_CORES * cores}m", "memory": memory},
        "limits": {"cpu": str(cores + 1), "memory": memory},
    }


def _policy(release: str, model: PoolModel, flows: Iterable[FlowPlan]) -> dict[str, object]:
    """Who may open connections to the pods, by port, and where the pods may open some: at the source of their model."""
    ingress = [
        {"from": [prefix for source in flow.sources for prefix in prefixes_of(source)], "ports": list(flow.ports)}
        for flow in flows
        if release in flow.releases
    ]
    host, port = server(model.source)
    try:
        egress = [{"to": [str(ipaddress.ip_network(host))], "ports": [port], "protocol": "TCP"}]
    except ValueError:
        # A name may lead anywhere, and has to be looked up first.
        egress = [{"to": ["0.0.0.0/0"], "ports": [port], "protocol": "TCP"}]
        egress += [{"to": ["0.0.0.0/0"], "ports": [DOMAIN], "protocol": kind} for kind in ("UDP", "TCP")]
    return {"enabled": True, "ingress": ingress, "egress": egress}
