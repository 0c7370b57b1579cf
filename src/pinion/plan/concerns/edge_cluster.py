"""The concern `edge_cluster`: a Raspberry Pi joins the site's cluster, with a kubelet, and a certificate that it asks for itself.

The node's key is made on it and never leaves. It is let in by a token that the operator's machine makes for this one host, which counts
for minutes and lies in memory; from then on the kubelet renews its own certificate. Labels and taints are those of the plan's node.
"""

from __future__ import annotations

import json

from pinion.plan import kubelet
from pinion.plan.cluster import NODE_LABELS, NODE_TAINTS, server_url
from pinion.plan.context import HostContext
from pinion.plan.edge_pod import PODS
from pinion.plan.kubelet import CONFIG_FOLDER, CONTAINERD_CONFIG, CONTAINERD_UNIT, UNIT
from pinion.plan.model import (
    Concern,
    DeviceKind,
    HostClaim,
    HostDirectory,
    HostFile,
    HostMaterial,
    HostModule,
    HostSysctl,
    HostUnit,
)
from pinion.plan.programs import AS_PLANNED, program_file, program_path
from pinion.plan.texts import kept_by, sysctl_lines, unit_text
from pinion.site.node_concerns import EVICTED_BELOW, EdgeCluster

NAME = "edge_cluster"
PROGRAM = "kube_join"
JOIN_FILE = "/etc/pinion/kube-join.json"
CONFIG_FILE = "/etc/pinion/kubelet.json"
CA_FILE = "/etc/pinion/cluster-ca.pem"
SYSCTL_FILE = "/etc/sysctl.d/70-pinion-edge-cluster.conf"
#: In memory: a token does not outlive a boot.
BOOTSTRAP_FILE = "/run/pinion-kubelet/bootstrap.kubeconfig"
KUBECONFIG = f"{kubelet.DATA}/kubeconfig"
#: Where the kubelet keeps its key and the certificate that it asked for, and the link to what is in use.
PKI = f"{kubelet.DATA}/pki"
CERTIFICATE = f"{PKI}/kubelet-client-current.pem"
#: Where Kubernetes' Debian package `kubelet` puts it, and where one that is fetched lies.
PACKAGED, FETCHED = "/usr/bin/kubelet", "/var/lib/pinion-kubelet/kubelet"
#: containerd's images and containers.
_IMAGES = "/var/lib/containerd"
#: The kubelet's API (Kubernetes: ports and protocols).
_PORT = 10250
#: Seconds from the kubelet's start to its certificate at most: a request, an approval and a signature, each by a loop of its own.
_JOIN = 90
#: Seconds that a claim gives a kubelet that has just been started.
_PATIENCE = 90


def joins(host: HostContext) -> EdgeCluster | None:
    """The settings of the concern where *host* gets it: Pis that are nodes of the site's cluster."""
    cluster = host.site.kubernetes
    return host.settings.edge_cluster if cluster and cluster.pis_join and host.kind is DeviceKind.PI else None


def edge_cluster(host: HostContext) -> Concern | None:
    """The concern for *host*."""
    settings = joins(host)
    if settings is None:
        return None
    server = server_url(host.site, host.devices)
    node = f"system:node:{host.name}"
    return Concern(
        name=NAME,
        # openssl(1) looks at certificates; a lab machine's containerd belongs to the lab's cluster.
        packages=("openssl",) if host.lab else ("conntrack", "containerd", "openssl", "runc"),
        directories=(HostDirectory(path=CONFIG_FOLDER),),
        files=(
            program_file(PROGRAM),
            *(() if host.lab else (_containerd_file(settings),)),
            HostFile(
                path=CA_FILE,
                content="@cluster-authority@",
                materials=(
                    HostMaterial(
                        placeholder="@cluster-authority@",
                        kind="cluster-authority",
                        site=host.site.site,
                        authority=server,
                    ),
                ),
                restart=(UNIT,),
            ),
            HostFile(path=JOIN_FILE, content=join(host.name, settings, server), restart=(UNIT,)),
            HostFile(path=CONFIG_FILE, content=kubelet.configuration(configuration(settings)), restart=(UNIT,)),
            HostFile(path=SYSCTL_FILE, content=sysctl_lines(NAME, _SYSCTLS)),
            HostFile(
                path=BOOTSTRAP_FILE,
                mode="0600",
                content=bootstrap(server),
                secret=True,
                materials=(
                    HostMaterial(
                        placeholder="@cluster-token@",
                        kind="cluster-token",
                        site=host.site.site,
                        authority=server,
                        names=(host.name,),
                    ),
                ),
                unless=f"{program_path(PROGRAM)} good",
                restart=(UNIT,),
            ),
            HostFile(
                path=f"/etc/systemd/system/{UNIT}",
                content=_unit(host, settings),
                restart=(UNIT,),
                run=(f"if ! test -e {JOIN_FILE}; then {_gone()}; fi",),
            ),
        ),
        modules=()
        if host.lab
        else (
            HostModule(name="overlay", source="Kubernetes documentation, Container Runtimes: images are layers of it"),
        ),
        sysctls=_SYSCTLS,
        units=(
            *(() if host.lab else (HostUnit(name=CONTAINERD_UNIT, enabled=True, active=True),)),
            HostUnit(name=UNIT, enabled=True, active=True),
        ),
        claims=_claims(node, host),
    )


_SYSCTLS = (
    HostSysctl(
        key="net.ipv4.ip_forward",
        value="1",
        source="Kubernetes documentation, Container Runtimes: packets of pods are passed on",
        namespaced=True,
        live=True,
    ),
)


def configuration(settings: EdgeCluster) -> dict[str, object]:
    """The KubeletConfiguration, less kind and version."""
    taints = NODE_TAINTS[DeviceKind.PI]
    return {
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": CA_FILE},
        },
        "authorization": {"mode": "Webhook"},
        "readOnlyPort": 0,
        "rotateCertificates": True,
        "tlsMinVersion": "VersionTLS13",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        # systemd owns the control groups, and so does containerd's runc
        "cgroupDriver": "systemd",
        "systemReserved": {"memory": f"{settings.system_memory_mib}Mi"},
        # the edge runtime is one: it serves also while nobody reaches the API server
        "staticPodPath": PODS,
        "evictionHard": {
            "memory.available": f"{EVICTED_BELOW}%",
            "nodefs.available": "10%",
            "nodefs.inodesFree": "5%",
            "imagefs.available": "15%",
        },
        # an image that is deleted is written to the card again when it is next needed
        "imageMinimumGCAge": "24h",
        "imageGCHighThresholdPercent": 80,
        "imageGCLowThresholdPercent": 70,
        "containerLogMaxSize": "5Mi",
        "containerLogMaxFiles": 2,
        "serializeImagePulls": True,
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "10s",
        "registerWithTaints": [taint.model_dump(mode="json") for taint in taints],
    }


def kubelet_program(settings: EdgeCluster) -> str:
    """Where the kubelet lies."""
    return FETCHED if settings.source is not None else settings.program or PACKAGED


def join(name: str, settings: EdgeCluster, server: str) -> str:
    """What the program `kube_join` is told."""
    wanted = {
        "server": server,
        "node": name,
        "authority": CA_FILE,
        "certificate": CERTIFICATE,
        "bootstrap": BOOTSTRAP_FILE,
        "labels": NODE_LABELS[DeviceKind.PI],
        "taints": [taint.model_dump(mode="json") for taint in NODE_TAINTS[DeviceKind.PI]],
        "program": kubelet_program(settings),
        "source": None if settings.source is None else settings.source.model_dump(mode="json"),
    }
    return json.dumps(wanted, indent=1) + "\n"


def bootstrap(server: str) -> str:
    """The kubeconfig that the kubelet asks for its first certificate with; the token is put in by the operator's machine."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "site", "cluster": {"server": server, "certificate-authority": CA_FILE}}],
        "users": [{"name": "bootstrap", "user": {"token": "@cluster-token@"}}],
        "contexts": [{"name": "site", "context": {"cluster": "site", "user": "bootstrap"}}],
        "current-context": "site",
    }
    return json.dumps(document, indent=1) + "\n"


def _containerd_file(settings: EdgeCluster) -> HostFile:
    lines = [
        kept_by(NAME),
        "version = 2",
        "",
        f"[{kubelet.CRI}]",
        f'sandbox_image = "{settings.pause}"',
        "",
        *kubelet.network_plugins(),
        "",
        *kubelet.runc(),
        "",
    ]
    return HostFile(
        path=CONTAINERD_CONFIG,
        content="\n".join(lines),
        restart=(CONTAINERD_UNIT,),
        validate_command="containerd --config %s config dump >/dev/null",
    )


def _unit(host: HostContext, settings: EdgeCluster) -> str:
    address = (host.device.primary_address or "").partition("/")[0]
    labels = ",".join(f"{key}={value}" for key, value in NODE_LABELS[DeviceKind.PI].items())
    words = [
        kubelet_program(settings),
        f"--config={CONFIG_FILE}",
        f"--config-dir={CONFIG_FOLDER}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_FILE}",
        f"--kubeconfig={KUBECONFIG}",
        f"--cert-dir={PKI}",
        f"--hostname-override={host.name}",
        f"--node-ip={address}",
        f"--node-labels={labels}",
    ]
    join_program = program_path(PROGRAM)
    return unit_text(
        NAME,
        Unit=[
            "Description=Kubernetes node agent",
            f"Wants=network-online.target {CONTAINERD_UNIT}",
            f"After=network-online.target {CONTAINERD_UNIT}",
            "StartLimitIntervalSec=0",
        ],
        Service=[
            *(
                []
                if settings.source is None
                else [
                    "# A program that is not the stated one is fetched, and never run.",
                    f"ExecStartPre={join_program} program",
                ]
            ),
            f"ExecStartPre=/usr/bin/mkdir -p -m 0700 {PODS}",
            f"ExecStart={' '.join(words)}",
            "# Started means that it has a certificate of its own; the token is then removed.",
            f"ExecStartPost={join_program} joined --wait {_JOIN}",
            "TimeoutStartSec=190s",
            "Restart=always",
            "RestartSec=10s",
            "# Pods outlive the kubelet, as their containers are containerd's.",
            "KillMode=process",
            "OOMScoreAdjust=-999",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )


def _gone() -> str:
    """For a host without the concern: its pods end, and its key, its volumes and a program that was fetched go. May be cut anywhere."""
    steps = (
        "pkill -KILL -f '[c]ontainerd-shim-runc-v2 -namespace k8s.io'",
        "for group in $(grep -l kubepods /proc/[0-9]*/cgroup 2>/dev/null)",
        'do process=${group%/cgroup}; kill -KILL "${process#/proc/}" 2>/dev/null',
        "done",
        f"awk '$2 ~ \"^{kubelet.DATA}/.\" {{print $2}}' /proc/mounts | sort -r | xargs -r umount -l",
        # the folder itself may be a mount
        f"if test -d {kubelet.DATA}; then find {kubelet.DATA} -xdev -mindepth 1 -delete || exit 1; fi",
        # images that nobody else's containerd has; ours has been stopped by now
        f"systemctl -q is-active {CONTAINERD_UNIT} || rm -rf {_IMAGES}",
        f"rm -rf {FETCHED.rpartition('/')[0]} {BOOTSTRAP_FILE.rpartition('/')[0]} {PODS}",
    )
    return "; ".join(steps)


def _claims(node: str, host: HostContext) -> tuple[HostClaim, ...]:
    address = (host.device.primary_address or "").partition("/")[0]
    shown = f"[{address}]" if ":" in address else address
    return (
        HostClaim(
            name="node",
            claim="the cluster says of this node that it is Ready, with the planned labels and taints",
            command=f"{program_path(PROGRAM)} --check --wait {_PATIENCE} 2>&1 && echo {AS_PLANNED}",
            expected=AS_PLANNED,
        ),
        HostClaim(
            name="certificate",
            claim="the cluster's authority has signed the kubelet's certificate, which is made out to",
            command=f"openssl verify -purpose sslclient -CAfile {CA_FILE} {CERTIFICATE} >/dev/null && "
            f"openssl x509 -noout -subject -nameopt multiline -in {CERTIFICATE} | sed -n 's/ *commonName *= //p'",
            expected=node,
        ),
        HostClaim(
            name="key",
            claim="the kubelet's private key is",
            command=f"stat -L -c '%U:%G %a' {CERTIFICATE}",
            expected="root:root 600",
        ),
        HostClaim(
            name="token",
            claim="tokens to join with that are left on the host number",
            command=f"ls {BOOTSTRAP_FILE} 2>/dev/null | wc -l",
            expected="0",
        ),
        HostClaim(
            name="strangers",
            claim="the kubelet answers whoever shows no certificate with status",
            command=f"/usr/bin/python3 -I {program_path(PROGRAM)} stranger https://{shown}:{_PORT}/pods",
            expected="401",
        ),
    )
