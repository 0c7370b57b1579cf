"""What a tree gives, built by kubectl's kustomize and by helm, which know nothing of Pinion."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pinion.lab.state import cache_root
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.provider.cluster import charts
from pinion.render.gitops import tree
from pinion.render.gitops.folder import write
from pinion.site.loader import read
from pinion.site.model import ClusterOwner, Site

REPOSITORY = Path(__file__).parents[2]
PLACE = "clusters/here"
WHERE = {"url": "https://git.example.org/racks.git", "folder": PLACE}
KUBECTL, HELM = (
    shutil.which(name, path=str(cache_root() / "bin")) or shutil.which(name) for name in ("kubectl", "helm")
)
MISSING = [name for name, found in (("kubectl", KUBECTL), ("helm", HELM)) if found is None]

#: The version of the lab's API server.
KUBERNETES = "1.34.2"

#: What names an object in a cluster: apiVersion, kind, namespace, name.
Key = tuple[str, str, str, str]
Objects = dict[Key, dict[str, Any]]


def site(name: str, **kubernetes: Any) -> dict[str, Any]:
    """The site file of *name* with a repository, and further keys of its section `kubernetes`."""
    stated: dict[str, Any] = yaml.safe_load((REPOSITORY / "inventories" / name / "site.yml").read_text())
    return {**stated, "kubernetes": {**stated["kubernetes"], "repository": WHERE, **kubernetes}}


def planned(stated: Mapping[str, Any]) -> Plan:
    """The plan of a site file, which must have no mistake."""
    _, problems = read(json.dumps(stated).encode(), "site.yml", charts=REPOSITORY / "charts")
    assert [str(problem) for problem in problems] == []
    return compile_plan(Site.model_validate(stated))


def rendered(plan: Plan, tool: ClusterOwner, repository: Path) -> Path:
    """The folder of *plan*'s tree, in a git repository with its root at *repository*."""
    assert plan.cluster is not None
    names = {release.chart for release in plan.cluster.releases}
    folder = repository / PLACE
    write(folder, tree(plan, tool, {name: dict(charts.contents(REPOSITORY / "charts" / name)) for name in names}))
    return folder


def keyed(objects: Iterable[dict[str, Any]], namespace: str = "") -> Objects:
    """*objects* by what names each, in *namespace* where they say none."""
    found: Objects = {}
    for item in objects:
        metadata = item["metadata"]
        key = item["apiVersion"], item["kind"], metadata.get("namespace", namespace), metadata["name"]
        assert key not in found, f"{key} comes twice"
        found[key] = item
    return found


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """The objects that kustomize makes of *folder*."""
    assert KUBECTL is not None
    return _documents([KUBECTL, "kustomize", str(folder)])


@dataclass(frozen=True)
class Rendering:
    """One run of `helm template`."""

    name: str
    namespace: str
    chart: Path
    values: Mapping[str, Any]

    def objects(self) -> Objects:
        """What helm makes of it, without the tests that it makes only when asked."""
        command = [
            str(HELM),
            "template",
            self.name,
            str(self.chart),
            "--namespace",
            self.namespace,
            "--values",
            "-",
            "--skip-tests",
            "--kube-version",
            KUBERNETES,
        ]
        return keyed(_documents(command, given=json.dumps(self.values)), self.namespace)


def _documents(command: list[str], given: str = "") -> list[dict[str, Any]]:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return [found for found in yaml.safe_load_all(done.stdout) if found]


@dataclass(frozen=True)
class Built:
    """All objects that come of a tree, but for the tool's *own*; *releases* by name."""

    own: list[dict[str, Any]]
    objects: Objects
    releases: dict[str, Rendering]

    def everything(self) -> Objects:
        """The objects, and those of the releases."""
        found = dict(self.objects)
        for release in self.releases.values():
            made = release.objects()
            assert not made.keys() & found.keys()
            found |= made
        return found


def built(repository: Path, tool: ClusterOwner) -> Built:
    """What *tool* makes of the tree in *repository*, beginning at the tree's root as it does itself."""
    own: list[dict[str, Any]] = []
    objects: Objects = {}
    releases: dict[str, Rendering] = {}
    waiting, seen = [PLACE], set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for item in kustomized(repository / path):
            if not item["apiVersion"].split("/")[0].endswith(("toolkit.fluxcd.io", "argoproj.io")):
                objects |= keyed([item])
                continue
            own.append(item)
            further, release = (_flux if tool is ClusterOwner.FLUX else _argo_cd)(repository, item)
            waiting += [place for place in further if place not in seen]
            if release is not None:
                assert release.name not in releases
                releases[release.name] = release
    return Built(own, objects, releases)


Step = tuple[Iterator[str] | list[str], Rendering | None]


def _flux(repository: Path, item: dict[str, Any]) -> Step:
    spec = item["spec"]
    if item["kind"] == "Kustomization":
        return [spec["path"].removeprefix("./")], None
    if item["kind"] == "HelmRelease":
        assert spec["storageNamespace"] == spec["targetNamespace"], "helm's records are where the stack looks for them"
        chart = repository / spec["chart"]["spec"]["chart"]
        return [], Rendering(spec["releaseName"], spec["targetNamespace"], chart, spec["values"])
    return [], None


def _argo_cd(repository: Path, item: dict[str, Any]) -> Step:
    if item["kind"] != "Application":
        return [], None
    source, namespace = item["spec"]["source"], item["spec"]["destination"]["namespace"]
    if "helm" not in source:
        return [source["path"]], None
    helm = source["helm"]
    return [], Rendering(helm["releaseName"], namespace, repository / source["path"], helm["valuesObject"])
