"""What a killed Pulumi engine leaves running ends with its lab, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.lab.engine_helpers import end_left
from pinion.lab.processes import start_time

WAITS = "#!/bin/sh\nwhile :; do sleep 1; done\n"
#: Starts a helper, writes down its number, and waits for it as the engine does, or ends at once.
STARTS = "#!/bin/sh\n{helper} --root / & echo $! >{note}; {then}\n"


class Engines:
    """Engines in a folder, each with one helper."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[int] = []

    def helper(self, instance: str, *, name: str = "pulumi-language-python", killed: bool = True) -> int:
        """A helper of a run in *instance*, whose engine was *killed* or is at work."""
        folder = self.folder / str(len(self.started))
        folder.mkdir()
        note = folder / "note"
        for file, text in (
            (name, WAITS),
            ("pulumi", STARTS.format(helper=folder / name, note=note, then="exit" if killed else "wait")),
        ):
            (folder / file).write_text(text)
            (folder / file).chmod(0o755)
        engine = subprocess.Popen(
            [str(folder / "pulumi")], env={**os.environ, "PINION_INSTANCE": instance}, start_new_session=True
        )
        if killed:
            engine.wait()
        else:
            self.started.append(engine.pid)
        deadline = time.monotonic() + 30
        while not (note.exists() and note.read_text().strip()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        pid = int(note.read_text())
        self.started.append(pid)
        # until it is the helper and no copy of its engine
        while name not in Path(f"/proc/{pid}/cmdline").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return pid


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    """Engines whose processes are gone after the test."""
    made = Engines(tmp_path)
    yield made
    for pid in made.started:
        if start_time(pid) is not None:
            os.kill(pid, 9)


def test_what_a_killed_engine_left_ends_and_nothing_else(engines: Engines) -> None:
    left = [engines.helper("mine-77"), engines.helper("mine-77", name="pulumi-resource-pinion")]
    others = [
        engines.helper("another-77"),
        engines.helper("mine-77", name="kubectl"),
        engines.helper("mine-77", killed=False),
    ]
    assert end_left("mine-77") == 2
    assert [start_time(pid) for pid in left] == [None, None]
    assert None not in [start_time(pid) for pid in others]
    assert end_left("mine-77") == 0
