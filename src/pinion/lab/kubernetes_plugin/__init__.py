"""A stand-in for Pulumi's own ``pulumi-resource-kubernetes``, for machines that cannot download that one.

It serves the kinds that Pinion's program declares, against any real API server, and refuses every other kind by name. Where the official
plugin can be had, it is used and this is not: `pinion.lab.kubernetes_plugin.choice` decides. State written by one can be read by the
other: the same tokens, ids (``namespace/name``), inputs, and outputs named alike (`__fieldManager`, `__initialApiVersion`).
"""
