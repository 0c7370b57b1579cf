"""The official plugin where it can be had, the stand-in where not.

`pulumi-resource-kubernetes` in our environment is the stand-in's program, and it gives way: when Pulumi's own plugin of the same version
lies where Pulumi installs it, that is run instead; when it does not, Pulumi is asked once a day to download it. No attempt is made inside a
lab (nothing can leave it) or where the user has forbidden Pulumi to download plugins.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

PROGRAM: Final = "pulumi-resource-kubernetes"
#: Seconds between two attempts, and that one may take: a user waits for it.
_AGAIN, _PATIENCE = 24 * 3600.0, 60.0
#: Forbids Pulumi (and us) to download plugins; set by the user.
_FORBIDDEN: Final = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
#: Set by ``pinion lab exec``.
_IN_LAB: Final = "PINION_INSTANCE"


def official(version: str, environment: Mapping[str, str]) -> Path | None:
    """The official plugin of *version*, downloaded when that is possible; None when it cannot be had."""
    home = Path(environment.get("PULUMI_HOME") or Path.home() / ".pulumi")
    program = home / "plugins" / f"resource-kubernetes-v{version}" / PROGRAM
    if program.is_file():
        return program
    if environment.get(_FORBIDDEN, "").lower() in {"1", "true"} or _IN_LAB in environment:
        return None
    return program if _downloaded(version, environment, home) and program.is_file() else None


def _downloaded(version: str, environment: Mapping[str, str], home: Path) -> bool:
    """Ask Pulumi to download the plugin, unless that failed a short while ago."""
    failed = home / f".resource-kubernetes-v{version}.unavailable"
    with contextlib.suppress(OSError):
        if time.time() - failed.stat().st_mtime < _AGAIN:
            return False
    pulumi = shutil.which("pulumi", path=environment.get("PATH"))
    if pulumi is None:
        return False
    command = [pulumi, "plugin", "install", "resource", "kubernetes", version]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode == 0:
            return True
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        failed.touch()
    return False


def become(program: Path, arguments: Sequence[str]) -> NoReturn:
    """Run *program* in our place: the same process, so the engine sees no difference."""
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])
