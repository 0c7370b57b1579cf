"""The folder of network namespaces beside iproute2: whoever comes first, the lab's namespaces go when they shall, and nobody else's do.

Each test is a program in a mount namespace with a /run of its own. On most machines systemd has made all mounts shared; in containers they
are not, and only there something stays covered.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="a mount namespace needs root, and the other party is iproute2",
)
everywhere = pytest.mark.parametrize("mounts", ["shared", "private"])
START = """
import subprocess
from pathlib import Path
from pinion.lab import namespaces, netns_folder
from pinion.lab.mounts import mounts

def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout

def there():
    return sorted(line.split()[0] for line in ip("netns", "list").splitlines())

def ours():
    "The mounts in this /run; the machine's own lies below it."
    (*_, run) = [mount for mount in mounts() if mount.point == Path("/run")]
    found, inside = [], {run.number}
    while more := [one for one in mounts() if one.carrier in inside and one.number not in inside]:
        found += more
        inside |= {one.number for one in more}
    return found

def mounted():
    return sorted({mount.point.name for mount in ours() if mount.point.parent == netns_folder.FOLDER})

def as_before():
    "What the lab did once, and what others do: a namespace in a folder that is no mount of itself."
    netns_folder.FOLDER.mkdir(exist_ok=True)
    for name in ("pin-a", "pin-b"):
        path = netns_folder.FOLDER / name
        path.touch()
        subprocess.run(["unshare", f"--net={path}", "ip", "link", "add", "mine", "type", "bridge"], check=True)
"""


def run(tmp_path: Path, mounts: str, program: str) -> None:
    """Run *program* where mounts are *mounts*."""
    file = tmp_path / "program.py"
    file.write_text(START + program)
    shell = f"mount -t tmpfs none /run && mount --make-r{mounts} / && exec {sys.executable} {file}"
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@everywhere
def test_iproute2_has_no_reason_to_cover_what_the_lab_made(tmp_path: Path, mounts: str) -> None:
    run(
        tmp_path,
        mounts,
        """
assert namespaces.create("pin-a") and namespaces.create("pin-b") and not namespaces.create("pin-a")
ip("netns", "add", "stranger")
assert there() == mounted() == ["pin-a", "pin-b", "stranger"]
assert namespaces.delete("pin-a") and namespaces.delete("pin-b") and not namespaces.delete("pin-a")
assert there() == mounted() == ["stranger"]
ip("netns", "delete", "stranger")
""",
    )


@everywhere
def test_nothing_is_left_of_the_last_one(tmp_path: Path, mounts: str) -> None:
    run(
        tmp_path,
        mounts,
        """
before = [mount.point for mount in ours()]
namespaces.create("pin-a")
namespaces.delete("pin-a")
assert [mount.point for mount in ours()] == before == []
assert list(netns_folder.FOLDER.iterdir()) == []
""",
    )


@everywhere
def test_what_iproute2_has_covered_goes_and_a_strangers_stays_with_its_links(tmp_path: Path, mounts: str) -> None:
    run(
        tmp_path,
        mounts,
        """
as_before()
ip("netns", "add", "stranger")
ip("-n", "stranger", "link", "add", "theirs", "type", "bridge")
assert namespaces.delete("pin-a")
assert there() == mounted() == ["pin-b", "stranger"]
assert "theirs" in ip("-n", "stranger", "link", "show")
assert "mine" in ip("-n", "pin-b", "link", "show")
assert namespaces.delete("pin-b")
assert there() == mounted() == ["stranger"]
assert not netns_folder.ASIDE.exists()
ip("netns", "delete", "stranger")
""",
    )


@everywhere
def test_covered_more_than_once(tmp_path: Path, mounts: str) -> None:
    run(
        tmp_path,
        mounts,
        """
as_before()
for _ in range(3):
    subprocess.run(["mount", "--rbind", "/run/netns", "/run/netns"], check=True)
namespaces.create("pin-c")
assert there() == mounted() == ["pin-a", "pin-b", "pin-c"]
for name in there():
    namespaces.delete(name)
assert mounted() == []
assert "/run/netns" not in [str(mount.point) for mount in ours()]
""",
    )


@pytest.mark.parametrize("cut_at", range(1, 14))
def test_killed_at_any_moment_nobody_loses_a_namespace(tmp_path: Path, cut_at: int) -> None:
    run(
        tmp_path,
        "private",
        f"""
as_before()
ip("netns", "add", "stranger")
ip("-n", "stranger", "link", "add", "theirs", "type", "bridge")
class KilledError(BaseException): pass
calls, really = [], netns_folder.run
def run(*words, **options):
    calls.append(words)
    if len(calls) == {cut_at}:
        raise KilledError
    return really(*words, **options)
netns_folder.run = run
try:
    namespaces.delete("pin-a")
except KilledError:
    pass
else:
    raise SystemExit("it was not killed: fewer steps than that")
netns_folder.run = really
namespaces.delete("pin-a")
namespaces.create("pin-c")
assert there() == mounted() == ["pin-b", "pin-c", "stranger"]
assert "theirs" in ip("-n", "stranger", "link", "show")
assert "mine" in ip("-n", "pin-b", "link", "show")
assert not netns_folder.ASIDE.exists()
""",
    )
