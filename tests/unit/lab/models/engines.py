"""The engines of the small model as real processes, what they are asked, and how close their answers must be."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from thoroughness import FULL

from pinion.lab.layers import LayerStore
from pinion.lab.models.artefacts import Artefacts, ModelError, default_cache, intact, obtain, place
from pinion.lab.ports import free_ports
from pinion.lab.triton.recipes import TRITON
from pinion.services.triton_model.tensors import INPUTS

#: How far logarithms of probabilities may differ: float32 sums in another order differ by some 1e-6 here, another formula by far more.
TOLERANCE = 1e-4
#: Enough to compute with.
STEPS = 8


def few_steps() -> Artefacts:
    """A model that knows next to nothing: there at once, and engines compute with it all the same."""
    try:
        return obtain(steps=STEPS)
    except ModelError as error:
        pytest.skip(str(error))


def whole() -> Artefacts:
    """The model itself, which takes minutes to train, where somebody did so."""
    try:
        found = place(default_cache())
    except ModelError as error:
        pytest.skip(str(error))
    if not intact(found):
        pytest.skip("the whole model is not trained yet: python -m pinion.lab.models")
    return found


def reference(model: Artefacts) -> dict[str, Any]:
    found = model.manifest["reference"]
    assert isinstance(found, dict)
    return found


def close(found: list[float], wanted: list[float]) -> bool:
    return len(found) == len(wanted) and all(abs(a - b) < TOLERANCE for a, b in zip(found, wanted, strict=True))


@contextmanager
def serving(command: list[str], log: Path) -> Iterator[str]:
    """A server on a free port of loopback, from its first healthy answer on; its address."""
    (port,) = free_ports(1)
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)], stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            try:
                if httpx.get(f"{address}/health", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        else:
            pytest.fail(f"no healthy answer in a minute: {log.read_text(errors='replace')[-2000:]}")
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def llama_server() -> str:
    found = shutil.which("llama-server", path=f"{default_cache() / 'bin'}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("llama-server is not obtained yet: tools/obtain.py llama-server")
    return found


#: Data types of inputs as KServe's protocol calls them, where it differs from Triton's configuration.
KSERVE = {"TYPE_STRING": "BYTES"}


def infer(address: str, model: Artefacts, asked: dict[str, object]) -> tuple[int, dict[str, Any]]:
    """Ask Triton by KServe's protocol, version 2: the status, and the outputs by name (or the error under "error")."""
    kinds = {tensor.name: KSERVE.get(tensor.kind, tensor.kind.removeprefix("TYPE_")) for tensor in INPUTS}
    inputs = [
        {"name": name, "datatype": kinds[name], "shape": [1, 1], "data": [value]} for name, value in asked.items()
    ]
    answer = httpx.post(f"{address}/v2/models/{model.manifest['name']}/infer", json={"inputs": inputs}, timeout=60)
    body = answer.json()
    return answer.status_code, {found["name"]: found["data"] for found in body.get("outputs", ())} or body


def triton_layers() -> tuple[Path, ...]:
    if os.geteuid() != 0:
        pytest.skip("Triton's root file system needs root (namespaces, overlay)")
    store = LayerStore()
    if store.missing(TRITON) and not FULL:
        pytest.skip("Triton is not obtained yet: python -m pinion.lab.triton --obtain, or CI_FULL=1")
    return store.ensure(TRITON)
