"""What is signed and can be verified with what the site file says: an edited digest or key is told here, and not by every node."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pinion.services.node_programs.model_store import Model
from pinion.site.edge_models import stored
from pinion.site.errors import Path
from pinion.site.model import ArtefactSource, EdgeModel, PoolModel, Site
from pinion.site.pool_models import pooled
from pinion.site.rules.facts import Facts


def check(facts: Facts) -> None:
    """The signatures of artefacts, where the site states the key that they are by."""
    store, where = facts.site.concerns.model_store, ("concerns", "model_store", "key")
    if store is None or facts.guessed(where):
        return
    for name, form, stated, source in _signed(facts.site):
        path: Path = ("models", name, form, "source")
        said = [(*path, key) for key in ("sha256", "size", "signature", "format", "architecture")]
        if any(map(facts.unsound, [("models", name, form, "artefact"), *said])):
            continue
        model = Model(
            name,
            stated.artefact,
            source.url,
            source.sha256,
            source.size,
            source.signature,
            source.format,
            source.architecture,
            (),
        )
        if not _holds(model, store.key):
            facts.report.on("MODEL-015", (*path, "signature"), name=name)


def _signed(site: Site) -> Iterator[tuple[str, str, EdgeModel | PoolModel, ArtefactSource]]:
    """Each form of a model that says where it is had from: the model's name, the form's key, the form, its source."""
    for name, (edge, source) in stored(site).items():
        yield name, "edge", edge, source
    for name, pool in pooled(site).items():
        yield name, "pool", pool, pool.source


def _holds(model: Model, key: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(
            base64.b64decode(model.signature), model.statement()
        )
    except (InvalidSignature, ValueError):
        return False
    return True
