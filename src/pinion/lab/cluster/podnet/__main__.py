"""The program: watch, compute, apply what differs. ``python3 -m podnet /etc/pinion/podnet.json``."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from . import policies, routes
from .watching import Server, Watched

_CNI = Path("/etc/cni/net.d/10-pods.conflist")
#: Seconds to let changes gather, and seconds after which all is looked at again without any (someone else may have changed a route).
_GATHER, _AGAIN = 0.2, 30.0
#: Layer-3 MTU of the networks between nodes, in bytes.
_MTU = 1500


@dataclass(frozen=True)
class Configuration:
    """What the lab writes down for one machine. *runs_pods*: it is a node, not only a neighbour of nodes."""

    server: str
    ca: str
    certificate: str
    key: str
    name: str
    address: str
    pod_prefix: str
    runs_pods: bool


def say(text: str) -> None:
    """A line for the journal."""
    print(text, file=sys.stderr, flush=True)


def run(*argv: str, given: str | None = None) -> str:
    """Run a program; its output. Raises `subprocess.CalledProcessError` after telling what it said."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"{' '.join(argv)}: {done.stderr.strip()}")
        raise subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
    return done.stdout


class Kernel:
    """What this machine has, and how it is changed. Only what differs is touched."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._rules = ""

    def attached(self) -> list[str]:
        """The IPv4 networks of this machine's interfaces, without those of pods."""
        pods = ipaddress.ip_network(self._configuration.pod_prefix)
        found = []
        for link in json.loads(run("ip", "-4", "-json", "address", "show", "scope", "global")):
            for entry in link.get("addr_info", ()):
                network = ipaddress.ip_network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
                if not network.overlaps(pods) and network.prefixlen < network.max_prefixlen:
                    found.append(str(network))
        return found

    def link(self, prefix: str | None) -> None:
        """Have the VXLAN link, with the hardware address that belongs to *prefix*."""
        shown = subprocess.run(
            ["ip", "-json", "link", "show", routes.LINK], capture_output=True, text=True, check=False
        )
        held = json.loads(shown.stdout)[0] if shown.returncode == 0 else None
        if held is None:
            vxlan = (
                "id",
                str(routes.VNI),
                "dstport",
                str(routes.PORT),
                "local",
                self._configuration.address,
                "nolearning",
            )
            run("ip", "link", "add", routes.LINK, "type", "vxlan", *vxlan)
        if prefix is not None and (held is None or held["address"] != routes.link_mac(prefix)):
            run("ip", "link", "set", routes.LINK, "address", routes.link_mac(prefix))
        if held is None or "UP" not in held["flags"]:
            run("ip", "link", "set", routes.LINK, "up")
        if not self._configuration.runs_pods:
            run(
                "ip",
                "address",
                "replace",
                f"{routes.hub_address(self._configuration.pod_prefix)}/32",
                "dev",
                routes.LINK,
            )
        # the source of what a node itself sends is its own address, whose way back need not be this link (RFC 3704, loose mode)
        _sysctl(f"net/ipv4/conf/{routes.LINK}/rp_filter", "2")

    def connect(self, hops: list[routes.Hop]) -> None:
        """Have exactly the routes and VXLAN entries of *hops*."""
        overlays = {hop.mac: hop for hop in hops if hop.overlay}
        forwarding = {
            entry["mac"]: entry["dst"]
            for entry in json.loads(run("bridge", "-json", "fdb", "show", "dev", routes.LINK))
            if "dst" in entry
        }
        for mac, address in forwarding.items():
            if mac not in overlays or overlays[mac].address != address:
                run("bridge", "fdb", "del", mac, "dev", routes.LINK, "dst", address)
        for mac, hop in overlays.items():
            if forwarding.get(mac) != hop.address:
                run("bridge", "fdb", "replace", mac, "dev", routes.LINK, "dst", hop.address, "self", "permanent")
        neighbours = {
            (entry["dst"], entry.get("lladdr"))
            for entry in json.loads(
                run("ip", "-4", "-json", "neighbour", "show", "dev", routes.LINK, "nud", "permanent")
            )
        }
        for hop in overlays.values():
            if (hop.gateway, hop.mac) not in neighbours:
                run(
                    "ip", "neighbour", "replace", hop.gateway, "lladdr", hop.mac, "nud", "permanent", "dev", routes.LINK
                )
        held = {
            (route["dst"], route.get("gateway"), route.get("prefsrc"))
            for route in json.loads(run("ip", "-4", "-json", "route", "show", "proto", str(routes.PROTOCOL)))
        }
        # iproute2 leaves out the length of a single address
        wanted = {(hop.prefix.removesuffix("/32"), hop.gateway, self._source(overlay=hop.overlay)): hop for hop in hops}
        ours = ("proto", str(routes.PROTOCOL))
        for prefix, gateway, source in held - wanted.keys():
            via = ["via", gateway] if gateway else []
            run("ip", "route", "del", prefix, *via, *(["src", source] if source else []), *ours)
        for prefix, gateway, source in wanted.keys() - held:
            way = ("dev", routes.LINK, "onlink") if wanted[prefix, gateway, source].overlay else ()
            run("ip", "route", "replace", prefix, "via", gateway, *way, "src", source, *ours)

    def _source(self, *, overlay: bool) -> str:
        """The address that this machine itself speaks to pods with."""
        here = self._configuration
        return routes.hub_address(here.pod_prefix) if overlay and not here.runs_pods else here.address

    def filter(self, rules: str) -> None:
        """Have exactly the nftables *rules*."""
        if rules != self._rules:
            run("nft", "--file", "-", given=rules)
            self._rules = rules


def _sysctl(name: str, value: str) -> None:
    path = Path("/proc/sys") / name
    if path.read_text().strip() != value:
        try:
            path.write_text(value)
        except OSError as error:
            say(f"{path}: {error.strerror}")


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.new")
    part.write_text(text)
    part.replace(path)
    say(f"{path} written")


@dataclass(frozen=True)
class Known:
    """What follows from the cluster's objects for this machine; many of their changes change none of it.

    *prefix* is this machine's own, None until Kubernetes has given it one; *rules* are for nftables, None where no pods run.
    """

    prefix: str | None
    nodes: tuple[routes.Node, ...]
    rules: str | None


class Watcher:
    """All that this machine watches, and how it follows from that."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._kernel = Kernel(configuration)
        self.news = threading.Event()
        server = Server(configuration.server, configuration.ca, configuration.certificate, configuration.key)
        paths = ["/api/v1/nodes"]
        if configuration.runs_pods:
            paths += ["/api/v1/pods", "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies"]
        self._watched = {path.rpartition("/")[2]: Watched(server, path, self.news.set, say) for path in paths}

    def wait_for_lists(self) -> None:
        """Wait until every collection has been seen once."""
        for collection in self._watched.values():
            collection.listed.wait()

    def known(self) -> Known:
        """What the objects say now."""
        here = self._configuration
        items = self._watched["nodes"].objects()
        prefix = next((item["spec"].get("podCIDR") for item in items if item["metadata"]["name"] == here.name), None)
        nodes = sorted((node for node in map(routes.node_of, items) if node is not None), key=lambda node: node.name)
        rules = policies.ruleset(self._cluster(), here.name, here.pod_prefix, prefix) if here.runs_pods else None
        return Known(prefix, tuple(nodes), rules)

    def apply(self, known: Known) -> None:
        """Bring the kernel, and the container runtime's configuration, to what is *known*."""
        here = self._configuration
        attached = self._kernel.attached()
        hops = routes.hops(known.nodes, here.name, attached)
        if here.runs_pods:
            hub = routes.hub_hop(here.pod_prefix, urlsplit(here.server).hostname or "", attached)
            hops += [hub] if hub is not None else []
            self._kernel.link(known.prefix)
        else:
            self._kernel.link(f"{routes.hub_address(here.pod_prefix)}/32")
        self._kernel.connect(hops)
        if known.rules is not None:
            self._kernel.filter(known.rules)
        if here.runs_pods and known.prefix is not None:
            _write(_CNI, json.dumps(routes.network_configuration(known.prefix, _MTU - routes.OVERHEAD), indent=1))

    def _cluster(self) -> policies.Cluster:
        return policies.Cluster(
            [pod for pod in map(policies.pod_of, self._watched["pods"].objects()) if pod is not None],
            {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in self._watched["namespaces"].objects()},
            self._watched["networkpolicies"].objects(),
        )  # fmt: skip


def main(argv: list[str]) -> int:
    """Run until killed."""
    if len(argv) != 2:
        say("usage: python3 -m podnet CONFIGURATION.json")
        return 2
    configuration = Configuration(**json.loads(Path(argv[1]).read_text()))
    if configuration.runs_pods:
        _sysctl("net/ipv4/ip_forward", "1")
    watcher = Watcher(configuration)
    watcher.wait_for_lists()
    pause = threading.Event()
    applied: Known | None = None
    due = 0.0
    while True:
        watcher.news.clear()
        known = watcher.known()
        if known != applied or time.monotonic() >= due:
            applied, due = known, time.monotonic() + _AGAIN
            try:
                watcher.apply(known)
            except subprocess.CalledProcessError:  # told already
                applied = None
                watcher.news.set()
                pause.wait(1.0)
        watcher.news.wait(max(0.0, due - time.monotonic()))
        pause.wait(_GATHER)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
