"""The models that a site's Pis keep, and the one that they serve: what rules and plan both ask. Pure."""

from __future__ import annotations

from pinion.site.model import ArtefactSource, EdgeModel, Site

#: The format that each engine reads. Hailo's server has models of its own.
ENGINE_FORMATS = {"llama-server": "gguf", "onnx-model-server": "onnx"}


def stored(site: Site) -> dict[str, tuple[EdgeModel, ArtefactSource]]:
    """The edge models that say where they are had from, by the name that clients use."""
    return {
        name: (model.edge, model.edge.source)
        for name, model in site.models.items()
        if model.edge is not None and model.edge.source is not None
    }


def served(site: Site) -> str | None:
    """The name of the model that the edge runtime serves; None when there is none, or when it does not say which of several."""
    runtime, kept = site.concerns.edge_runtime, stored(site)
    if runtime is None or runtime.engine not in ENGINE_FORMATS:
        return None
    if runtime.model is not None:
        return runtime.model if runtime.model in kept else None
    return next(iter(kept)) if len(kept) == 1 else None


def server(source: ArtefactSource) -> tuple[str, int]:
    """The host, a name or an address, and the port that *source* is had from."""
    scheme, _, rest = source.url.partition("://")
    host, _, port = rest.partition("/")[0].partition(":")
    return host, int(port or (443 if scheme == "https" else 80))
