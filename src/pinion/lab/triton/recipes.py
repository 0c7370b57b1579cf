"""The layer that Triton's container image is made of.

Invariants:

* Triton, numpy and ONNX Runtime come from `requirements.txt`, pinned and checked by hash; the Python below them from Debian, signed.
* The folders are those of NVIDIA's own image, so that a command line for one fits the other.
* It holds what an image needs, and a list of it (`LIBRARIES`): Triton runs in a container, never in the machine itself.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pinion.lab.recipes import BASE, Bind, LayerRecipe

#: Triton in the machine, as NVIDIA's image has it.
TRITON_HOME = "/opt/tritonserver"
PROGRAM = f"{TRITON_HOME}/bin/tritonserver"
#: The user that Triton runs as, and the folder where a model repository is shown to it.
USER, MODELS = "triton", "/srv/triton-models"
#: Paths of the system's libraries that any of it is linked to, one a line.
LIBRARIES = f"{TRITON_HOME}/libraries"

_HERE = files("pinion.lab.triton")

TRITON = LayerRecipe(
    name="triton",
    parent=BASE,
    files={f"{TRITON_HOME}/requirements.txt": (_HERE / "requirements.txt").read_text()},
    script=(_HERE / "files" / "build-triton.sh").read_text(),
    env=("PIP_*",),
    binds=(Bind(Path("/etc/pip.conf"), "/etc/pip.conf"), Bind(Path("/opt/wheels"), "/opt/wheels")),
    minutes=1,
)
