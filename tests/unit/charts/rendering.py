"""Helm on the charts of the repository: what they render, and the values that the lab's plan gives them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from pinion.lab.state import cache_root
from pinion.plan import plan
from pinion.site.loader import load

REPOSITORY = Path(__file__).parents[3]
CHARTS = REPOSITORY / "charts"
HELM = shutil.which("helm", path=str(cache_root() / "bin")) or shutil.which("helm")


def helm(*argv: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm with *values*."""
    command = [str(HELM), *argv, *(["--values", "-"] if values is not None else [])]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=False)


def rendered(chart: str, release: str, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects of *chart* with *values*, by kind and name."""
    place = ("--namespace", "edge", "--kube-version", "1.34.2")
    done = helm("template", release, str(CHARTS / chart), *place, values=values)
    assert done.returncode == 0, done.stderr
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in yaml.safe_load_all(done.stdout) if item}


def planned(chart: str) -> dict[str, Any]:
    """The values that the plan of the lab gives its one release of *chart*."""
    cluster = plan(load(REPOSITORY / "inventories" / "lab" / "site.yml")).cluster
    assert cluster is not None
    (release,) = (release for release in cluster.releases if release.chart == chart)
    # as helm gets them
    values: dict[str, Any] = json.loads(json.dumps(release.values))
    return values
