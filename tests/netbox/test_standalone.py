"""A NetBox of one's own leaves nothing behind, however its user dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

pytestmark = [
    pytest.mark.netbox,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and overlay need root"),
]

_PROGRAM = """
import sys
from pinion.lab.netbox.standalone import standalone
with standalone() as netbox:
    print(netbox.url, netbox.log.parent, flush=True)
    sys.stdin.read()
"""


def test_kill_9_leaves_no_process_and_no_mount_and_the_next_start_clears_the_disk() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        url, folder = user.stdout.readline().split()
        running = psutil.Process(user.pid).children(recursive=True)
        assert any("gunicorn" in " ".join(one.cmdline()) for one in running)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{url}/api/dcim/sites/", timeout=60)
        user.send_signal(signal.SIGKILL)
        user.wait()
    deadline = time.monotonic() + 120
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in running):
        assert time.monotonic() < deadline, "processes outlive their user"
        time.sleep(0.1)
    assert folder not in Path("/proc/self/mountinfo").read_text()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
    from pinion.lab.netbox import standalone

    assert Path(folder).exists()
    standalone._home()
    assert not Path(folder).exists()
