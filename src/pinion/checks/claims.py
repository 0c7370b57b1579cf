"""Every claim that a plan makes, as Checks. Pure: the same plan gives the same checks in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pinion.checks.flows import flow_checks
from pinion.checks.gitops import of_objects, owners_claims
from pinion.checks.gitops import remedy as of_owner
from pinion.checks.hosts import host_checks
from pinion.checks.model import (
    ANSWERED,
    AS_PLANNED,
    AS_THE_CHART_SAYS,
    Check,
    ClusterProbe,
    HttpProbe,
    InferenceProbe,
    PingProbe,
    PodsProbe,
    RecordProbe,
    ReleaseProbe,
    SwitchProbe,
    Topic,
)
from pinion.checks.switch_logins import switch_login_checks
from pinion.drivers.switch.state import wanted
from pinion.plan.addressing import host
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE, namespace_objects, places
from pinion.plan.model import (
    ClusterPlan,
    DeviceKind,
    DevicePlan,
    Plan,
    ReleasePlan,
    SwitchPlan,
    SwitchPort,
    VlanPlan,
)
from pinion.plan.pool import model_settings, pool_releases
from pinion.site.catalog import Evidence
from pinion.site.model import ClusterOwner

#: NetBox is the real one wherever it runs: what it answers is measured, not emulated.
_RECORD_EVIDENCE = Evidence.MEASURED

_LOOK = "look at its pods: kubectl -n {namespace} get pods"
_UP_AGAIN = "run `pinion up {site}` (or `pulumi up`) to repair it"


def checks(plan: Plan) -> tuple[Check, ...]:
    """All checks of *plan*, by topic."""
    return (
        *_records(plan),
        *(check for switch in plan.switches for check in _switch(plan, switch)),
        *_reachability(plan),
        *flow_checks(plan),
        *switch_login_checks(plan),
        *host_checks(plan),
        *_cluster(plan),
        *_services(plan),
    )


def _records(plan: Plan) -> list[Check]:
    names = [
        ("site", plan.site, "site"),
        *(("vlan", vlan.name, vlan.origin) for vlan in plan.vlans),
        *(("device", device.name, device.origin) for device in plan.devices),
    ]
    return [
        Check(
            id=f"records.{kind}.{name}",
            topic=Topic.RECORDS,
            subject=name,
            claim=f"NetBox holds {kind} {name}",
            expected=AS_PLANNED,
            probe=RecordProbe(object=kind, name=name),  # type: ignore[arg-type]
            remedy=_UP_AGAIN.format(site=plan.site),
            origin=origin,
            best=_RECORD_EVIDENCE,
        )
        for kind, name, origin in names
    ]


def port_state(port: SwitchPort) -> str:
    """One port as a phrase that a check can expect: ``access 101``, ``trunk 100,101`` or ``shut``."""
    if not port.enabled:
        return "shut"
    if port.access_vlan is not None:
        return f"access {port.access_vlan}"
    return f"trunk {','.join(map(str, port.trunk_vlans))}"


def _switch(plan: Plan, switch: SwitchPlan) -> list[Check]:
    remedy = _UP_AGAIN.format(site=plan.site)

    def check(element: str, key: str, claim: str, expected: str, origin: str) -> Check:
        return Check(
            id=f"fabric.{switch.name}.{element}.{key}",
            topic=Topic.FABRIC,
            subject=switch.name,
            claim=claim,
            expected=expected,
            probe=SwitchProbe(switch=switch.name, element=element, key=key),  # type: ignore[arg-type]
            remedy=remedy,
            origin=origin,
            best=switch.evidence,
        )

    return [
        *(
            check(
                "vlan",
                str(vlan.vid),
                f"VLAN {vlan.vid} is named",
                vlan.name if switch.vlan_names else "unnamed",
                f"networks.{vlan.name}",
            )
            for vlan in switch.vlans
        ),
        *(check("port", port.name, f"port {port.name} is", port_state(port), port.origin) for port in switch.ports),
        *(
            check("svi", str(svi.vid), f"gateway of VLAN {svi.vid} is", svi.shown, switch.origin)
            for svi in wanted(switch).svis
        ),
        check("rest", "configuration", f"all else that is ours on {switch.name} is", AS_PLANNED, switch.origin),
    ]


def _reachability(plan: Plan) -> list[Check]:
    """Who must reach whom: every host its gateway and one host of every other routed VLAN; nobody an unrouted VLAN from outside."""
    gateways = {vlan.name: own for vlan in plan.vlans if vlan.fabric and (own := _gateways(vlan))}
    isolated = {vlan.name for vlan in plan.vlans if vlan.fabric and not any(prefix.gateway for prefix in vlan.prefixes)}
    hosts = [device for device in plan.devices if device.kind is not DeviceKind.SWITCH and not device.leaving]
    platforms = {platform.slug: platform.evidence for platform in plan.platforms}
    found: list[Check] = []

    def ping(source: DevicePlan, target: str, label: str, expected: str, origin: str) -> Check:
        verb = "reaches" if expected == "reachable" else "is kept from"
        return Check(
            id=f"reachability.{source.name}.{label.replace(' ', '.')}",
            topic=Topic.REACHABILITY,
            subject=source.name,
            claim=f"{source.name} {verb} {label} ({target})",
            expected=expected,
            probe=PingProbe(source=source.name, target=target),
            remedy="compare the switch port and the cable of both ends with the plan: `pinion plan` prints them",
            origin=origin,
            best=platforms[source.platform],
            silent=expected == "unreachable",
        )

    for source in hosts:
        vlans = {interface.untagged_vlan for interface in source.interfaces}
        found += [
            ping(source, gateway, label, "reachable", source.origin)
            for name in sorted(vlan for vlan in vlans if vlan in gateways)
            for label, gateway in gateways[name].items()
        ]
        if source.kind is not DeviceKind.PI:
            continue
        for target in hosts:
            for interface in target.interfaces:
                vlan = interface.untagged_vlan
                if target is source or vlan in vlans or not interface.addresses:
                    continue
                if vlan in gateways:
                    label, expected = f"{target.name} {interface.name}", "reachable"
                elif vlan in isolated:
                    label, expected = f"{target.name} {interface.name} in {vlan}", "unreachable"
                else:
                    continue
                found.append(ping(source, host(interface.addresses[0]), label, expected, source.origin))
    return found


def _gateways(vlan: VlanPlan) -> dict[str, str]:
    """The gateways of a VLAN by what a claim calls them: one a prefix, the first without saying which."""
    routed = {prefix.prefix: prefix.gateway for prefix in vlan.prefixes if prefix.gateway}
    names = [f"gateway of {vlan.name}{f' in {prefix}' if number else ''}" for number, prefix in enumerate(routed)]
    return dict(zip(names, routed.values(), strict=True))


def _cluster(plan: Plan) -> list[Check]:
    if plan.cluster is None:
        return []
    platforms = {platform.slug: platform.evidence for platform in plan.platforms}
    evidence = {device.name: platforms[device.platform] for device in plan.devices}
    remedy = _UP_AGAIN.format(site=plan.site)
    found: list[Check] = []
    for node in plan.cluster.nodes:
        facts = [
            ("ready", "is Ready", "True"),
            *((f"label {key}", f"has label {key}", value) for key, value in node.labels.items()),
            *(
                (f"taint {taint.key}", f"has taint {taint.key}", f"{taint.value}:{taint.effect}")
                for taint in node.taints
            ),
        ]
        found += [
            Check(
                id=f"cluster.node.{node.name}.{fact.replace(' ', '.')}",
                topic=Topic.CLUSTER,
                subject=node.name,
                claim=f"node {node.name} {claim}",
                expected=expected,
                probe=ClusterProbe(object="Node", name=node.name, fact=fact),
                remedy=remedy if fact != "ready" else f"look at the kubelet of {node.name}: journalctl -u kubelet",
                origin=node.origin,
                best=evidence[node.name],
            )
            for fact, claim, expected in facts
        ]
    control_plane = evidence[plan.cluster.control_plane]
    if plan.cluster.members:
        found.append(
            Check(
                id=f"cluster.configmap.{MEMBERS_NAMESPACE}.{MEMBERS}",
                topic=Topic.CLUSTER,
                subject=plan.cluster.control_plane,
                claim=f"the list of those who may be nodes, ConfigMap {MEMBERS}, exists",
                expected="True",
                probe=ClusterProbe(object="ConfigMap", namespace=MEMBERS_NAMESPACE, name=MEMBERS, fact="exists"),
                remedy=remedy,
                origin="kubernetes",
                best=control_plane,
            )
        )
    for namespace in plan.cluster.namespaces:
        of_namespace = (
            remedy if plan.cluster.owner is ClusterOwner.PULUMI else of_objects(plan.site, plan.cluster.owner)
        )
        found += [
            Check(
                id=f"cluster.{item.kind.lower()}.{namespace.name}.{item.name}",
                topic=Topic.CLUSTER,
                subject=namespace.name,
                claim=f"{item.kind} {item.name} exists",
                expected="True",
                probe=ClusterProbe(object=item.kind, namespace=item.namespace, name=item.name, fact="exists"),
                remedy=of_namespace,
                origin="services",
                best=control_plane,
            )
            for item in namespace_objects(namespace)
        ]
    return [*found, *owners_claims(plan.site, plan.cluster, control_plane)]


def _services(plan: Plan) -> list[Check]:
    if plan.cluster is None:
        return []
    platforms = {platform.slug: platform.evidence for platform in plan.platforms}
    best = platforms[plan.device(plan.cluster.control_plane).platform]
    owner = plan.cluster.owner
    found = [check for release in plan.cluster.releases for check in _release(plan, owner, release, best)]
    found += [check for release in pool_releases(plan.cluster) for check in _pool(plan.cluster, release, best)]
    if owner is ClusterOwner.ARGOCD:
        # it keeps no records of helm; what it says of each release is asked instead
        return [check for check in found if not isinstance(check.probe, ReleaseProbe)]
    return found


def _release(plan: Plan, owner: ClusterOwner, release: ReleasePlan, best: Evidence) -> list[Check]:
    return [
        Check(
            id=f"services.{release.name}.objects",
            topic=Topic.SERVICES,
            subject=release.name,
            claim=f"the objects of release {release.name} are",
            expected=AS_THE_CHART_SAYS,
            probe=ReleaseProbe(namespace=release.namespace, name=release.name),
            remedy=f"run `pinion up {plan.site}` (or `pulumi up --refresh`) to have them so again"
            if owner is ClusterOwner.PULUMI
            else of_owner(owner, "HelmRelease", release.name),
            origin=release.origin,
            best=best,
        ),
        Check(
            id=f"services.{release.name}.http",
            topic=Topic.SERVICES,
            subject=release.name,
            claim=f"release {release.name} answers {release.probe_path} with status",
            expected="200",
            probe=HttpProbe(
                namespace=release.namespace, service=release.name, port=release.port, path=release.probe_path
            ),
            remedy=_LOOK.format(namespace=release.namespace),
            origin=release.origin,
            best=best,
        ),
    ]


def _pool(cluster: ClusterPlan, release: ReleasePlan, best: Evidence) -> Iterator[Check]:
    """What a model of the pool promises: its pods, which file it is, that it answers, and how soon."""
    ((model, facts),) = model_settings(release).items()

    def check(key: str, claim: str, expected: str, probe: PodsProbe | InferenceProbe, origin: str = "") -> Check:
        return Check(
            id=f"services.{release.name}.{key}",
            topic=Topic.SERVICES,
            subject=release.name,
            claim=claim,
            expected=expected,
            probe=probe,
            remedy=_LOOK.format(namespace=release.namespace),
            origin=origin or release.origin,
            best=best,
        )

    def asks(what: Literal["digest", "answer", "latency"], within: float | None = None) -> InferenceProbe:
        return InferenceProbe(
            namespace=release.namespace, service=release.name, port=release.port, model=model, asks=what, within=within
        )

    nodes = PodsProbe(namespace=release.namespace, release=release.name, nodes=tuple(sorted(places(cluster, release))))
    claim = f"pods of {release.name} that are ready, on {', '.join(nodes.nodes)}, are this many:"
    yield check("pods", claim, str(release.values["replicas"]), nodes)
    yield check("digest", f"the model {model} that is loaded has the SHA-256", str(facts["sha256"]), asks("digest"))
    yield check("answer", f"a text that {model} is to go on with is", ANSWERED, asks("answer"))
    if (within := release.answers_within) is not None:
        claim = f"the 95th percentile of the latency of {model}, under a short load, is"
        yield check("latency", claim, f"at most {within * 1000:g} ms", asks("latency", within), "objectives.site.p95")
