"""The concern `kube_node`: what the kubelet of a GPU server is told beyond its cluster's own configuration.

The cores that it reserves are those that `cpu_isolation` keeps from workloads, so kernel and kubelet agree by construction.
"""

from __future__ import annotations

from pinion.plan import kubelet, numa
from pinion.plan.concerns.cpu_isolation import divided
from pinion.plan.context import HostContext
from pinion.plan.kubelet import CONFIG_FOLDER, UNIT
from pinion.plan.model import Concern, HostClaim, HostFile
from pinion.plan.texts import kept_by
from pinion.site.node_concerns import KubeNode

NAME = "kube_node"
CONFIG_FILE = f"{CONFIG_FOLDER}/60-pinion.conf"
#: Read by the unit of the kubelet's package (10-kubeadm.conf).
DEFAULTS_FILE = "/etc/default/kubelet"
#: The kubelet refuses to start when its policy or its reserved cores are others than those in here.
CHECKPOINT = f"{kubelet.DATA}/cpu_manager_state"


def kube_node(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers whose cores are divided."""
    settings, division = host.settings.kube_node, divided(host)
    if settings is None or division is None:
        return None
    anew = (
        f"if systemctl -q is-active {UNIT}; then systemctl stop {UNIT} && rm -f {CHECKPOINT} && systemctl start {UNIT}; "
        f"else rm -f {CHECKPOINT}; fi"
    )
    return Concern(
        name=NAME,
        files=(
            HostFile(path=CONFIG_FILE, content=configuration(settings, division), run=(anew,)),
            HostFile(
                path=DEFAULTS_FILE,
                content=f"{kept_by(NAME)}\nKUBELET_EXTRA_ARGS=--config-dir={CONFIG_FOLDER}\n",
                restart=(UNIT,),
            ),
        ),
        claims=()
        if host.lab
        else (
            HostClaim(
                name="policy",
                claim="the kubelet's CPU manager works by the policy",
                command=f'sed -n \'s/.*"policyName":"\\([a-z]*\\)".*/\\1/p\' {CHECKPOINT}',
                expected="static",
            ),
        ),
    )


def configuration(settings: KubeNode, division: numa.Division) -> str:
    """A KubeletConfiguration with what this concern decides and nothing else."""
    return kubelet.configuration(
        {
            "reservedSystemCPUs": numa.text(division.housekeeping),
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
            "topologyManagerPolicy": settings.topology_policy,
            "topologyManagerScope": settings.topology_scope,
        }
    )
