"""How long the edge runtime takes from its start to its first token, beside llama-server by hand: `python tests/benchmarks/edge_start.py`.

Needs root, and raises a small lab of its own. In turn, on one Pi of it, in one run: the units as the plan has them (check of the file,
fences, limits), and the engine with the unit's own options started by root. The same client asks both, every 5 ms, until a token comes.
The engine, its options, the model and the machine are the same. The model's file is out of the kernel's memory before each start, as after
a boot. It is the small one, which is loaded at once, so that what the units add shows as it does nowhere else; or, with --mebibytes, random
weights of about the size of a model that is worth serving. Prints medians in milliseconds, their ratio and their difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.serving_rack import ServingRack, until

from pinion.lab.models.artefacts import MANIFEST, Artefacts, default_cache
from pinion.lab.models.gguf_file import write_gguf
from pinion.lab.models.network import Network, Shape, initial
from pinion.plan.edge_units import HEALTH_TIMER, PATH_UNIT, SERVICE
from pinion.services.onnx_model_server.tokenizer import Tokenizer

#: Dimensions of the random weights, about those of a model of 0.5 billion parameters (Qwen2.5-0.5B: width 896, 24 layers).
_WIDTH, _HEADS, _FEED_FORWARD = 1024, 16, 2816

#: Runs on the Pi: rounds of both ways, each from the moment of the start to the end of the first answer of one token.
MEASURE = r"""
import http.client, json, os, subprocess, sys, time
host, rounds, unit, service, command = sys.argv[1], int(sys.argv[2]), *sys.argv[3:5], sys.argv[5:]
body = json.dumps({"prompt": "The ", "n_predict": 1, "temperature": 0})

def token():
    try:
        asked = http.client.HTTPConnection(host, 8080, timeout=30)
        asked.request("POST", "/completion", body, {"Content-Type": "application/json"})
        return asked.getresponse().status == 200
    except OSError:
        return False

def forget():
    with open(command[command.index("--model") + 1], "rb") as model:
        os.posix_fadvise(model.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

def first(start):
    forget()
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
    parser.add_argument("--mebibytes", type=int, help="random weights of this size instead of the small model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinion-edge-start-") as folder, served(options.mebibytes) as kind:
        rack = kind.make(Path(folder), "b-start")
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


@contextmanager
def served(mebibytes: int | None) -> Iterator[type[ServingRack]]:
    """The kind of rack whose model it is; random weights lie among the lab's models until the block ends."""
    if mebibytes is None:
        yield ServingRack
        return
    weights = Artefacts(default_cache() / "models" / f"random-{mebibytes}")

    class RandomRack(ServingRack):
        @property
        def model(self) -> Artefacts:
            return weights

    weights.folder.mkdir(parents=True, exist_ok=True)
    try:
        tokenizer = Tokenizer(())
        a_layer = 4 * (4 * _WIDTH**2 + 3 * _WIDTH * _FEED_FORWARD)
        layers = max(1, round((mebibytes << 20) / a_layer))
        shape = Shape(tokenizer.size, _WIDTH, layers, _HEADS, _FEED_FORWARD)
        write_gguf(weights.gguf, "random", Network(shape, initial(shape, np.random.default_rng(1))), tokenizer)
        with weights.gguf.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        facts = {"sha256": digest, "size": weights.gguf.stat().st_size}
        (weights.folder / MANIFEST).write_text(json.dumps({"files": {weights.gguf.name: facts}}))
        yield RandomRack
    finally:
        shutil.rmtree(weights.folder)


def measured(rack: ServingRack, rounds: int) -> dict[str, list[float]]:
    """Seconds from start to first token, by way."""
    unit = next(
        file.content for file in rack.host("pi-01").concerns["edge_runtime"].files if file.path.endswith(SERVICE)
    )
    # behind what starts it
    (command,) = re.findall(r"^ExecStart=.* --answers \S+ (.*)$", unit, re.MULTILINE)
    rack.on("pi-01", f"systemctl stop {HEALTH_TIMER}; cat >/run/measure.py <<'END'\n{MEASURE}\nEND")
    asked = f"python3 -I /run/measure.py {rack.host('pi-01').address} {rounds} {PATH_UNIT} {SERVICE} {command}"
    found: dict[str, list[float]] = json.loads(rack.on("pi-01", asked, timeout=580))
    return found


if __name__ == "__main__":
    main()
