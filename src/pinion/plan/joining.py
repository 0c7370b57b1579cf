"""How a host becomes a node of the site's cluster, by whichever concern (`edge_cluster`, `kube_node`): all that it gets for that. Pure.

The node's keys are made on it and never leave. It is let in by a token that the operator's machine makes for this one host, which counts
for minutes and lies in memory; from then on the kubelet renews its own certificate. The certificate that it serves with it asks the cluster
for too, and the operator's machine approves it. Labels and taints are those of the plan's node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pinion.plan import kubelet
from pinion.plan.cluster import NODE_TAINTS, own_labels, server_url
from pinion.plan.context import PI_COMMAND_LINE, HostContext
from pinion.plan.kubelet import CONFIG_FOLDER, CONTAINERD_UNIT, UNIT
from pinion.plan.model import (
    Concern,
    DeviceKind,
    HostApproval,
    HostClaim,
    HostDirectory,
    HostFile,
    HostMaterial,
    HostPlan,
    HostSysctl,
    HostUnit,
)
from pinion.plan.programs import AS_PLANNED, program_file, program_path
from pinion.plan.texts import kept_by, sysctl_lines, unit_text
from pinion.site.node_concerns import Joining

PROGRAM = "kube_join"
JOIN_FILE = "/etc/pinion/kube-join.json"
CONFIG_FILE = "/etc/pinion/kubelet.json"
CA_FILE = "/etc/pinion/cluster-ca.pem"
#: In memory: a token does not outlive a boot.
BOOTSTRAP_FILE = "/run/pinion-kubelet/bootstrap.kubeconfig"
KUBECONFIG = f"{kubelet.DATA}/kubeconfig"
#: Where the kubelet keeps its key and the certificate that it asked for, and the link to what is in use.
PKI = f"{kubelet.DATA}/pki"
CERTIFICATE = f"{PKI}/kubelet-client-current.pem"
#: The same of the certificate that it serves with.
SERVING = f"{PKI}/kubelet-server-current.pem"
#: A drop-in of the package `kubeadm`, which would start the kubelet its own way; ours of that name is read instead of it.
KUBEADM_FILE = f"/etc/systemd/system/{UNIT}.d/10-kubeadm.conf"
#: What a node that leaves has to forget.
SECRETS = (BOOTSTRAP_FILE, PKI, KUBECONFIG)
#: Where Kubernetes' Debian package `kubelet` puts it, and where one that is fetched lies.
PACKAGED, FETCHED = "/usr/bin/kubelet", "/var/lib/pinion-kubelet/kubelet"
#: The most processes and threads of one pod: a pod that makes ever more leaves its node the others. Kubernetes' own is no limit; 4,096 is
#: OpenShift's ("Configuring PID limits"). A GPU server's is four times that, by Pinion: a thread a core for each of eight GPUs is near it.
POD_PIDS = {DeviceKind.PI: 4096, DeviceKind.GPU_SERVER: 16384}
#: containerd's images and containers.
_IMAGES = "/var/lib/containerd"
#: Seconds from the kubelet's start to its certificate at most: a request, an approval and a signature, each by a loop of its own.
_JOIN = 90
#: Seconds that a claim gives a kubelet that has just been started.
_PATIENCE = 90
#: Seconds from there to its request for a certificate to serve with: it makes a key, and its node must know its addresses.
_ASK = 40

_SYSCTLS = (
    HostSysctl(
        key="net.ipv4.ip_forward",
        value="1",
        source="Kubernetes documentation, Container Runtimes: packets of pods are passed on",
        namespaced=True,
        live=True,
    ),
)


def joined_by(host: HostPlan) -> str | None:
    """The concern that has *host* join the cluster."""
    joins = (name for name, stated in host.concerns.items() if any(file.path == JOIN_FILE for file in stated.files))
    return next(joins, None)


def joined(
    host: HostContext, name: str, settings: Joining, fields: Mapping[str, object], *, pods: str | None = None
) -> Concern:
    """The concern *name*, as far as it has *host* join: kubelet, token, claims. Who runs containers is not in it.

    *fields* are of the KubeletConfiguration, beyond those that every node has; *pods* is a folder in memory where the host states pods.
    """
    server = server_url(host.site, host.devices)
    told = {**configuration(host, settings), **({"staticPodPath": pods} if pods is not None else {}), **fields}
    return Concern(
        name=name,
        # openssl(1) looks at certificates; conntrack is the cluster's proxy's, which a lab machine has already.
        packages=("openssl",) if host.lab else ("conntrack", "openssl"),
        directories=(HostDirectory(path=CONFIG_FOLDER),),
        files=(
            program_file(PROGRAM),
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
            HostFile(path=JOIN_FILE, content=_join(host, settings, server), restart=(UNIT,)),
            HostFile(path=CONFIG_FILE, content=kubelet.configuration(told), restart=(UNIT,)),
            HostFile(path=_sysctl_file(name), content=sysctl_lines(name, _SYSCTLS)),
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
            HostFile(path=KUBEADM_FILE, content=f"{kept_by(name)}\n", restart=(UNIT,)),
            HostFile(
                path=f"/etc/systemd/system/{UNIT}",
                content=_unit(host, name, settings, pods),
                restart=(UNIT,),
                run=(f"if ! test -e {JOIN_FILE}; then {_gone(pods)}; fi",),
            ),
        ),
        sysctls=_SYSCTLS,
        units=(HostUnit(name=UNIT, enabled=True, active=True, after_boot=_booted(host)),),
        approval=HostApproval(
            server=server,
            node=host.name,
            addresses=(_address(host),),
            asks=f"{program_path(PROGRAM)} asks --wait {_ASK}",
        ),
        claims=_claims(host),
    )


def configuration(host: HostContext, settings: Joining) -> dict[str, object]:
    """What every node's kubelet is told, whatever it runs on."""
    return {
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": CA_FILE},
        },
        "authorization": {"mode": "Webhook"},
        "readOnlyPort": 0,
        "rotateCertificates": True,
        # asks the cluster for the certificate that it serves with, instead of signing one itself that nobody can verify
        "serverTLSBootstrap": True,
        "tlsMinVersion": "VersionTLS13",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        # systemd owns the control groups, and so does containerd's runc
        "cgroupDriver": "systemd",
        "systemReserved": {"memory": f"{settings.system_memory_mib}Mi"},
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "10s",
        "registerWithTaints": _taints(host),
        # pods that say nothing get the runtime's own filter of system calls instead of none (Kubernetes documentation, Seccomp)
        "seccompDefault": True,
        "podPidsLimit": POD_PIDS[host.kind],
    }


def kubelet_program(settings: Joining) -> str:
    """Where the kubelet lies."""
    return FETCHED if settings.source is not None else settings.program or PACKAGED


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


def _join(host: HostContext, settings: Joining, server: str) -> str:
    """What the program `kube_join` is told."""
    wanted = {
        "server": server,
        "node": host.name,
        "authority": CA_FILE,
        "certificate": CERTIFICATE,
        "serving": SERVING,
        "address": _address(host),
        "bootstrap": BOOTSTRAP_FILE,
        "labels": own_labels(host.kind),
        "taints": _taints(host),
        "program": kubelet_program(settings),
        "source": None if settings.source is None else settings.source.model_dump(mode="json"),
    }
    return json.dumps(wanted, indent=1) + "\n"


def _address(host: HostContext) -> str:
    return (host.device.primary_address or "").partition("/")[0]


def _taints(host: HostContext) -> list[dict[str, object]]:
    return [taint.model_dump(mode="json") for taint in NODE_TAINTS[host.kind]]


def _sysctl_file(name: str) -> str:
    return f"/etc/sysctl.d/70-pinion-{name.replace('_', '-')}.conf"


def _unit(host: HostContext, name: str, settings: Joining, pods: str | None) -> str:
    labels = ",".join(f"{key}={value}" for key, value in own_labels(host.kind).items())
    words = [
        kubelet_program(settings),
        f"--config={CONFIG_FILE}",
        f"--config-dir={CONFIG_FOLDER}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_FILE}",
        f"--kubeconfig={KUBECONFIG}",
        f"--cert-dir={PKI}",
        f"--hostname-override={host.name}",
        f"--node-ip={_address(host)}",
        f"--node-labels={labels}",
    ]
    program = program_path(PROGRAM)
    fetch = ["# A program that is not the stated one is fetched, and never run.", f"ExecStartPre={program} program"]
    return unit_text(
        name,
        Unit=[
            "Description=Kubernetes node agent",
            f"Wants=network-online.target {CONTAINERD_UNIT}",
            f"After=network-online.target {CONTAINERD_UNIT}",
            "StartLimitIntervalSec=0",
        ],
        Service=[
            *([] if settings.source is None else fetch),
            *([] if pods is None else [f"ExecStartPre=/usr/bin/mkdir -p -m 0700 {pods}"]),
            f"ExecStart={' '.join(words)}",
            "# Started means that it has a certificate of its own; the token is then removed.",
            f"ExecStartPost={program} joined --wait {_JOIN}",
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


def _gone(pods: str | None) -> str:
    """For a host without the concern: its pods end, and its key, its volumes and a program that was fetched go. May be cut anywhere."""
    folders = [FETCHED.rpartition("/")[0], BOOTSTRAP_FILE.rpartition("/")[0], *([] if pods is None else [pods])]
    steps = (
        "pkill -KILL -f '[c]ontainerd-shim-runc-v2 -namespace k8s.io'",
        "for group in $(grep -l kubepods /proc/[0-9]*/cgroup 2>/dev/null)",
        'do process=${group%/cgroup}; kill -KILL "${process#/proc/}" 2>/dev/null',
        "done",
        f"awk '$2 ~ \"^{kubelet.DATA}/.\" {{print $2}}' /proc/mounts | sort -r | xargs -r umount -l",
        # the folder itself may be a mount
        f"if test -d {kubelet.DATA}; then find {kubelet.DATA} -xdev -mindepth 1 -delete || exit 1; fi",
        # images that nobody else's containerd has; one of the concern's own has been stopped by now
        f"systemctl -q is-active {CONTAINERD_UNIT} || rm -rf {_IMAGES}",
        f"rm -rf {' '.join(folders)}",
    )
    return "; ".join(steps)


def _booted(host: HostContext) -> tuple[str, ...]:
    """What of a boot the kubelet waits for: it does not start where the kernel counts no memory (pi_boot's `cgroup_enable`)."""
    return (PI_COMMAND_LINE,) if host.kind is DeviceKind.PI and not host.lab else ()


def _claims(host: HostContext) -> tuple[HostClaim, ...]:
    return tuple(claim.model_copy(update={"after_boot": _booted(host)}) for claim in _stated_claims(host))


def _stated_claims(host: HostContext) -> tuple[HostClaim, ...]:
    program = program_path(PROGRAM)
    return (
        HostClaim(
            name="node",
            claim="the cluster says of this node that it is Ready, with the planned labels and taints",
            command=f"{program} --check --wait {_PATIENCE} 2>&1 && echo {AS_PLANNED}",
            expected=AS_PLANNED,
        ),
        HostClaim(
            name="certificate",
            claim="the cluster's authority has signed the kubelet's certificate, which is made out to",
            command=f"openssl verify -purpose sslclient -CAfile {CA_FILE} {CERTIFICATE} >/dev/null && "
            f"openssl x509 -noout -subject -nameopt multiline -in {CERTIFICATE} | sed -n 's/ *commonName *= //p'",
            expected=f"system:node:{host.name}",
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
            claim="the kubelet serves with a certificate of the cluster's authority, good for a week yet, and answers whoever shows none "
            "with status",
            command=f"{program} stranger --wait {_PATIENCE} 2>&1",
            expected="401",
        ),
    )
