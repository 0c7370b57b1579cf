"""Values that stand in for required ones that are missing or bad, so that the rest of their entry is looked at all the same. Pure.

What a rule says of such a value itself is kept back (`pinion.site.shape`); a rule that compares it with others asks whether it was guessed.
A site that was mended so is never handed out.
"""

from __future__ import annotations

from collections.abc import Mapping

from pinion.site.errors import Path

#: A name that no switch, network or entry of the catalogue has.
NOBODY = "X-not-stated"
_DEVICE = {"rack": "x-not-stated", "network": NOBODY}
_SWITCH_PORT = f"{NOBODY} Ethernet1"

#: Model and key to the value that stands in.
VALUES: dict[str, dict[str, object]] = {
    "Switch": {**_DEVICE, "platform": NOBODY, "model": NOBODY},
    "ManagementHost": {**_DEVICE, "profile": NOBODY, "fabric_network": NOBODY, "port": _SWITCH_PORT},
    "PiGroup": {**_DEVICE, "board": NOBODY, "ports": _SWITCH_PORT},
    "GpuServer": {**_DEVICE, "profile": NOBODY, "port": _SWITCH_PORT},
    "RdmaLinks": {"network": NOBODY},
    # No purpose is as silent as this one: it has no default gateway and may be on switches of any MTU.
    "Network": {"purpose": "management"},
    "TrafficClass": {"share": "1%", "dscp": 1},
    "Kubernetes": {"control_plane": "x-not-stated"},
    "EdgeModel": {"artefact": NOBODY},
    "PoolModel": {"artefact": NOBODY},
    "PackageSource": {"uri": "https://not-stated.invalid", "suites": ["x-not-stated"]},
    "FanPoint": {"celsius": 60, "speed": "50%"},
    "ProgramSource": {"url": "https://not-stated.invalid/x", "sha256": "0" * 64},
    "ModelStore": {"key": f"{'A' * 43}="},
    "AllowedFlow": {"sources": [NOBODY], "hosts": ["x-not-stated"], "ports": [1]},
    "ArtefactSource": {
        "url": "https://not-stated.invalid/x",
        "sha256": "0" * 64,
        "size": 1,
        "signature": f"{'A' * 86}==",
    },
    "GpuDriver": {"version": "000.0"},
    "Service": {"chart": "x-not-stated", "namespace": "x-not-stated"},
}


def placeholder(model: str, path: Path, beside: Mapping[str, object], taken: frozenset[int]) -> object | None:
    """What stands in for the value at *path*, a key of a *model*; None where nothing can.

    *beside* is what else is stated in its entry, *taken* the VLAN identifiers of the site.
    """
    key = str(path[-1])
    if (model, key) == ("Network", "vid"):
        return next(vid for vid in range(4094, 1, -1) if vid not in taken)
    if (model, key) == ("PiGroup", "numbers"):
        nodes, first = beside.get("nodes"), beside.get("first")
        numbered = [name for name in nodes if str(name).isdecimal()] if isinstance(nodes, dict) else []
        return ",".join(numbered) or str(first if isinstance(first, int) and first >= 1 else 1)
    if path[:-1] == ("rollout", "limits"):
        return 1
    return VALUES.get(model, {}).get(key)
