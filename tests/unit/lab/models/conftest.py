"""The small model, and each engine that serves it, once a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from unit.lab.models.engines import few_steps, llama_server, serving, triton_layers, whole

from pinion.lab.models.artefacts import Artefacts
from pinion.lab.triton.repository import write_repository
from pinion.lab.triton.standalone import standalone


@pytest.fixture(scope="module", params=["whole", "few steps"])
def model(request: pytest.FixtureRequest) -> Artefacts:
    return few_steps() if request.param == "few steps" else whole()


@pytest.fixture(scope="module")
def llama(model: Artefacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server; keys and values in float32, as the others have them."""
    options = "--threads 1 --parallel 1 --ctx-size 256 --metrics --no-ui --offline --cache-type-k f32 --cache-type-v f32 --flash-attn off"
    command = [llama_server(), "--model", str(model.gguf), *options.split()]
    with serving(command, tmp_path_factory.mktemp("llama") / "log") as address:
        yield address


@pytest.fixture(scope="module")
def onnx(model: Artefacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("onnxruntime", reason="onnx-model-server needs requirements/onnx_server.in")
    command = [sys.executable, "-m", "pinion.services.onnx_model_server", "--model", str(model.onnx)]
    with serving(command, tmp_path_factory.mktemp("onnx") / "log") as address:
        yield address


@pytest.fixture(scope="module")
def triton(model: Artefacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """NVIDIA's Triton with the model repository that we write."""
    layers = triton_layers()
    folder = write_repository(tmp_path_factory.mktemp("triton") / "models", model).parent
    with standalone(folder, layers=layers) as running:
        yield running.url
