"""One good value for every key: what a message gives as its fix, as a person would write it in YAML. Pure.

A key that names something of the site itself takes the name from the site, where it states one; hardware is from the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from pinion.site.errors import Path
from pinion.site.fixes import Fix, quoted, write
from pinion.site.internet import prefix as ip_network
from pinion.site.model_paths import annotation_at, bounds_at, model_of, plain_type
from pinion.site.statement import Statement

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti name@host"
_NIC = "Ethernet49/1-52/1"
#: By key, and by model and key where the key alone does not say it; of a list, one item of it.
EXAMPLES: dict[str, str] = {
    "site": "rack-7",
    "region": "eu-central",
    "description": "Row 4",
    "vid": "101",
    "purpose": "edge",
    "prefix": "192.168.101.0/24",
    "prefixes": "192.168.101.0/24",
    "gateway": "none",
    "ranges": "192.168.101.10-192.168.101.99",
    "dhcp": "192.168.101.200-192.168.101.250",
    "share": "20%",
    "dscp": "16",
    "rack": "rack-1",
    "Switch.platform": "arista-eos",
    "Switch.model": "7050SX3-48YC8",
    "network": "control",
    "range": "gpu-servers",
    "mtu": "9000",
    "update_window": "daily 02:00-05:00",
    "address": "192.168.101.17",
    "serial": '"1000000012345678"',
    "mac": '"2c:cf:67:00:00:01"',
    "pair": "tor-2",
    "pair_ports": "Ethernet55/1-56/1",
    "uplinks": "Ethernet53/1",
    "GpuServer.profile": "dgx-h100",
    "profile": "generic-1u-2x10gbase-t",
    "fabric_network": "control",
    "fabric_address": "192.168.100.10",
    "port": "tor-1 Ethernet17",
    "numbers": "1-8",
    "board": "raspberry-pi-5-8gb",
    "hat": "ai-hat-plus-2",
    "PiGroup.ports": "tor-1 Ethernet1-8",
    "RdmaLinks.ports": _NIC,
    "AllowedFlow.ports": "3142",
    "control_plane": "mgmt-1",
    "chart": "hello",
    "namespace": "edge-services",
    "server": "nv-1",
    "artefact": "assistant-1b",
    "quantisation": "Q4_0",
    "url": "https://models.example.org/assistant-1b-q4_0.gguf",
    "ProgramSource.url": "https://files.example.org/kubelet",
    "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "size": "773025920",
    "signature": "YvPnDLaYrrW2mbiUO1Umf/O9O3aOoFdybkRgOhkbwK8T3yvo0E0EvID+wmZss7qZvsQVaYZFd7mTwKRtN9a4Cw==",
    "queue_wait": "100ms",
    "pool_timeout": "5s",
    "cpu": "80%",
    "confidence": "0.5",
    "p50": "80ms",
    "p95": "300ms",
    "availability": "99.9%",
    "alert_at": "50%",
    "admins": _KEY,
    "authorities": _KEY,
    "principals": "ops",
    "time_servers": "ntp.example.net",
    "name_servers": "192.0.2.53",
    "uri": "https://deb.example.org/debian",
    "suites": "trixie",
    "components": "main",
    "PackageSource.key": "|",
    "keyring": "/usr/share/keyrings/example-archive-keyring.gpg",
    "hosts": "pis",
    "AllowedFlow.hosts": "pi",
    "domain": "rack.example.org",
    "authority": "https://ca.example.org:9000",
    "reload": "nginx.service",
    "operators": "192.0.2.0/24",
    "sources": "192.0.2.0/24",
    "why": "package mirror",
    "celsius": "60",
    "speed": "50%",
    "zram": "50%",
    "ModelStore.key": "2t53vqyNuHrkgtfAmRvGWIyj1rm0cIKCf6C0Oy9IbVU=",
    "EdgeRuntime.model": "assistant",
    "program": "/usr/local/bin/kubelet",
    "pause": "registry.example.org/pause:3.10",
    "GpuDriver.version": '"580.95.05"',
    "mig": "3g.40gb",
    "mps": "50%",
    "limits": "2",
    "decommissioned": "pi-03",
}
#: Keys whose text is the writer's own and names nothing that must be somewhere else.
FREE = frozenset(
    {"site", "region", "description", "serial", "why", "namespace", "version", "quantisation", "principals"}
)
#: Keys that an entry needs though its model does not say so.
_NEEDED_TOO = {"Network": ("prefix",)}
#: What an entry is called, by the key of its mapping.
_NAMES = {
    "racks": "rack-1",
    "networks": "control",
    "ranges": "pis",
    "switches": "tor-1",
    "management_hosts": "mgmt-1",
    "pis": "pi",
    "nodes": "3",
    "gpu_servers": "nv-1",
    "ports": "tor-1",
    "services": "hello",
    "models": "assistant",
    "package_sources": "debian",
    "allow": "mirror",
    "limits": "pis",
}
#: Keys that name what another section states: by key, that section; of networks, the purpose that fits the model.
_SECTIONS = {
    "rack": "racks",
    "network": "networks",
    "fabric_network": "networks",
    "control_plane": "management_hosts",
    "server": "gpu_servers",
}
_PURPOSES = {"Switch": "management", "ManagementHost": "management", "PiGroup": "edge", "RdmaLinks": "rdma"}


def example(path: Path, site: Mapping[str, object]) -> str:
    """A good value for *path* of the site file, whose content is *site*, on one line of YAML."""
    return _value(annotation_at(path), path, site)


def number(path: Path, limit: int) -> int:
    """A good number for *path*: the one that is stated for its key, else the bound *limit* that another one is beyond."""
    found = _stated(path)
    return int(found) if found is not None and found.isdigit() else limit


def _value(annotation: Any, path: Path, site: Mapping[str, object]) -> str:  # noqa: ANN401 - annotations have no type of their own
    kind = plain_type(annotation)
    if isinstance(kind, type) and issubclass(kind, Statement):
        needed = [key for key, field in kind.model_fields.items() if field.is_required()]
        needed += _NEEDED_TOO.get(kind.__name__, ())
        return "{" + ", ".join(f"{key}: {example((*path, key), site)}" for key in needed) + "}"
    if get_origin(kind) is tuple:
        return f"[{_value(get_args(kind)[0], (*path, 0), site)}]"
    if get_origin(kind) is dict:
        inner = get_args(kind)[1]
        return f"{{{_name(kind, path)}: {_value(inner, (*path, _name(kind, path)), site)}}}"
    return _own(path, site) or _stated(path) or _by_type(annotation, kind)


def _name(kind: Any, path: Path) -> str:  # noqa: ANN401
    """A key of the mapping at *path*, which is of *kind*."""
    names = plain_type(get_args(kind)[0])
    return str(get_args(names)[0]) if get_origin(names) is Literal else _NAMES[str(path[-1])]


def _own(path: Path, site: Mapping[str, object]) -> str | None:
    """What the site itself has for the key at *path* to name."""
    key, model = str(path[-1]), model_of(path)
    if key in {"vid", "dscp", "prefix"}:
        return _unused(key, site)
    section = site.get(_SECTIONS.get(key, ""))
    if model is None or not isinstance(section, dict) or not section:
        return None
    wanted = "control" if key == "fabric_network" else _PURPOSES.get(model.__name__, "control")
    fitting = (name for name, entry in section.items() if isinstance(entry, dict) and entry.get("purpose") == wanted)
    return next(fitting, None) if _SECTIONS[key] == "networks" else str(next(iter(section)))


def _unused(key: str, site: Mapping[str, object]) -> str | None:
    """A value for *key*, a VLAN identifier, a DSCP or a prefix, that nothing else in *site* has."""
    section = site.get("traffic_classes" if key == "dscp" else "networks")
    entries = section.values() if isinstance(section, dict) else ()
    stated = [entry.get(key) for entry in entries if isinstance(entry, dict)]
    if key == "vid":
        return str(next(vid for vid in range(101, 4095) if vid not in stated))
    if key == "dscp":
        queues = {each >> 3 for each in stated if isinstance(each, int)}
        return str(next((first for first in (16, 8, 0, 32, 40) if first >> 3 not in queues), 16))
    texts = [text for text in stated if isinstance(text, str)]
    free = (f"192.168.{third}.0/24" for third in range(101, 255))
    return next((each for each in free if not any(_overlap(each, text) for text in texts)), None)


def _overlap(one: str, other: str) -> bool:
    try:
        found = ip_network(other, strict=False)
    except ValueError:
        return False
    return found.version == 4 and found.overlaps(ip_network(one))


def takes(path: Path, value: object) -> bool:
    """Whether the model takes *value* at *path*; what it must be besides, the rules say."""
    annotation = annotation_at(path)
    try:
        TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        return False
    return annotation is not None


def as_text(text: str, path: Path, site: Mapping[str, object]) -> Fix:
    """What to do about *text*, which was read as something else: quotes where it is the writer's own, else a value that can be there."""
    keys = [step for step in path if isinstance(step, str)]
    if takes(path, text) and (not keys or keys[-1] in FREE or model_of(path[: len(keys)]) is None):
        return write("put it in quotes: {}", quoted(text))
    return write("write for example {}", example(path, site))


def _stated(path: Path) -> str | None:
    """The example that is stated for the key at *path*; of an item or an entry, for the key that it is under."""
    for size in range(len(path), 0, -1):
        if (model := model_of(path[:size])) is not None:
            key = str(path[size - 1])
            return EXAMPLES.get(f"{model.__name__}.{key}") or EXAMPLES.get(key)
    return None


def _by_type(annotation: Any, kind: Any) -> str:  # noqa: ANN401
    """A value that the type allows: what the key has unless it is stated, a choice, or the lowest number."""
    field = get_args(annotation)[1] if get_origin(annotation) is Annotated else None
    default = getattr(field, "default", None)
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (int, float, str)) and default != "":
        return str(default)
    if get_origin(kind) is Literal:
        return str(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return str(next(iter(kind)))
    return str(bounds_at(annotation).get("ge", 1))
