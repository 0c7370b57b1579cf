"""Triton's model repository of the small model: NAME/config.pbtxt, and NAME/1/ with the model and what runs it.

The wheel that the lab's Triton comes in has one backend, the Python one; so `backend` is "python", and the ONNX file is run by ONNX
Runtime in a `model.py` (pinion.services.triton_model). With NVIDIA's whole image Triton's own backend could load it.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pinion.lab.models.artefacts import Artefacts
from pinion.services.triton_model.generation import INPUTS, MODEL_FILE, OUTPUTS, THREADS, Tensor

#: The name of the one version.
VERSION = "1"
#: Modules of Pinion that `model.py` imports, by package.
_MODULES = {
    "pinion.services.onnx_model_server": ("__init__", "engine", "tokenizer"),
    "pinion.services.triton_model": ("__init__", "generation"),
}


@dataclass(frozen=True)
class ModelConfig:
    """What config.pbtxt says (model_config.proto). Shapes have no dimension for batches: *instances* requests run at a time."""

    name: str
    backend: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    instances: int = 1
    parameters: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The file, in protocol buffers' text format."""
        lines = [f"name: {_quoted(self.name)}", f"backend: {_quoted(self.backend)}", "max_batch_size: 0"]
        for key, tensors in (("input", self.inputs), ("output", self.outputs)):
            for tensor in tensors:
                lines += [f"{key} {{", f"  name: {_quoted(tensor.name)}", f"  data_type: {tensor.kind}"]
                lines += [f"  dims: {list(tensor.dims)}", *(["  optional: true"] if tensor.optional else []), "}"]
        lines += ["instance_group {", f"  count: {self.instances}", "  kind: KIND_CPU", "}"]
        for key, value in self.parameters.items():
            lines += ["parameters {", f"  key: {_quoted(key)}", f"  value {{ string_value: {_quoted(value)} }}", "}"]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """*text* as a literal of the text format."""
    plain = set(range(32, 127)) - set(b'"\\')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def config(name: str, *, instances: int = 1, threads: int = 1) -> ModelConfig:
    """The configuration of a model of ours: *instances* processes, each with *threads* threads."""
    return ModelConfig(name, "python", INPUTS, OUTPUTS, instances, {THREADS: str(threads)})


def write_repository(folder: Path, model: Artefacts, *, instances: int = 1, threads: int = 1) -> Path:
    """Put *model* into the model repository *folder*, whole or not at all; returns its folder there. All may read it."""
    name = str(model.manifest["name"])
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as work:
        staged = Path(work, name)
        version = staged / VERSION
        version.mkdir(parents=True)
        (staged / "config.pbtxt").write_text(config(name, instances=instances, threads=threads).text(), "utf-8")
        shutil.copyfile(model.onnx, version / MODEL_FILE)
        for place, text in _programs().items():
            target = version / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        for path in (staged, *staged.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(folder / name, ignore_errors=True)
        return staged.rename(folder / name)


def _programs() -> dict[str, str]:
    """model.py and the modules that it imports, by their paths in the version's folder, which Triton puts on Python's path."""
    found = {"model.py": (resources.files("pinion.services.triton_model") / "model.py").read_text("utf-8")}
    found |= {"pinion/__init__.py": "", "pinion/services/__init__.py": ""}
    for package, names in _MODULES.items():
        source = resources.files(package)
        found |= {
            f"{package.replace('.', '/')}/{name}.py": (source / f"{name}.py").read_text("utf-8") for name in names
        }
    return found
