"""Bring a Helm release about by Pinion's own provider, as Pulumi's engine asks it to: python3 releasing.py KUBECONFIG INPUTS STATE.

INPUTS is a file with the inputs of `pinion:cluster:Release`; STATE is what this program keeps of it between two runs, removed when INPUTS
is `-`, by which the release is uninstalled. Prints one JSON object: `error`, empty when all went well, and what was said on the way there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import grpc
from doubles.plugin_engine import Client, started

from pinion.lab.state import cache_root
from pinion.provider.main import PinionPlugin
from pinion.provider.plugin.values import decode

RELEASE = "pinion:cluster:Release"
NAME = "one"


def main(kubeconfig: str, inputs: str, state: Path) -> None:
    """Create, update or delete."""
    os.environ["PATH"] = f"{cache_root() / 'bin'}:{os.environ['PATH']}"
    with started(PinionPlugin()) as client:
        client.timeout = 300
        client.configure({"kubernetesKubeconfig": kubeconfig})
        error = ""
        try:
            if inputs == "-":
                remove(client, state)
            else:
                bring(client, json.loads(Path(inputs).read_text()), state)
        except grpc.RpcError as failed:
            error = str(failed.details())
        print(json.dumps({"error": error, "said": [line.message for line in client.engine.lines]}))


def bring(client: Client, wanted: dict[str, object], state: Path) -> None:
    """Have the release as *wanted*: a preview, as `pulumi up` has it before anything is touched, and then the real thing."""
    held = json.loads(state.read_text()) if state.exists() else {}
    news = decode(client.check(RELEASE, NAME, wanted, held.get("inputs")).inputs)
    if held:
        about = {"old_inputs": held["inputs"], "olds": held["outputs"], "news": news}
        client.update(RELEASE, NAME, held["id"], **about, preview=True)
        outputs = client.update(RELEASE, NAME, held["id"], **about)
        made = held["id"]
    else:
        client.create(RELEASE, NAME, news, preview=True)
        made, outputs = client.create(RELEASE, NAME, news)
    state.write_text(json.dumps({"id": made, "inputs": news, "outputs": outputs}))


def remove(client: Client, state: Path) -> None:
    """Uninstall it."""
    held = json.loads(state.read_text())
    client.delete(RELEASE, NAME, held["id"], old_inputs=held["inputs"], olds=held["outputs"])
    state.unlink()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
