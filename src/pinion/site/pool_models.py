"""The models of a site's NVLink pool: what rules and plan both ask. Pure."""

from __future__ import annotations

from pinion.site.model import PoolModel, Site

#: The chart of their releases, the namespace of these, and what their names begin with.
CHART, NAMESPACE, PREFIX = "triton", "models", "triton-"
#: The format that Pinion's program for Triton reads.
FORMAT = "onnx"
#: helm takes no longer name of a release.
_LONGEST = 53 - len(PREFIX)


def pooled(site: Site) -> dict[str, PoolModel]:
    """The models with a form on the pool, by the name that clients use."""
    return {name: model.pool for name, model in site.models.items() if model.pool is not None}


def served(site: Site) -> dict[str, PoolModel]:
    """Those of `pooled` that can be served: all, where there is a cluster, and the key that pods check a model with."""
    return pooled(site) if site.kubernetes is not None and site.concerns.model_store is not None else {}


def release_name(model: str) -> str:
    """The name of the release that serves *model*."""
    return f"{PREFIX}{model}"


def fits_release(model: str) -> bool:
    """Whether *model* can be part of a release's name: a DNS label (RFC 1123), not too long."""
    plain = set("abcdefghijklmnopqrstuvwxyz0123456789-")
    return 0 < len(model) <= _LONGEST and set(model) <= plain and not model.startswith("-") and not model.endswith("-")
