"""Have the outside programs that lab machines run, before they boot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pinion.lab.errors import LabError

#: Seconds after which we no longer believe that a build goes on: all tools together take 25 minutes on two cores.
_PATIENCE = 3600.0


def obtained(cache: Path, programs: Sequence[str], say: Callable[[str], None]) -> None:
    """Wait until every one of *programs* is in the cache, obtaining what is missing. `LabError` when it cannot be had."""
    missing = [name for name in programs if not (cache / "bin" / name).exists()]
    if not missing:
        return
    script = _repository() / "tools" / "obtain.py"
    if not script.exists():
        raise LabError(f"{', '.join(missing)}: not in {cache / 'bin'}, and {script} is not there to obtain it")
    say(f"waits for {', '.join(missing)}")
    try:
        done = subprocess.run(
            [sys.executable, str(script), "--json", *missing], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"{', '.join(missing)}: not obtained within {_PATIENCE / 60:.0f} min; run: make tools") from None
    if done.returncode:
        raise LabError(f"{', '.join(missing)}: cannot be obtained:\n{done.stderr.strip()[-2000:]}\nrun: make tools")


def _repository() -> Path:
    """The folder of the checkout that we run from."""
    stated = os.environ.get("PINION_ROOT")
    return Path(stated) if stated else Path(__file__).resolve().parents[4]
