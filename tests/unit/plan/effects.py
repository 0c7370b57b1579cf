"""All that follows from a plan: what the renderers, the NetBox records, the cluster and the checks make of it."""

from __future__ import annotations

from collections import defaultdict

from pinion.checks.claims import checks
from pinion.drivers.netbox import device_record, site_records, vlan_record
from pinion.drivers.switch.dialects import dialect
from pinion.plan import Plan
from pinion.plan.rollout import waves
from pinion.plan.switch_state import switch_state
from pinion.render.gitops import tree
from pinion.site.model import ClusterOwner


def effects(planned: Plan) -> tuple[object, ...]:
    """All that the plan renders or proves: what `infra/`, the host runs, `pinion verify` and `pinion identity` take from it."""
    cluster = planned.cluster
    return (
        [(switch.model_dump(), dialect(switch).write(switch_state(switch))) for switch in planned.switches],
        [host.model_dump() for host in planned.hosts],
        site_records(planned),
        [vlan_record(planned, vlan.name) for vlan in planned.vlans],
        [device_record(planned, device.name) for device in planned.devices],
        (cluster.server, cluster.control_plane, cluster.nodes, cluster.namespaces, cluster.releases)
        if cluster
        else None,
        cluster and cluster.repository and (cluster.owner, owners_tree(planned, cluster.owner)),
        checks(planned),
        waves(planned.hosts, planned.rollout),
        planned.authority,
    )


def owners_tree(planned: Plan, owner: ClusterOwner) -> dict[str, bytes]:
    """The files that Flux or Argo CD makes the cluster from, but for the charts; of Flux where neither owns it yet."""
    charts: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    return dict(tree(planned, ClusterOwner.FLUX if owner is ClusterOwner.PULUMI else owner, charts).files)
