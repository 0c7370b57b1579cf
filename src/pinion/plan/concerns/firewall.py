"""The concern `firewall`: nftables from the plan's flows. What no flow lets in is dropped; what a host itself opens is not held back.

The rules are one table of their own, replaced in one transaction: a packet sees the old rules or the new ones, and the tables of others
(the pod network's, kube-proxy's) are never touched. They are checked by nft before they are placed, and the host takes them back by itself
unless the controller can still log in.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pinion.plan.context import HostContext
from pinion.plan.flows import SSH_FLOW, family
from pinion.plan.model import Concern, DeviceKind, FlowPlan, HostClaim, HostFile, HostUnit
from pinion.plan.texts import kept_by, unit_text
from pinion.site.concerns import COMMENT_BYTES

NAME = "firewall"
RULES_FILE = "/etc/pinion/firewall.nft"
#: Loaded when the rules cannot be: nobody gets in but those who can put it right.
CLOSED_FILE = "/etc/pinion/firewall-closed.nft"
TABLE = "inet pinion"
UNIT = "pinion-firewall.service"

#: RFC 4890, 4.4: what an IPv6 host must let in; without the first line a neighbour cannot even be found.
_ICMPV6 = (
    "nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert, mld-listener-query",
    "destination-unreachable, packet-too-big, time-exceeded, parameter-problem",
)
_REMOVE = f"add table {TABLE}; delete table {TABLE}"


def firewall(host: HostContext) -> Concern | None:
    """The concern for *host*; None when the site does not state it."""
    return _stated(host.flows, pod_prefix(host)) if host.settings.firewall is not None else None


@lru_cache(maxsize=256)
def _stated(flows: tuple[FlowPlan, ...], pods: str | None) -> Concern:
    """The same for every host that the same flows end at."""
    return Concern(
        name=NAME,
        packages=("nftables",),
        files=(
            HostFile(
                path=RULES_FILE,
                mode="0600",
                content=ruleset(flows, pods),
                notify=(UNIT,),
                validate_command="/usr/sbin/nft --check --file %s",
                confirm=True,
            ),
            # With the rules' own confirmation: what locks out in the one does in the other, and both go back together.
            HostFile(
                path=CLOSED_FILE,
                mode="0600",
                content=ruleset([flow for flow in flows if flow.name == SSH_FLOW], None),
                validate_command="/usr/sbin/nft --check --file %s",
                confirm=True,
            ),
            HostFile(path=f"/etc/systemd/system/{UNIT}", content=_unit()),
        ),
        units=(HostUnit(name=UNIT, enabled=True, active=True),),
        claims=_claims(flows),
    )


def pod_prefix(host: HostContext) -> str | None:
    """The prefix whose packets the host forwards, because it is a node of the cluster; None for all other hosts."""
    cluster = host.site.kubernetes
    if cluster is None or host.kind is DeviceKind.MANAGEMENT_HOST:
        return None
    return cluster.pod_prefix if host.kind is DeviceKind.GPU_SERVER or cluster.pis_join else None


def ruleset(flows: Iterable[FlowPlan], pods: str | None) -> str:
    """The whole table as text for ``nft -f``. *pods* is the prefix whose packets the host forwards."""
    return "\n".join(
        [
            kept_by(NAME),
            f"add table {TABLE}",
            f"delete table {TABLE}",
            f"table {TABLE} {{",
            "\tchain input {",
            "\t\ttype filter hook input priority filter; policy drop;",
            "\t\tct state established,related accept",
            "\t\tct state invalid counter drop",
            "\t\tiif lo accept",
            "\t\t# Reachability is asked by ping; the others say what becomes of packets of ours.",
            "\t\ticmp type { echo-request, destination-unreachable, time-exceeded, parameter-problem } accept",
            "\t\ticmpv6 type echo-request accept",
            *(f"\t\ticmpv6 type {{ {types} }} accept" for types in _ICMPV6),
            *(f"\t\t{rule}" for flow in flows for rule in _rules(flow)),
            "\t\tmeta pkttype { broadcast, multicast } drop",
            "\t\tcounter",
            "\t}",
            "",
            "\tchain forward {",
            "\t\ttype filter hook forward priority filter; policy drop;",
            *(f"\t\t{rule}" for rule in _forwarded(pods)),
            "\t\tcounter",
            "\t}",
            "}",
            "",
        ]
    )


def _rules(flow: FlowPlan) -> list[str]:
    """One rule an address family."""
    ports = ", ".join(map(str, flow.ports))
    comment = _comment(f"{flow.name}: {flow.why}")
    rules = []
    for version, keyword in ((4, "ip"), (6, "ip6")):
        sources = [source for source in flow.sources if family(source) == version]
        if sources:
            rules.append(
                f'{keyword} saddr {{ {", ".join(sources)} }} {flow.protocol} dport {{ {ports} }} accept comment "{comment}"'
            )
    return rules


def _comment(text: str) -> str:
    """*text* as nft takes it for a comment: one line without double quotes, and no longer than `COMMENT_BYTES`."""
    line = " ".join(text.split()).replace('"', "'")
    return line.encode()[:COMMENT_BYTES].decode(errors="ignore")


def _forwarded(pods: str | None) -> list[str]:
    """What a node passes on: packets of pods, which NetworkPolicies then judge."""
    if pods is None:
        return []
    keyword = "ip" if family(pods) == 4 else "ip6"
    return ["ct state established,related accept", f"{keyword} saddr {pods} accept", f"{keyword} daddr {pods} accept"]


def _unit() -> str:
    """Loads the rules, or else the closed ones, before there is a network.

    A reload without the file takes the rules away: so an undo of the first ones works.
    """
    remove = f'exec /usr/sbin/nft "{_REMOVE}"'
    load = f"/usr/sbin/nft --file {RULES_FILE} && exit 0; /usr/sbin/nft --file {CLOSED_FILE}; exit 1"
    return unit_text(
        NAME,
        Unit=[
            "Description=Firewall from the plan's flows",
            "DefaultDependencies=no",
            "Wants=network-pre.target",
            "Before=network-pre.target",
            "# What nobody had confirmed when the power went is taken back first.",
            "After=pinion-undo.service",
            f"ConditionPathExists={CLOSED_FILE}",
        ],
        Service=[
            "Type=oneshot",
            "RemainAfterExit=yes",
            "# Rules that cannot be loaded leave the host closed but for operators, and the unit failed.",
            f"ExecStart=/bin/sh -c '{load}'",
            f"ExecReload=/bin/sh -c 'if [ -e {RULES_FILE} ]; then exec /usr/sbin/nft --file {RULES_FILE}; fi; {remove}'",
            f'ExecStop=/usr/sbin/nft "{_REMOVE}"',
        ],
        Install=[
            "WantedBy=sysinit.target",
        ],
    )


def _claims(flows: Iterable[FlowPlan]) -> tuple[HostClaim, ...]:
    table = f"nft --stateless list table {TABLE} 2>/dev/null"
    return (
        HostClaim(
            name="default",
            claim="what no rule lets in is",
            command=f"{table} | grep -c 'policy drop'",
            expected="2",
        ),
        HostClaim(
            name="flows",
            claim="the running rules let in the flows",
            command=f"{table} | sed -n 's/.*comment \"\\([a-z0-9-]*\\): .*/\\1/p' | uniq | tr '\\n' ' ' | sed 's/ $//'",
            expected=" ".join(flow.name for flow in flows),
        ),
    )
