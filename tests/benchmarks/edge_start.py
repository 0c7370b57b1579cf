"""How long the edge runtime takes from its start to its first token, beside llama-server by hand: `python tests/benchmarks/edge_start.py`.

Needs root, and raises a small lab of its own. In turn, on one Pi of it, in one run: the units as the plan has them (check of the file,
fences, limits), and the unit's own command line started by root in a shell. The same client asks both, every 5 ms, until a token comes.
The engine, its options, the model and the machine are the same, and the model is the small one, which is loaded at once: what the units
add shows as it does nowhere else. Prints medians in milliseconds, their ratio and their difference.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.serving_rack import ServingRack, until

from pinion.plan.concerns.edge_runtime import HEALTH_TIMER, PATH_UNIT, SERVICE

#: Runs on the Pi: rounds of both ways, each from the moment of the start to the end of the first answer of one token.
MEASURE = r"""
import http.client, json, subprocess, sys, time
host, rounds, unit, service, command = sys.argv[1], int(sys.argv[2]), *sys.argv[3:5], sys.argv[5:]
body = json.dumps({"prompt": "The ", "n_predict": 1, "temperature": 0})

def token():
    try:
        asked = http.client.HTTPConnection(host, 8080, timeout=30)
        asked.request("POST", "/completion", body, {"Content-Type": "application/json"})
        return asked.getresponse().status == 200
    except OSError:
        return False

def first(start):
    began = time.monotonic()
    started = start()
    while not token():
        if time.monotonic() - began > 120:
            sys.exit("no token in two minutes")
        time.sleep(0.005)
    return time.monotonic() - began, started

def planned():
    subprocess.run(["systemctl", "--no-block", "start", unit], check=True)

def by_hand():
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

found = {"planned": [], "by_hand": []}
for _ in range(rounds):
    # Both: who stops the first has not waited for the second.
    subprocess.run(["systemctl", "stop", unit, service], check=True)
    took, process = first(by_hand)
    found["by_hand"].append(took)
    process.kill()
    process.wait()
    took, _ = first(planned)
    found["planned"].append(took)
print(json.dumps(found))
"""


def main() -> None:
    """Raise, converge, measure, print, take down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinion-edge-start-") as folder:
        rack = ServingRack.make(Path(folder), "b-start")
        try:
            rack.up()
            rack.changed("pyinfra", "pi-01")
            until(lambda: rack.serves("pi-01"), "pi-01 serves", rack)
            found = measured(rack, options.rounds)
        finally:
            rack.run("down", "--purge", expect=None)
    medians = {way: statistics.median(times) * 1000 for way, times in found.items()}
    for way, times in found.items():
        print(f"{way:8} {medians[way]:6.0f} ms   ({min(times) * 1000:.0f} to {max(times) * 1000:.0f})")
    print(
        f"ratio    {medians['planned'] / medians['by_hand']:6.2f}, {medians['planned'] - medians['by_hand']:.0f} ms more"
    )


def measured(rack: ServingRack, rounds: int) -> dict[str, list[float]]:
    """Seconds from start to first token, by way."""
    unit = next(
        file.content for file in rack.host("pi-01").concerns["edge_runtime"].files if file.path.endswith(SERVICE)
    )
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    rack.on("pi-01", f"systemctl stop {HEALTH_TIMER}; cat >/run/measure.py <<'END'\n{MEASURE}\nEND")
    asked = f"python3 -I /run/measure.py {rack.host('pi-01').address} {rounds} {PATH_UNIT} {SERVICE} {command}"
    found: dict[str, list[float]] = json.loads(rack.on("pi-01", asked, timeout=580))
    return found


if __name__ == "__main__":
    main()
