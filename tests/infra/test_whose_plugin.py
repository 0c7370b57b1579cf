"""Which Kubernetes plugin a stack gets: Pulumi's own, and the lab's stand-in only where it is asked for by its version."""

from __future__ import annotations

import os
from importlib.metadata import distribution, version
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[2]
PROGRAM = "pulumi-resource-kubernetes"


def test_the_project_knows_the_stand_in_by_its_version_alone() -> None:
    project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text())
    (entry,) = [plugin for plugin in project["plugins"]["providers"] if plugin["name"] == "kubernetes"]
    assert entry["version"] == f"{version('pulumi-kubernetes')}-stand-in"
    assert os.access(REPOSITORY / entry["path"] / PROGRAM, os.X_OK)


def test_no_distribution_puts_a_plugin_of_that_name_on_path() -> None:
    scripts = {
        name: {entry.name for entry in distribution(name).entry_points if entry.group == "console_scripts"}
        for name in ("pinion", "pinion-kubernetes-stand-in")
    }
    assert "pinion-kubernetes-stand-in" in scripts["pinion-kubernetes-stand-in"]
    assert not any(PROGRAM in found for found in scripts.values())
