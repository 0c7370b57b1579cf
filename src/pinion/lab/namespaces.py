"""Network namespaces, cables between them and the out-of-band bridge.

Invariants: a veth pair is born in its two namespaces, so the root namespace never holds one; creating what exists changes nothing; a
name left by a crash or reboot (a file with no namespace behind it) is replaced.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pinion.lab import netns_folder
from pinion.lab.errors import LabError
from pinion.lab.processes import run

if TYPE_CHECKING:
    from pinion.lab.topology import Cable, Port

_FOLDER = netns_folder.FOLDER
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_libc = ctypes.CDLL(None, use_errno=True)
#: The bridge of the out-of-band network, inside its own namespace.
BRIDGE = "oob"
#: Layer-2 MTU of every virtual cable: the largest that the switches of the catalogue take; hosts lower their own end.
CABLE_MTU = 9216


def path_of(name: str) -> Path:
    """The file that stands for namespace *name*, where iproute2 keeps it too."""
    return _FOLDER / name


def exists(name: str) -> bool:
    """Whether namespace *name* is really there, not only its file."""
    return netns_folder.is_namespace(path_of(name))


def names(prefix: str) -> tuple[str, ...]:
    """Namespaces, and files left of one, whose name starts with *prefix*."""
    if not _FOLDER.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in _FOLDER.iterdir() if entry.name.startswith(prefix)))


def create(name: str) -> bool:
    """Create namespace *name* with its loopback up; whether that was needed."""
    if exists(name):
        return False
    delete(name)
    with netns_folder.held():
        netns_folder.prepare()
        # exclusive: two callers cannot both think that they made it
        path_of(name).touch(exist_ok=False)
        run(["unshare", f"--net={path_of(name)}", "ip", "link", "set", "lo", "up"])
    return True


def delete(name: str) -> bool:
    """Delete namespace *name*, with every virtual link that ends in it; whether there was one."""
    path = path_of(name)
    if not path.exists():
        return False
    with netns_folder.held():
        netns_folder.uncover()
        while netns_folder.is_namespace(path):
            run(["umount", "--lazy", str(path)])
        path.unlink(missing_ok=True)
        netns_folder.leave()
    return True


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Be in namespace *name* with this thread. Sockets made meanwhile stay there. Do not await in between."""
    with Path("/proc/thread-self/ns/net").open("rb") as home, _open(name) as target:
        _setns(target.fileno(), name)
        try:
            yield
        finally:
            _setns(home.fileno(), "the root namespace")


@contextlib.contextmanager
def _open(name: str) -> Iterator[Namespace]:
    try:
        descriptor = os.open(path_of(name), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise LabError(f"network namespace {name}: not there; bring the lab up: pinion lab up") from None
    try:
        yield Namespace(descriptor)
    finally:
        os.close(descriptor)


class Namespace:
    """An open namespace."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor


def _setns(descriptor: int, what: str) -> None:
    """setns(2) for this thread (Python has it from 3.12 on)."""
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise LabError(f"{what}: cannot enter: {os.strerror(ctypes.get_errno())}; the lab needs root")


def enter(name: str) -> None:
    """Put this thread into namespace *name* for good (before an exec)."""
    with _open(name) as target:
        _setns(target.fileno(), name)


def new_socket(name: str, family: int = socket.AF_INET) -> socket.socket:
    """A TCP socket that lives in namespace *name*."""
    with inside(name):
        return socket.socket(family, socket.SOCK_STREAM)


def connect(name: str, host: str, port: int, timeout: float) -> socket.socket:
    """A TCP connection made inside namespace *name*; OSError as `socket.connect` raises it."""
    made = new_socket(name, socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.settimeout(timeout)
        made.connect((host, port))
    except BaseException:
        made.close()
        raise
    return made


def command(name: str, argv: list[str]) -> list[str]:
    """*argv* as a command line that runs inside network namespace *name*, with this machine's programs and files."""
    return ["nsenter", f"--net={path_of(name)}", "--", *argv]


# --- links ------------------------------------------------------------------------------------------------------------

_one_at_a_time = threading.Lock()


def _links(name: str) -> dict[str, tuple[int, int]]:
    """Links of a namespace: name to its own index and its peer's (0 when it has none)."""
    shown = json.loads(run(["ip", "-n", name, "-json", "link", "show"]).stdout or "[]")
    return {link["ifname"]: (int(link["ifindex"]), int(link.get("link_index", 0))) for link in shown}


def ensure_pair(a: tuple[str, str], b: tuple[str, str], *, a_mac: str | None = None, b_mac: str | None = None) -> bool:
    """Have a veth pair from namespace and name *a* to *b*; whether it had to be made. A link that leads elsewhere is replaced."""
    with _one_at_a_time:
        left, right = _links(a[0]).get(a[1]), _links(b[0]).get(b[1])
        if left and right and (left[0], left[1]) == (right[1], right[0]):
            return False
        for (namespace, link), there in ((a, left), (b, right)):
            # deleting one end takes the other along, so the second may be gone already
            if there:
                run(["ip", "-n", namespace, "link", "delete", link], check=False)
        argv = ["ip", "-n", a[0], "link", "add", a[1], "mtu", str(CABLE_MTU)]
        argv += ["address", a_mac] if a_mac else []
        argv += ["type", "veth", "peer", "name", b[1], "mtu", str(CABLE_MTU), "netns", b[0]]
        argv += ["address", b_mac] if b_mac else []
        run(argv)
        return True


def no_checksum_offload(namespace: str, link: str) -> None:
    """Have the sender compute checksums: a user-space switch reads packets before any card would have filled them in."""
    run(command(namespace, ["ethtool", "-K", link, "tx", "off"]))


def ensure_cable(cable: Cable, a_namespace: str, b_namespace: str) -> bool:
    """Have the veth pair of *cable*; whether it had to be made."""
    made = ensure_pair((a_namespace, cable.a.name), (b_namespace, cable.b.name), a_mac=cable.a.mac, b_mac=cable.b.mac)
    if made:
        for port, namespace in ((cable.a, a_namespace), (cable.b, b_namespace)):
            no_checksum_offload(namespace, port.name)
    return made


def ensure_bridge(namespace: str) -> None:
    """Have the out-of-band bridge: plain, without spanning tree, up."""
    if BRIDGE not in _links(namespace):
        run(["ip", "-n", namespace, "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0"])
    run(["ip", "-n", namespace, "link", "set", BRIDGE, "up"])


def ensure_bridge_port(port: Port, namespace: str, bridge_namespace: str) -> bool:
    """Have *port* plugged into the out-of-band bridge; whether it had to be made."""
    far = bridge_port(port)
    made = ensure_pair((namespace, port.name), (bridge_namespace, far), a_mac=port.mac)
    run(["ip", "-n", bridge_namespace, "link", "set", far, "master", BRIDGE, "up"])
    run(["ip", "-n", namespace, "link", "set", port.name, "up"])
    return made


def bridge_port(port: Port) -> str:
    """Name of the bridge's end: fixed by the port, at most 15 characters (IFNAMSIZ)."""
    return "p" + port.mac.replace(":", "")
