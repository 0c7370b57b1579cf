"""NVIDIA's Triton Inference Server on the CPU: a layer for machines of the lab, a model repository, and one Triton by itself."""
