"""The official plugin is preferred, asked for once a day, and never where it cannot or may not be downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pinion.lab.kubernetes_plugin import choice

VERSION = "4.99.0"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty Pulumi home and a `pulumi` that writes down how it was called, and installs when a file says so."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    programs.mkdir()
    pulumi = programs / "pulumi"
    pulumi.write_text(
        f"""#!/bin/sh
echo "$@" >>{tmp_path}/calls
test -e {tmp_path}/online || exit 1
mkdir -p {home}/plugins/resource-kubernetes-v{VERSION}
printf '#!/bin/sh\\necho official "$@"\\n' >{home}/plugins/resource-kubernetes-v{VERSION}/pulumi-resource-kubernetes
chmod +x {home}/plugins/resource-kubernetes-v{VERSION}/pulumi-resource-kubernetes
"""
    )
    pulumi.chmod(0o755)
    return {"PULUMI_HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin"}


def calls(tmp_path: Path) -> int:
    """How often `pulumi` was called."""
    log = tmp_path / "calls"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_downloaded_once_then_found(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "online").touch()
    found = choice.official(VERSION, environment)
    assert found is not None
    assert found.is_file()
    assert choice.official(VERSION, environment) == found
    assert (tmp_path / "calls").read_text() == f"plugin install resource kubernetes {VERSION}\n"


def test_asked_for_once_a_day(environment: dict[str, str], tmp_path: Path) -> None:
    assert choice.official(VERSION, environment) is None
    assert choice.official(VERSION, environment) is None
    assert calls(tmp_path) == 1
    mark = next(Path(environment["PULUMI_HOME"]).glob(".resource-kubernetes*"))
    yesterday = time.time() - 25 * 3600
    os.utime(mark, (yesterday, yesterday))
    assert choice.official(VERSION, environment) is None
    assert calls(tmp_path) == 2


@pytest.mark.parametrize(
    "forbidden", [{"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}, {"PINION_INSTANCE": "lab"}]
)
def test_not_asked_for_where_that_is_pointless(
    environment: dict[str, str], tmp_path: Path, forbidden: dict[str, str]
) -> None:
    (tmp_path / "online").touch()
    assert choice.official(VERSION, environment | forbidden) is None
    assert calls(tmp_path) == 0


def test_the_program_becomes_the_official_one(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "online").touch()
    from pinion.lab.kubernetes_plugin.plugin import KubernetesPlugin

    script = tmp_path / "bin" / "pulumi"
    script.write_text(script.read_text().replace(VERSION, KubernetesPlugin.version))
    done = subprocess.run(
        [sys.executable, "-m", "pinion.lab.kubernetes_plugin", "127.0.0.1:1"],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "official 127.0.0.1:1\n"
