"""The data plane on Open vSwitch with its user-space data path, and Linux for what is routed.

* One bridge. A front port that carries nothing is not on it: a port without VLANs can't leak.
* SVIs are internal ports of the bridge; Linux forwards between them, never to or from the management interface.
* `apply` compares first and touches only what differs, so that it may run at any time without disturbing traffic.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from .dataplane import DataPlaneError, Desired, MacEntry, ManagementPlane, PortPlane, SshRule, SviPlane, Tagging

#: Runs a command, with text for its standard input, and returns what it prints. Raises `DataPlaneError`.
Run = Callable[[Sequence[str], "str | None"], str]

BRIDGE = "bridge0"
#: Seconds that one command may take.
_PATIENCE = 20
_TABLE = "pinion"
_SSH = 22
#: MTU of a front port that states none: what the lab's cables have.
CABLE_MTU = 9216


def run(command: Sequence[str], text: str | None = None) -> str:
    """Run *command* on this machine. `DataPlaneError` names it and what it said."""
    try:
        done = subprocess.run(
            list(command),
            input=text,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=None if text else subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataPlaneError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
        raise DataPlaneError(f"{' '.join(command[:6])}: {said}")
    return done.stdout


@dataclass(frozen=True)
class _OvsPort:
    """A port as OVSDB holds it. *error* is why its interface does not work, *mtu* what was asked for."""

    tagging: Tagging
    tag: int | None
    trunks: tuple[int, ...]
    internal: bool
    error: str
    mtu: int | None


@dataclass
class _Link:
    """A network interface as Linux holds it."""

    up: bool
    carrier: bool
    mtu: int
    mac: str
    addresses: set[str] = field(default_factory=set)


class OvsDataPlane:
    """See the module. *runner* runs commands where Open vSwitch runs."""

    def __init__(self, runner: Run = run) -> None:
        self._run = runner

    # --- the Protocol ---

    def apply(self, desired: Desired) -> None:
        """See `DataPlane.apply`."""
        self._run(
            [
                *_VSCTL,
                "--may-exist",
                "add-br",
                BRIDGE,
                "--",
                "set",
                "Bridge",
                BRIDGE,
                "datapath_type=netdev",
                "fail_mode=standalone",
            ],
            None,
        )
        links = self._links()
        self._bridge(desired, links)
        self._front_links(desired, links)
        self._svis(desired)
        self._managements(desired, links)
        self._forwarding(desired)

    def observe(self) -> Desired:
        """See `DataPlane.observe`."""
        links, held = self._links(), self._held()
        ports = []
        for name in sorted((name for name in links if name.startswith("Ethernet")), key=_number):
            known = held.get(name)
            mtu = links[name].mtu
            ports.append(
                PortPlane(
                    name,
                    up=links[name].up,
                    tagging=known.tagging if known else Tagging.NONE,
                    tag=known.tag if known else None,
                    trunks=known.trunks if known else (),
                    mtu=None if mtu == CABLE_MTU else mtu,
                )
            )
        svis = []
        for name in sorted((name for name in held if held[name].internal and name != BRIDGE), key=_number):
            link = links[name]
            svis.append(SviPlane(_number(name), link.up, link.mtu, tuple(sorted(link.addresses)), link.mac))
        managements = [
            ManagementPlane(name, link.up, tuple(sorted(link.addresses)))
            for name, link in links.items()
            if name.startswith("Management")
        ]
        return Desired(
            tuple(ports),
            tuple(svis),
            tuple(managements),
            ipv4_forwarding=any(self._sysctl(f"net.ipv4.conf.{svi.name}.forwarding") for svi in svis),
            ipv6_forwarding=self._sysctl("net.ipv6.conf.all.forwarding"),
            ssh_rules=self._ssh_rules(),
        )

    def carriers(self) -> dict[str, bool]:
        """See `DataPlane.carriers`."""
        return {name: link.up and link.carrier for name, link in self._links().items()}

    def mac_table(self) -> list[MacEntry]:
        """See `DataPlane.mac_table`."""
        listed = self._table(["--columns=name,ofport", "list", "Interface"])
        names = {number: str(name) for name, number in listed if isinstance(number, int)}
        found = []
        for line in self._run(["ovs-appctl", "--timeout=10", "fdb/show", BRIDGE], None).splitlines()[1:]:
            entry = re.fullmatch(r"\s*(\d+)\s+(\d+)\s+([0-9a-f:]{17})\s+(\d+)\s*", line)
            if entry is not None:
                port = names.get(int(entry[1]), entry[1])
                found.append(MacEntry(int(entry[2]), entry[3], port, int(entry[4])))
        return found

    def plugged_in(self) -> frozenset[tuple[int, str]]:
        """See `DataPlane.plugged_in`."""
        return frozenset(socket.if_nameindex())

    # --- the bridge ---

    def _bridge(self, desired: Desired, links: dict[str, _Link]) -> None:
        """One OVSDB transaction with everything that differs."""
        held = self._held()
        wanted = {port.name: port for port in desired.ports if port.tagging is not Tagging.NONE and port.name in links}
        svis = {svi.name: svi for svi in desired.svis}
        commands: list[list[str]] = []
        for name, known in held.items():
            keeps = name in svis if known.internal else name in wanted
            if name != BRIDGE and (not keeps or known.error):
                commands.append(["--if-exists", "del-port", BRIDGE, name])
        for name, port in wanted.items():
            has = held.get(name)
            if has is None or has.error or (has.tagging, has.tag, has.trunks) != (port.tagging, port.tag, port.trunks):
                commands.append(["--may-exist", "add-port", BRIDGE, name])
                commands.append(["set", "Port", name, *_columns(port.tagging, port.tag, port.trunks)])
        for name, svi in svis.items():
            has = held.get(name)
            # An internal port that asks for no MTU of its own follows the smallest of the bridge.
            if has is None or has.error or (has.tag, has.mtu) != (svi.vid, svi.mtu):
                kind = ["type=internal", f"mtu_request={svi.mtu}"]
                commands.append(["--may-exist", "add-port", BRIDGE, name, "--", "set", "Interface", name, *kind])
                commands.append(["set", "Port", name, *_columns(Tagging.ACCESS, svi.vid, ())])
        if commands:
            self._run([*_VSCTL, *(word for command in commands for word in ("--", *command))], None)
            broken = {name: known.error for name, known in self._held().items() if known.error}
            if broken:
                raise DataPlaneError("; ".join(f"{name}: {error}" for name, error in sorted(broken.items())))

    def _held(self) -> dict[str, _OvsPort]:
        """The ports of the bridge by name."""
        on_bridge = {BRIDGE, *self._run([*_VSCTL, "list-ports", BRIDGE], None).split()}
        interfaces = {
            str(name): (
                kind == "internal",
                error if isinstance(error, str) else "",
                mtu if isinstance(mtu, int) else None,
            )
            for name, kind, error, mtu in self._table(["--columns=name,type,error,mtu_request", "list", "Interface"])
        }
        held = {}
        for name, tag, trunks, mode in self._table(["--columns=name,tag,trunks,vlan_mode", "list", "Port"]):
            if name in on_bridge:
                internal, error, mtu = interfaces.get(str(name), (False, "no interface", None))
                held[str(name)] = _OvsPort(
                    Tagging(str(mode)) if isinstance(mode, str) else Tagging.TRUNK,
                    tag if isinstance(tag, int) else None,
                    _numbers(trunks),
                    internal,
                    error,
                    mtu,
                )
        return held

    def _table(self, command: Sequence[str]) -> list[list[object]]:
        """Rows of an OVSDB table."""
        found = json.loads(self._run([*_VSCTL, "--format=json", *command], None))
        return cast("list[list[object]]", found["data"])

    # --- Linux ---

    def _links(self) -> dict[str, _Link]:
        links = {}
        for found in json.loads(self._run(["ip", "-json", "address", "show"], None) or "[]"):
            flags = found.get("flags", [])
            link = _Link("UP" in flags, "LOWER_UP" in flags, found.get("mtu", 0), found.get("address", ""))
            for address in found.get("addr_info", []):
                if address.get("scope") == "global":
                    link.addresses.add(f"{address['local']}/{address['prefixlen']}")
            links[found["ifname"]] = link
        return links

    def _front_links(self, desired: Desired, links: dict[str, _Link]) -> None:
        for port in desired.ports:
            link = links.get(port.name)
            if link is None:
                continue
            mtu = port.mtu or CABLE_MTU
            if link.mtu != mtu:
                self._run(["ip", "link", "set", "dev", port.name, "mtu", str(mtu)], None)
            if link.up != port.up:
                self._run(["ip", "link", "set", "dev", port.name, "up" if port.up else "down"], None)
        there = [port.name for port in desired.ports if port.name in links]
        self._sysctls({f"net.ipv6.conf.{name}.disable_ipv6": True for name in there})
        # Only the SVI answers ARP for its address: the kernel would also, with the front port's MAC, and what is sent there is lost.
        self._sysctls({f"net.ipv4.conf.{name}.arp_ignore": True for name in there})

    def _svis(self, desired: Desired) -> None:
        links = self._links()
        # Without this, Linux forgets the IPv6 addresses of an interface that is shut.
        self._sysctls(
            {f"net.ipv6.conf.{svi.name}.keep_addr_on_down": True for svi in desired.svis if svi.name in links}
        )
        for svi in desired.svis:
            link = links.get(svi.name)
            if link is None:
                raise DataPlaneError(f"{svi.name}: Open vSwitch made no interface")
            if svi.mac is not None and link.mac != svi.mac:
                self._run([*_VSCTL, "set", "Interface", svi.name, f'mac="{svi.mac}"'], None)
            if link.up != svi.up:
                self._run(["ip", "link", "set", "dev", svi.name, "up" if svi.up else "down"], None)
                # The user-space data path hands frames on as they are: a checksum left to hardware would stay empty.
                self._run(["ethtool", "--offload", svi.name, "tx", "off"], None)
            self._addresses(svi.name, set(svi.addresses), link.addresses)

    def _managements(self, desired: Desired, links: dict[str, _Link]) -> None:
        for management in desired.managements:
            link = links.get(management.name)
            if link is None:
                continue
            if link.up != management.up:
                self._run(["ip", "link", "set", "dev", management.name, "up" if management.up else "down"], None)
            if management.addresses:
                self._addresses(management.name, set(management.addresses), link.addresses)

    def _addresses(self, name: str, wanted: set[str], held: set[str]) -> None:
        # Linux forgets the later addresses of a prefix with its first one, so what goes must go before anything comes.
        for address in sorted(held - wanted):
            self._run(["ip", "address", "del", address, "dev", name], None)
        lost = held & wanted if held - wanted else set()
        for address in sorted((wanted - held) | lost):
            self._run(["ip", "address", "replace", address, "dev", name, *(["nodad"] if ":" in address else [])], None)

    def _forwarding(self, desired: Desired) -> None:
        """Routing between SVIs only: a packet from or to the management interface is never forwarded."""
        managements = [management.name for management in desired.managements]
        own = [address.partition("/")[0] for management in desired.managements for address in management.addresses]
        self._run(["nft", "--file", "-"], _firewall(managements, own, desired.ssh_rules))
        forwards = {f"net.ipv4.conf.{svi.name}.forwarding": desired.ipv4_forwarding for svi in desired.svis}
        self._sysctls(forwards | {"net.ipv6.conf.all.forwarding": desired.ipv6_forwarding})

    def _ssh_rules(self) -> tuple[SshRule, ...]:
        """Who may open SSH, as the kernel holds it: each rule's comment says which it is."""
        listed = json.loads(self._run(["nft", "--json", "list", "chain", "inet", _TABLE, "input"], None))["nftables"]
        said = (entry["rule"].get("comment", "") for entry in listed if "rule" in entry)
        found = (comment.split() for comment in said if comment.startswith("ssh "))
        return tuple(
            SshRule(family == "ip6", verdict == "accept", None if source == "any" else source)
            for _, family, source, verdict in found
        )

    def _sysctl(self, key: str) -> bool:
        return self._run(["sysctl", "--values", key], None).strip() == "1"

    def _sysctls(self, wanted: dict[str, bool]) -> None:
        """Switch kernel parameters on or off, those that are not so already."""
        if not wanted:
            return
        held = self._run(["sysctl", "--values", *wanted], None).split()
        wrong = [
            f"{key}={int(on)}" for (key, on), value in zip(wanted.items(), held, strict=True) if value != str(int(on))
        ]
        if wrong:
            self._run(["sysctl", "--quiet", "--write", *wrong], None)


_VSCTL = ("ovs-vsctl", "--timeout=10", "--no-syslog")


def _columns(tagging: Tagging, tag: int | None, trunks: Iterable[int]) -> list[str]:
    listed = ",".join(map(str, trunks))
    return [f"vlan_mode={tagging}", f"tag={tag if tag is not None else '[]'}", f"trunks=[{listed}]"]


def _firewall(managements: Sequence[str], own: Sequence[str], ssh_rules: Sequence[SshRule]) -> str:
    """One atomic nftables transaction.

    Nothing is forwarded between front and management, which alone answers for its address. Front ports belong to Open vSwitch: the
    kernel sees their frames, too, and must not make anything of them. *ssh_rules* hold at every address of the switch.
    """
    rules = ['iifname "Ethernet*" drop', *(f'iifname "{name}" drop\n oifname "{name}" drop' for name in managements)]
    own_only = (f'iifname "Vlan*" {"ip6" if ":" in address else "ip"} daddr {address} drop' for address in own)
    guards = ['iifname "Ethernet*" drop', *own_only, *map(_ssh_guard, ssh_rules)]
    forward, local = "\n ".join(rules), "\n ".join(guards)
    return (
        f"table inet {_TABLE}\ndelete table inet {_TABLE}\ntable inet {_TABLE} {{\n"
        f"chain forward {{ type filter hook forward priority filter; policy accept;\n {forward}\n}}\n"
        f"chain input {{ type filter hook input priority filter; policy accept;\n {local}\n}}\n}}\n"
    )


def _ssh_guard(rule: SshRule) -> str:
    family, verdict = "ip6" if rule.ipv6 else "ip", "accept" if rule.permit else "drop"
    who = f"meta nfproto {'ipv6' if rule.ipv6 else 'ipv4'}" if rule.source is None else f"{family} saddr {rule.source}"
    return f'{who} tcp dport {_SSH} {verdict} comment "ssh {family} {rule.source or "any"} {verdict}"'


def _number(name: str) -> int:
    return int(re.sub(r"\D", "", name) or 0)


def _numbers(value: object) -> tuple[int, ...]:
    """An OVSDB set of integers: one integer, or ``["set", […]]``."""
    if isinstance(value, int):
        return (value,)
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        return tuple(sorted(int(number) for number in value[1]))
    return ()
