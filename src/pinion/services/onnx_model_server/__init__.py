"""A language model over HTTP by ONNX Runtime: the second engine of a Pi, `onnx-model-server`."""
