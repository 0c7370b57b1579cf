"""What Triton's model takes and gives. Knows neither Triton nor an engine, so that a configuration can be written anywhere.

Names of text and length are those of Triton's own language models (its generate extension: text_input, max_tokens, text_output).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The model's file in its version's folder.
MODEL_FILE = "model.onnx"
#: Parameters of its configuration: how many threads one instance computes with, and the SHA-256 that the file must have.
THREADS, DIGEST = "threads", "sha256"


class Kind(StrEnum):
    """Data types by Triton's names (model_config.proto)."""

    STRING = "TYPE_STRING"
    INT32 = "TYPE_INT32"
    INT64 = "TYPE_INT64"
    FP32 = "TYPE_FP32"


@dataclass(frozen=True)
class Tensor:
    """One input or output: *dims* are its shape for one request, -1 for any length; before them comes that of the batch."""

    name: str
    kind: Kind
    dims: tuple[int, ...] = (1,)
    optional: bool = False


TEXT = Tensor("text_input", Kind.STRING)
LENGTH = Tensor("max_tokens", Kind.INT32, optional=True)
TEMPERATURE = Tensor("temperature", Kind.FP32, optional=True)
SEED = Tensor("seed", Kind.INT64, optional=True)
INPUTS = (TEXT, LENGTH, TEMPERATURE, SEED)

ANSWER = Tensor("text_output", Kind.STRING)
TOKENS = Tensor("tokens", Kind.INT64, (-1,))
LOG_PROBABILITIES = Tensor("log_probabilities", Kind.FP32, (-1,))
OUTPUTS = (ANSWER, TOKENS, LOG_PROBABILITIES)
