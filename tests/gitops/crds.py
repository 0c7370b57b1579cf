"""The definitions of Flux's and Argo CD's own kinds, out of their Go modules: fetched when a test needs them, held to their hashes."""

from __future__ import annotations

import json
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pinion.lab.state import cache_root
from toolchest.cache import Cache
from toolchest.download import Downloads
from toolchest.golang import Go
from toolchest.process import UnavailableError
from toolchest.recipes import load

REPOSITORY = Path(__file__).parents[2]


class Module(NamedTuple):
    """A Go module at a version, its hash as go.sum has it, and the files of definitions in it."""

    path: str
    version: str
    hash: str
    files: tuple[str, ...]


FLUX = (
    Module(
        "github.com/fluxcd/source-controller",
        "v1.10.1",
        "h1:vkYpgpLZu20LQ2UN4lPBdWH7sqTNdQ8FjcZD/HogN2E=",
        ("config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",),
    ),
    Module(
        "github.com/fluxcd/kustomize-controller",
        "v1.10.1",
        "h1:IjTnrkIy0ULJoTNC2ZKuMb32vkqj7dJ6zt6UqbTFxKA=",
        ("config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",),
    ),
    Module(
        "github.com/fluxcd/helm-controller",
        "v1.6.4",
        "h1:u/Ew7LehrwDQaE/NqWdaB3XnNDCxRGDcp1FZl7RKj4g=",
        ("config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",),
    ),
)
ARGO_CD = (
    Module(
        "github.com/argoproj/argo-cd/v3",
        "v3.6.1",
        "h1:OmhqeKiR3C//awbFrhQqFdtRI+Qiv17j8vqm3UkMj/g=",
        ("manifests/crds/application-crd.yaml", "manifests/crds/appproject-crd.yaml"),
    ),
)


@lru_cache
def definitions() -> tuple[dict[str, Any], ...]:
    """All CustomResourceDefinitions. Raises `UnavailableError` when the modules cannot be had."""
    return tuple(found for module in (*FLUX, *ARGO_CD) for found in _of(module))


def missing() -> str | None:
    """Why there are none; None when there are."""
    try:
        definitions()
    except UnavailableError as error:
        return f"definitions of Flux's and Argo CD's kinds: {error}"
    return None


def _of(module: Module) -> Iterator[dict[str, Any]]:
    cache = Cache(cache_root())
    go = Go(load(REPOSITORY / "tools/tools.toml"), cache, Downloads(cache.downloads), REPOSITORY)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [go.command(), "mod", "download", "-json", f"{module.path}@{module.version}"],
            cwd=folder,
            # the hash below is ours: nobody else is asked
            env={**go.environment(), "GONOSUMDB": "*"},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    said = json.loads(done.stdout or "{}")
    if said.get("Sum") != module.hash:
        raise UnavailableError(f"{module.path}@{module.version}: {said.get('Sum') or done.stderr.strip()[-300:]}")
    # the archive, for a module of a newer Go than ours is fetched and not unpacked
    with zipfile.ZipFile(said["Zip"]) as archive:
        for file in module.files:
            yield from yaml.safe_load_all(archive.read(f"{module.path}@{module.version}/{file}"))
