"""The model's files, made once and kept: `obtain` gives them, and trains the model where nobody has yet.

    <cache>/models/<name>-<digest of all inputs>/<name>.gguf   <name>.onnx   manifest.json

This module needs none of the libraries that training needs; the training runs as a process of its own, in one thread.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

NAME = "pinion-tiny"
MANIFEST = "manifest.json"
#: What training needs beyond Pinion itself (requirements/model.in).
LIBRARIES = ("numpy", "gguf", "onnx")
#: One thread, and one set of kernels whatever the processor: sums in another order would give other bytes.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Haswell"}
#: Longest that training may take, in seconds.
_PATIENCE = 1800.0


class ModelError(Exception):
    """The model cannot be had; the text says why and what to do."""


@dataclass(frozen=True)
class Artefacts:
    """The model's files in *folder*."""

    folder: Path

    @property
    def gguf(self) -> Path:
        """The model for llama.cpp."""
        return self.folder / f"{NAME}.gguf"

    @property
    def onnx(self) -> Path:
        """The model for ONNX Runtime."""
        return self.folder / f"{NAME}.onnx"

    @property
    def manifest(self) -> dict[str, object]:
        """What the model is: shape, training, size, digests, perplexity, and its answer to the fixed prompt."""
        found: dict[str, object] = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        return found


def default_cache() -> Path:
    """$PINION_CACHE, by default /var/cache/pinion."""
    return Path(os.environ.get("PINION_CACHE") or "/var/cache/pinion")


def inputs_digest() -> str:
    """The SHA-256 of all that the model's bytes follow from: text, programs, versions of the libraries."""
    try:
        versions = {library: metadata.version(library) for library in LIBRARIES}
    except metadata.PackageNotFoundError as error:
        raise ModelError(f"training the model needs {error.name}: pip install -r requirements/model.in") from error
    digest = hashlib.sha256(json.dumps([versions, sorted(ENVIRONMENT.items())]).encode())
    here = resources.files("pinion.lab.models")
    for name in (
        "corpus.txt",
        "corpus.py",
        "network.py",
        "training.py",
        "evaluation.py",
        "gguf_file.py",
        "onnx_file.py",
        "build.py",
    ):
        digest.update((here / name).read_bytes())
    digest.update((resources.files("pinion.services.onnx_model_server") / "tokenizer.py").read_bytes())
    return digest.hexdigest()


def place(cache: Path, steps: int | None = None) -> Artefacts:
    """Where the model lies in *cache*, whether or not it is there; one trained for fewer *steps* lies beside it."""
    return Artefacts(cache / "models" / f"{NAME}-{inputs_digest()[:16]}{'' if steps is None else f'-{steps}-steps'}")


def intact(artefacts: Artefacts) -> bool:
    """Whether every file is there and is what the manifest says."""
    try:
        stated = artefacts.manifest["files"]
        assert isinstance(stated, dict)
        return all(
            hashlib.sha256((artefacts.folder / name).read_bytes()).hexdigest() == facts["sha256"]
            for name, facts in stated.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AssertionError):
        return False


def obtain(cache: Path | None = None, *, steps: int | None = None, quiet: bool = True) -> Artefacts:
    """The model's files: from *cache* (by default $PINION_CACHE), else trained now, which takes minutes.

    With few *steps* it is there at once and knows next to nothing: enough to compare engines, which compute all the same.

    Raises:
        ModelError: a library is missing, or training failed.
    """
    wanted = place(cache or default_cache(), steps)
    if intact(wanted):
        return wanted
    folder = wanted.folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if intact(wanted):
            return wanted
        with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=folder) as staged:
            _train(Path(staged), steps, quiet=quiet)
            shutil.rmtree(wanted.folder, ignore_errors=True)
            Path(staged, "model").rename(wanted.folder)
    return wanted


def _train(staged: Path, steps: int | None, *, quiet: bool) -> None:
    """Have the model made in `model` of the folder *staged*."""
    target = staged / "model"
    target.mkdir(mode=0o755)
    command = [sys.executable, "-m", "pinion.lab.models.build", str(target)]
    command += ["--steps", str(steps)] if steps is not None else []
    done = subprocess.run(
        command,
        env=os.environ | ENVIRONMENT,
        stdout=sys.stderr if not quiet else subprocess.PIPE,
        stderr=None if not quiet else subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        raise ModelError(f"training failed ({done.returncode}): {(done.stdout or '')[-2000:]}")
