"""A stand-in for Pulumi's own ``pulumi-resource-kubernetes``, for Pinion's lab, which nothing can leave to download that one.

It serves the few kinds that Pinion's program declares, against any real API server, and refuses every other kind by name. It behaves as the
official plugin 4.30.0 does in all that the program relies on, what is unpleasant about it included: `tests/cluster/plugin_contract.py` is
run against both. State written by one is read by the other: the same tokens, ids (``namespace/name``), inputs and outputs (`__inputs`,
`__fieldManager`, `__initialApiVersion`).
"""
