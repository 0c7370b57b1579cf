"""The layer of a machine that runs Triton.

Invariants:

* Triton, numpy and ONNX Runtime come from `requirements.txt`, pinned and checked by hash; the Python below them from Debian, signed.
* The folders are those of NVIDIA's own image, so that a command line for one fits the other.
* It lies on the layer of Kubernetes' nodes: GPU servers are such nodes.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pinion.lab.cluster.recipes import KUBERNETES_NODE
from pinion.lab.recipes import Bind, LayerRecipe

#: Triton in the machine, as NVIDIA's image has it.
TRITON_HOME = "/opt/tritonserver"
PROGRAM = f"{TRITON_HOME}/bin/tritonserver"
#: The user that Triton runs as, and the folder where a model repository is shown to it.
USER, MODELS = "triton", "/srv/triton-models"

_HERE = files("pinion.lab.triton")

TRITON = LayerRecipe(
    name="triton",
    parent=KUBERNETES_NODE,
    files={f"{TRITON_HOME}/requirements.txt": (_HERE / "requirements.txt").read_text()},
    script=(_HERE / "files" / "build-triton.sh").read_text(),
    env=("PIP_*",),
    binds=(Bind(Path("/etc/pip.conf"), "/etc/pip.conf"), Bind(Path("/opt/wheels"), "/opt/wheels")),
    minutes=1,
)
