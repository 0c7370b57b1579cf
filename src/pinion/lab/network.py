"""The namespaces and cables of one instance, from its topology: made, adopted, and taken away."""

from __future__ import annotations

from pinion.lab import namespaces
from pinion.lab.state import InstanceState
from pinion.lab.topology import Topology

#: Stands for the out-of-band bridge where a machine's name would stand.
OUT_OF_BAND = "oob"


def wire(store: InstanceState, topology: Topology) -> int:
    """Have every namespace, cable and bridge port; returns how many had to be made."""
    made = 0
    bridge = store.namespace(OUT_OF_BAND)
    for name in (bridge, *(store.namespace(node.name) for node in topology.nodes)):
        made += namespaces.create(name)
    namespaces.ensure_bridge(bridge)
    for cable in topology.cables:
        made += namespaces.ensure_cable(cable, store.namespace(cable.a.machine), store.namespace(cable.b.machine))
    for port in topology.out_of_band:
        made += namespaces.ensure_bridge_port(port, store.namespace(port.machine), bridge)
    return made


def unwire(store: InstanceState, machines: tuple[str, ...], *, bridge: bool = True) -> int:
    """Delete the namespaces of *machines*, and of the *bridge*, with every link in them; returns how many were there."""
    return sum(namespaces.delete(store.namespace(name)) for name in (*machines, *((OUT_OF_BAND,) if bridge else ())))
