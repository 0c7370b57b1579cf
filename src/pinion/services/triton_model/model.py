"""The model for Triton's Python backend, which imports this file from a version's folder of the model repository.

Beside it lie `model.onnx` and the modules of Pinion that it imports. Triton starts a process of its own for each instance.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as triton

from pinion.services.onnx_model_server.engine import Engine
from pinion.services.triton_model.generation import (
    ANSWER,
    INPUTS,
    LENGTH,
    LOG_PROBABILITIES,
    MODEL_FILE,
    SEED,
    TEMPERATURE,
    TEXT,
    THREADS,
    TOKENS,
    Asked,
    AskedError,
    answered,
)


class TritonPythonModel:
    """What Triton's Python backend looks for in this file."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the model; a file that is none fails the start, with the reason in Triton's log."""
        parameters = json.loads(arguments["model_config"])["parameters"]
        folder = Path(arguments["model_repository"]) / arguments["model_version"]
        self._engine = Engine(folder / MODEL_FILE, int(parameters[THREADS]["string_value"]))

    def execute(self, requests: list[triton.InferenceRequest]) -> list[triton.InferenceResponse]:
        """One response for each request, in order."""
        return [self._response(request) for request in requests]

    def _response(self, request: triton.InferenceRequest) -> triton.InferenceResponse:
        try:
            answer = answered(self._engine, _asked(request))
        except AskedError as error:
            return triton.InferenceResponse(error=triton.TritonError(str(error), triton.TritonError.INVALID_ARG))
        return triton.InferenceResponse(
            [
                triton.Tensor(ANSWER.name, np.array([answer.text.encode()], np.object_)),
                triton.Tensor(TOKENS.name, np.array(answer.tokens, np.int64)),
                triton.Tensor(LOG_PROBABILITIES.name, np.array(answer.log_probabilities, np.float32)),
            ]
        )


def _asked(request: triton.InferenceRequest) -> Asked:
    """What *request* asks; what it leaves out is as `Asked` has it."""
    sent = {tensor.name: triton.get_input_tensor_by_name(request, tensor.name) for tensor in INPUTS}
    given = {name: found.as_numpy()[0] for name, found in sent.items() if found is not None}
    return Asked(
        text=given[TEXT.name],
        length=int(given.get(LENGTH.name, Asked.length)),
        temperature=float(given.get(TEMPERATURE.name, Asked.temperature)),
        seed=int(given.get(SEED.name, Asked.seed)),
    )
