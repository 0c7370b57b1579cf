"""Scenario 6: kill -9 at seeded moments; run again and it converges, with never two of anything and a switch that answers."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence

import psutil
from thoroughness import points

from pinion.plan.concerns.os_tuning import SYSCTL_FILE
from scenarios.rack import REPOSITORY, SITE, Rack

#: Seeded kills of each kind. With those of tests/engine and tests/lab there are forty in a run, more in a full one.
KILLS = points(3, 8)

#: When the kill falls, as a share of the time that an undisturbed run takes.
SPREAD = (0.1, 0.9)


#: The hosts on which a killed converge run had something to do.
SPOILT = ("pi-01", "pi-02")


def start(rack: Rack, *argv: str) -> subprocess.Popen[bytes]:
    """Start a command at the management host's place, in a process group of its own."""
    return subprocess.Popen(
        [
            str(REPOSITORY / "bin/pinion-env"),
            *("pinion", "lab", "exec", "--site", str(rack.site_file), "--instance", rack.instance, "--"),
            *argv,
        ],
        cwd=rack.root,
        env=rack.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_one(
    process: subprocess.Popen[bytes], names: tuple[str, ...], after: float, left: list[psutil.Process]
) -> str | None:
    """Wait *after* seconds, then kill -9 the first descendant whose command line holds one of *names*; returns its name.

    All descendants of that moment are put into *left*: some outlive the one that was killed.
    """
    deadline = time.monotonic() + after
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    if process.poll() is not None:
        return None
    left += psutil.Process(process.pid).children(recursive=True)
    for child in left:
        try:
            words = child.cmdline()
        except psutil.NoSuchProcess:
            continue
        if any(name in word for name in names for word in words[:3]):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
                return " ".join(words[:3])
    return None


def finish(process: subprocess.Popen[bytes], left: list[psutil.Process]) -> None:
    """Wait for what the kill left; what still runs after that is ended, as a person would with Ctrl-\\."""
    try:
        process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        left += psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
    for orphan in psutil.wait_procs(left, timeout=10)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            orphan.kill()


def spoil(rack: Rack, seed: random.Random) -> None:
    """Give the next run something to do in NetBox and in the cluster."""
    name = seed.choice(["pi-01", "pi-02"])
    for device in rack.netbox(f"dcim/devices/?name={name}")["results"]:
        for cable in rack.netbox(f"dcim/cables/?device_id={device['id']}")["results"]:
            rack.netbox(f"dcim/cables/{cable['id']}/", "DELETE")
        rack.netbox(f"dcim/devices/{device['id']}/", "DELETE")
    rack.kubectl("label", "node", seed.choice(["pi-01", "pi-02"]), "edge-")


def duplicates(rack: Rack) -> dict[str, int]:
    """Natural keys that NetBox holds more than once."""
    held: Counter[str] = Counter()
    for path, key in (
        ("dcim/devices/", "name"),
        ("ipam/ip-addresses/", "address"),
        ("ipam/vlans/", "display"),
        ("ipam/prefixes/", "prefix"),
        ("ipam/ip-ranges/", "display"),
        ("dcim/racks/", "name"),
        ("extras/tags/", "slug"),
    ):
        held.update(f"{path}{entry[key]}" for entry in rack.netbox(f"{path}?limit=1000")["results"])
    for cable in rack.netbox("dcim/cables/?limit=1000")["results"]:
        for end in ("a_terminations", "b_terminations"):
            assert cable[end], f"cable {cable['id']} has an empty end"
            held.update(f"{end['object_type']} {end['object_id']}" for end in cable[end])
    return {key: count for key, count in held.items() if count > 1}


def kill_runs(
    rack: Rack, seed: random.Random, spoilt: Callable[[], None], runs: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
) -> None:
    """Kill `KILLS` runs: the commands of *runs* in turn, each with the names of what is killed of it; *spoilt* gives each something to do.

    The first run of a command is not disturbed: kills are spread over the time that it takes here and now. A run that ended before its kill
    came says what it takes by now, and the kill is tried again.
    """
    lengths: dict[tuple[str, ...], float] = {}
    killed = tries = 0
    while killed < KILLS:
        argv, names = runs[killed % len(runs)]
        spoilt()
        begun = time.monotonic()
        process = start(rack, *argv)
        if argv not in lengths:
            assert process.wait(timeout=300) == 0
            lengths[argv] = time.monotonic() - begun
            continue
        left: list[psutil.Process] = []
        met = kill_one(process, names, seed.uniform(*SPREAD) * lengths[argv], left) is not None
        if not met and process.poll() is not None:
            lengths[argv] = min(lengths[argv], time.monotonic() - begun)
        finish(process, left)
        killed += met
        tries += 1
        assert tries <= 4 * KILLS, f"only {killed} kills met a running process"


def test_killed_pulumi_and_provider(rack: Rack) -> None:
    seed = random.Random(20260106)
    up = ("pulumi", "up", "--yes", "--skip-preview", "--refresh", "--non-interactive", "--stack", SITE)

    def spoilt() -> None:
        rack.pinion("stack", "unlock", str(rack.site_file))
        spoil(rack, seed)

    kill_runs(rack, seed, spoilt, [(up, ("/pulumi", "pulumi")), (up, ("pulumi-resource-pinion",))])
    rack.pinion("stack", "unlock", str(rack.site_file))


def test_killed_converge_run(rack: Rack) -> None:
    seed = random.Random(20260107)
    words = (*("pinion", "converge", str(rack.site_file)), *(f"--limit={host}" for host in SPOILT))
    names = ("ansible", "pyinfra", "pinion")
    kill_runs(rack, seed, lambda: unset(rack), [((*words, "--by", by), names) for by in ("ansible", "pyinfra")])


def test_run_again_it_converges(rack: Rack) -> None:
    """After the kills of the tests before: all of it, verification included."""
    rack.up()
    assert rack.preview("--refresh") == []
    assert duplicates(rack) == {}


def unset(rack: Rack) -> None:
    """Give the next converge run something to do on two hosts."""
    for host in SPOILT:
        rack.machine(host).run(["rm", "-f", SYSCTL_FILE])
