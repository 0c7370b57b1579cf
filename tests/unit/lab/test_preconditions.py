"""What the lab needs of its machine."""

from __future__ import annotations

import io
from pathlib import Path

from pinion.lab.preconditions import LIMITS, raise_limits
from pinion.lab.progress import Progress


def test_limits_are_raised_and_never_lowered(tmp_path: Path) -> None:
    stream = io.StringIO()
    instances, watches = (tmp_path / name for name in LIMITS)
    instances.parent.mkdir(parents=True)
    instances.write_text("128\n")
    watches.write_text("99999999\n")
    assert raise_limits(Progress(stream), tmp_path) == ["fs.inotify.max_user_instances"]
    assert int(instances.read_text()) == LIMITS["fs/inotify/max_user_instances"]
    assert watches.read_text() == "99999999\n"
    assert "raised from 128" in stream.getvalue()
    assert raise_limits(Progress(stream), tmp_path) == []
