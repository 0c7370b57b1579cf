"""Outside programs: wait until `tools/obtain.py` has them, so that a stage begins when its own programs are there and not when all are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

#: In a checkout; an installed package has no `tools/` and finds its programs on PATH.
OBTAIN = Path(__file__).resolve().parents[3] / "tools" / "obtain.py"


class ProgramMissingError(Exception):
    """A program could not be obtained; the text is that of `tools/obtain.py`."""


def obtain(names: Sequence[str], say: Callable[[str], None]) -> None:
    """Block until the programs *names* are in the cache's `bin` folder, passing progress lines to *say*.

    Raises `ProgramMissingError` when one cannot be had.
    """
    if not OBTAIN.is_file():
        return
    process = subprocess.Popen(
        [sys.executable, str(OBTAIN), "--json", *names], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    last = ""
    assert process.stderr is not None
    try:
        for line in process.stderr:
            last = line.rstrip() or last
            say(line.rstrip())
    except BaseException:  # whoever listens has had enough
        process.terminate()
        process.wait()
        raise
    if process.wait() != 0:
        raise ProgramMissingError(f"tools/obtain.py {' '.join(names)}: {last}")
