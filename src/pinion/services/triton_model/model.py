"""The model for Triton's Python backend, which imports this file from a version's folder of the model repository.

Beside it lie `model.onnx` and the modules of Pinion that it imports. Triton starts a process of its own for each instance, and gives it
the requests of one batch at a time.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as triton

from pinion.services.onnx_model_server.engine import Engine, ModelFileError
from pinion.services.triton_model.generation import Answer, Asked, AskedError, answered
from pinion.services.triton_model.tensors import (
    ANSWER,
    DIGEST,
    INPUTS,
    LENGTH,
    LOG_PROBABILITIES,
    MODEL_FILE,
    SEED,
    TEMPERATURE,
    TEXT,
    THREADS,
    TOKENS,
)

#: Where Kubernetes reads why a container ended (core/v1, terminationMessagePath); Triton's own last words are a table of its options.
TOLD = Path("/dev/termination-log")


class TritonPythonModel:
    """What Triton's Python backend looks for in this file."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the model; a file that is none, or another one than the configuration says, fails the start and is told why."""
        try:
            self._engine = _loaded(arguments)
        except (triton.TritonModelException, ModelFileError, OSError) as error:
            if TOLD.exists():
                TOLD.write_text(f"{error}\n", encoding="utf-8")
            raise

    def execute(self, requests: list[triton.InferenceRequest]) -> list[triton.InferenceResponse]:
        """One response for each request, in order."""
        asked = [_asked(request) for request in requests]
        answers = iter(answered(self._engine, [one for one in asked if isinstance(one, Asked)]))
        return [_response(next(answers) if isinstance(one, Asked) else one) for one in asked]


def _loaded(arguments: dict[str, str]) -> Engine:
    parameters = json.loads(arguments["model_config"])["parameters"]
    file = Path(arguments["model_repository"]) / arguments["model_version"] / MODEL_FILE
    wanted, found = parameters[DIGEST]["string_value"], hashlib.sha256(file.read_bytes()).hexdigest()
    if found != wanted:
        raise triton.TritonModelException(f"{file}: its SHA-256 is {found}, and {wanted} is stated")
    return Engine(file, int(parameters[THREADS]["string_value"]))


def _response(answer: Answer | AskedError) -> triton.InferenceResponse:
    """*answer* as a batch of one."""
    if isinstance(answer, AskedError):
        return triton.InferenceResponse(error=triton.TritonError(str(answer), triton.TritonError.INVALID_ARG))
    return triton.InferenceResponse(
        [
            triton.Tensor(ANSWER.name, np.array([[answer.text.encode()]], np.object_)),
            triton.Tensor(TOKENS.name, np.array([answer.tokens], np.int64)),
            triton.Tensor(LOG_PROBABILITIES.name, np.array([answer.log_probabilities], np.float32)),
        ]
    )


def _asked(request: triton.InferenceRequest) -> Asked | AskedError:
    """What *request* asks; what it leaves out is as `Asked` has it."""
    sent = {tensor.name: triton.get_input_tensor_by_name(request, tensor.name) for tensor in INPUTS}
    given = {name: found.as_numpy() for name, found in sent.items() if found is not None}
    if len(given[TEXT.name]) != 1:
        return AskedError(f"a request has one {TEXT.name}: this server makes batches of requests by itself")
    values = {name: found[0, 0] for name, found in given.items()}
    return Asked(
        text=values[TEXT.name],
        length=int(values.get(LENGTH.name, Asked.length)),
        temperature=float(values.get(TEMPERATURE.name, Asked.temperature)),
        seed=int(values.get(SEED.name, Asked.seed)),
    )
