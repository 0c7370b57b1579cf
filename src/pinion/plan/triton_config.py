"""Triton's configuration of one model, `config.pbtxt` (model_config.proto), in protocol buffers' text format. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from pinion.services.triton_model.tensors import DIGEST, INPUTS, OUTPUTS, THREADS, Tensor

#: Microseconds in a second: Triton's unit of a queue's delay.
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Batching:
    """How requests become batches: of *most* at most, one of the sizes *preferred* at once, any other after *window* seconds."""

    most: int = 1
    window: float = 0.0
    preferred: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModelConfig:
    """What config.pbtxt says. Shapes of tensors are those of one request; Triton puts that of the batch before them."""

    name: str
    backend: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    instances: int = 1
    batching: Batching = Batching()
    parameters: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The file."""
        most = self.batching.most
        lines = [f"name: {_quoted(self.name)}", f"backend: {_quoted(self.backend)}", f"max_batch_size: {most}"]
        for key, tensors in (("input", self.inputs), ("output", self.outputs)):
            for tensor in tensors:
                lines += [f"{key} {{", f"  name: {_quoted(tensor.name)}", f"  data_type: {tensor.kind}"]
                lines += [f"  dims: {list(tensor.dims)}", *(["  optional: true"] if tensor.optional else []), "}"]
        if most > 1:
            delay = round(self.batching.window * _MICROSECONDS)
            preferred = [f"  preferred_batch_size: {list(self.batching.preferred)}"] if self.batching.preferred else []
            lines += ["dynamic_batching {", *preferred, f"  max_queue_delay_microseconds: {delay}", "}"]
        lines += ["instance_group {", f"  count: {self.instances}", "  kind: KIND_CPU", "}"]
        for key, value in self.parameters.items():
            lines += ["parameters {", f"  key: {_quoted(key)}", f"  value {{ string_value: {_quoted(value)} }}", "}"]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """*text* as a literal of the text format."""
    plain = set(range(32, 127)) - set(b'"\\')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def model_config(
    name: str, sha256: str, *, instances: int = 1, threads: int = 1, batching: Batching | None = None
) -> ModelConfig:
    """The configuration of a model of ours, whose file has that SHA-256: *instances* processes, each with *threads* threads."""
    parameters = {THREADS: str(threads), DIGEST: sha256}
    return ModelConfig(name, "python", INPUTS, OUTPUTS, instances, batching or Batching(), parameters)
