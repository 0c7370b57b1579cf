"""The layer of a Kubernetes node in the lab."""

from __future__ import annotations

from pinion.lab.recipes import NODE, LayerRecipe

#: busybox: what our images are made of.
KUBERNETES_NODE = LayerRecipe(name="kubernetes-node", parent=NODE, packages=("busybox-static",), minutes=0.2)
