"""Names and places in a tree, the same for Flux and Argo CD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml
from pydantic import JsonValue
from typing_extensions import override

from pinion.plan.model import RepositoryPlan

#: One object as the Kubernetes API takes it.
Document = Mapping[str, JsonValue]
#: The folder of the cluster's own objects, of what the tool makes of each release, and of the charts.
OBJECTS, RELEASES, CHARTS = "objects", "releases", "charts"
#: The file that kustomize reads in a folder.
KUSTOMIZATION = "kustomization.yaml"


class _Dumper(yaml.SafeDumper):
    """Says what stands in two places twice, and not once by an anchor."""

    @override
    def ignore_aliases(self, data: object) -> bool:
        return True


def own_name(site: str, part: str = "") -> str:
    """The name of an object of the tool's own. It has a dot, which no release's name has."""
    return f"pinion.{site}{f'.{part}' if part else ''}"


def within(repository: RepositoryPlan, *parts: str) -> str:
    """The path of a part of the tree, from the root of *repository*."""
    return "/".join([repository.folder, *parts])


def text(*documents: Document) -> bytes:
    """The documents as YAML: one file, the same bytes each time."""
    several = len(documents) > 1
    dumped = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, explicit_start=several
    )
    return str(dumped).encode()


def kustomization(names: Sequence[str]) -> bytes:
    """The file by which kustomize takes the files *names* of a folder, in this order."""
    return text({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(names)})
