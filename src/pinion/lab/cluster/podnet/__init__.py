"""The network of pods: runs on every machine of the lab's cluster, of Python's standard library alone.

`python3 -m podnet CONFIGURATION` connects the pods of all nodes (routes where two nodes share a network, VXLAN where not), gives the
container runtime its network configuration, and holds pods to their NetworkPolicies with nftables. It watches the API server and
keeps the last state that it knew while there is none.
"""
