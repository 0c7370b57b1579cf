"""The concern `kube_node`: the kubelet of a GPU server, which shares cores and NUMA nodes out to pods.

The cores that it reserves are those that `cpu_isolation` keeps from workloads, so kernel and kubelet agree by construction. With `join`
the server joins the site's cluster (`pinion.plan.joining`); without, its kubelet is the cluster's own tool's, and is only told more.
"""

from __future__ import annotations

from pinion.plan import kubelet, numa
from pinion.plan.concerns.cpu_isolation import divided
from pinion.plan.context import HostContext
from pinion.plan.joining import joined
from pinion.plan.kubelet import CONFIG_FOLDER, UNIT
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile
from pinion.plan.texts import kept_by
from pinion.site.node_concerns import Joining, KubeNode

NAME = "kube_node"
CONFIG_FILE = f"{CONFIG_FOLDER}/60-pinion.conf"
#: Read by the unit of the kubelet's package (10-kubeadm.conf).
DEFAULTS_FILE = "/etc/default/kubelet"
#: The kubelet refuses to start when its policy or its reserved cores are others than those in here.
CHECKPOINT = f"{kubelet.DATA}/cpu_manager_state"


def joins(host: HostContext) -> Joining | None:
    """How *host* joins by this concern: GPU servers, where the site says so."""
    settings = host.settings.kube_node
    if settings is None or host.site.kubernetes is None or host.kind is not DeviceKind.GPU_SERVER:
        return None
    return settings.join


def kube_node(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers that join, or whose cores are divided."""
    settings, division, joining = host.settings.kube_node, divided(host), joins(host)
    if settings is None or (division is None and joining is None):
        return None
    told = _told(configuration(settings, division))
    claims = (_policy(division),)
    if joining is not None:
        found = joined(host, NAME, joining, {})
        return found.model_copy(update={"files": (told, *found.files), "claims": (*found.claims, *claims)})
    return Concern(
        name=NAME,
        files=(
            told,
            HostFile(
                path=DEFAULTS_FILE,
                content=f"{kept_by(NAME)}\nKUBELET_EXTRA_ARGS=--config-dir={CONFIG_FOLDER}\n",
                restart=(UNIT,),
            ),
        ),
        # the kubelet of a lab machine is the lab's own
        claims=() if host.lab else claims,
    )


def configuration(settings: KubeNode, division: numa.Division | None) -> str:
    """A KubeletConfiguration with what this concern decides and nothing else. Without a *division* pods share all cores."""
    policy: dict[str, object] = {"cpuManagerPolicy": "none"}
    if division is not None:
        policy = {
            "reservedSystemCPUs": numa.text(division.housekeeping),
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        }
    return kubelet.configuration(
        {
            **policy,
            "topologyManagerPolicy": settings.topology_policy,
            "topologyManagerScope": settings.topology_scope,
        }
    )


def _told(content: str) -> HostFile:
    """The drop-in, and the kubelet started anew without its checkpoint: also by the next run, when this one is cut off in the middle."""
    anew = (
        f"systemctl stop {UNIT} 2>/dev/null; rm -f {CHECKPOINT}; "
        f"if systemctl -q is-enabled {UNIT} 2>/dev/null; then systemctl start {UNIT}; fi"
    )
    return HostFile(path=CONFIG_FILE, content=content, run=(anew,))


def _policy(division: numa.Division | None) -> HostClaim:
    return HostClaim(
        name="policy",
        claim="the kubelet's CPU manager works by the policy",
        command=f'sed -n \'s/.*"policyName":"\\([a-z]*\\)".*/\\1/p\' {CHECKPOINT}',
        expected="none" if division is None else "static",
    )
