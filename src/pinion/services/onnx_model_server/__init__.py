"""A language model over HTTP by ONNX Runtime: the second engine of a Pi, `onnx-model-server`."""

from __future__ import annotations

import os

# Its maker's releases (1.31 was seen to, for Linux too) report what they run and keep a number of the machine, unless this is said before
# the library is loaded. Debian's report nothing.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
