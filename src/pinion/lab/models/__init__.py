"""A small language model that is really one: trained here from text of our own, as GGUF and as ONNX."""
