"""Triton's Python backend in memory: what of triton_python_backend_utils our model uses, and how requests are put to it.

As a program it loads the model of a version's folder, and nothing else of Pinion's than lies there: python triton_stand_in.py FOLDER
CONFIG. Each line of its input is one batch: a list of requests (inputs by name); each line of its output the list of their answers: status
and outputs, as `engines.infer` has them.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {"TYPE_STRING": np.object_, "TYPE_INT32": np.int32, "TYPE_INT64": np.int64, "TYPE_FP32": np.float32}


class Tensor:
    def __init__(self, name: str, array: np.ndarray) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> np.ndarray:
        return self._array


class TritonError:
    INVALID_ARG = 400

    def __init__(self, message: str, code: int = 500) -> None:
        self.message, self.code = message, code


class TritonModelException(Exception):  # noqa: N818 - Triton's name
    pass


class InferenceResponse:
    def __init__(self, output_tensors: list[Tensor] | None = None, error: TritonError | None = None) -> None:
        self.output_tensors, self.error = output_tensors or [], error


def get_input_tensor_by_name(request: dict[str, Tensor], name: str) -> Tensor | None:
    return request.get(name)


def main(folder: Path, config: dict[str, Any]) -> None:
    sys.path.insert(0, str(folder))
    sys.modules["triton_python_backend_utils"] = sys.modules[__name__]
    model = importlib.import_module("model").TritonPythonModel()
    of_pinion = [module for name, module in sys.modules.items() if name.partition(".")[0] == "pinion"]
    assert of_pinion
    assert all(str(module.__file__).startswith(f"{folder}/") for module in of_pinion), of_pinion
    version, place = folder.name, str(folder.parent)
    model.initialize({"model_config": json.dumps(config), "model_repository": place, "model_version": version})
    kinds = {tensor["name"]: TYPES[tensor["data_type"]] for tensor in config["input"]}
    for line in sys.stdin:
        batch = [
            {
                name: Tensor(name, np.array([[value.encode() if isinstance(value, str) else value]], kinds[name]))
                for name, value in asked.items()
            }
            for asked in json.loads(line)
        ]
        responses = model.execute(batch)
        print(json.dumps([told(response, config) for response in responses]), flush=True)


def told(response: InferenceResponse, config: dict[str, Any]) -> list[object]:
    """The answer as Triton gives it over HTTP; every output must be of its declared type and shape."""
    if response.error is not None:
        return [response.error.code, {"error": response.error.message}]
    found = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors}
    for output in config["output"]:
        array = found[output["name"]]
        assert array.dtype == TYPES[output["data_type"]]
        # before the stated dimensions comes that of the batch
        dims = [1, *output["dims"]]
        assert [length if stated >= 0 else -1 for length, stated in zip(array.shape, dims, strict=True)] == dims
    return [
        200,
        {
            name: [one.decode() if isinstance(one, bytes) else one for one in array[0].tolist()]
            for name, array in found.items()
        },
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
