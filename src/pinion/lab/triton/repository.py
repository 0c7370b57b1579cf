"""Triton's model repository of the small model: NAME/config.pbtxt, and NAME/1/ with the model and what runs it.

The wheel that the lab's Triton comes in has one backend, the Python one; so `backend` is "python", and the ONNX file is run by ONNX
Runtime in a `model.py` (pinion.services.triton_model). With NVIDIA's whole image Triton's own backend could load it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from pinion.lab.models.artefacts import Artefacts
from pinion.plan.triton_config import Batching, model_config
from pinion.services.triton_model.place import lay_out


def write_repository(
    folder: Path, model: Artefacts, *, instances: int = 1, threads: int = 1, batching: Batching | None = None
) -> Path:
    """Put *model* into the model repository *folder*, whole or not at all; returns its folder there. All may read it."""
    name = str(model.manifest["name"])
    sha256 = hashlib.sha256(model.onnx.read_bytes()).hexdigest()
    config = model_config(name, sha256, instances=instances, threads=threads, batching=batching)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as work:
        lay_out(Path(work, name), model.onnx, config.text())
        shutil.rmtree(folder / name, ignore_errors=True)
        return Path(work, name).rename(folder / name)
