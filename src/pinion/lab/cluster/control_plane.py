"""What the management host runs of Kubernetes: etcd, API server, controller manager, scheduler, as unprivileged systemd services.

Invariants:

* Only the API server is reachable from other machines, with certificates; etcd, controller manager and scheduler listen on loopback.
* Without a certificate one may ask for the API server's health and nothing else.
* The data of the cluster is etcd's folder alone (`ETCD_DATA`); everything else can be written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pinion.lab.cluster import unit_text
from pinion.lab.cluster.credentials import POD_NETWORK, ClusterCredentials, encryption_configuration, kubeconfig
from pinion.lab.pki import Credential
from pinion.plan.model import ClusterPlan

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
#: Folder of etcd's data in the machine.
ETCD_DATA = "/var/lib/etcd"
#: Where the programs are shown in the machine, and where their configuration lies.
BIN, ETC = "/usr/local/bin", "/etc/kubernetes"
#: Accounts in the machine, made by `systemd-sysusers`: name to number, in the range that Debian leaves to the administrator's system users.
ACCOUNTS = {"etcd": 970, "kubernetes": 971}
UNITS = ("etcd.service", "kube-apiserver.service", "kube-controller-manager.service", "kube-scheduler.service")
#: Bits of a node's pod prefix: 256 addresses, 256 nodes in the default /16.
NODE_PREFIX_BITS = 24

_ETCD_CLIENT, _ETCD_PEER = "https://127.0.0.1:2379", "https://127.0.0.1:2380"


@dataclass(frozen=True)
class File:
    """A file of a lab machine: *owner* is an account's number (group the same)."""

    content: str | bytes
    mode: int = 0o644
    owner: int = 0


def files(plan: ClusterPlan, keys: ClusterCredentials, encryption_secret: str) -> Mapping[str, File]:
    """Every file of the control plane, by path in the machine."""
    etcd, kubernetes = ACCOUNTS["etcd"], ACCOUNTS["kubernetes"]
    front_proxy = keys.front_proxy.issue("front-proxy-client", usages=("client",))
    signing = keys.service_account_key()
    found = {
        **_credential("etcd/pki/server", keys.etcd.issue("server", ("localhost",), ("127.0.0.1",), ("server", "client")), etcd),
        **_credential("pki/etcd-client", keys.etcd.issue("kube-apiserver", usages=("client",)), kubernetes),
        **_credential("pki/apiserver", keys.api_server(), kubernetes),
        **_credential("pki/kubelet-client", keys.user("kube-apiserver-kubelet-client", "pinion:kubelet-api"), kubernetes),
        **_credential("pki/front-proxy-client", front_proxy, kubernetes),
        f"{ETC}/etcd/pki/ca.crt": File(keys.etcd.certificate.read_bytes()),
        f"{ETC}/pki/etcd-ca.crt": File(keys.etcd.certificate.read_bytes()),
        f"{ETC}/pki/ca.crt": File(keys.kubernetes.certificate.read_bytes()),
        f"{ETC}/pki/front-proxy-ca.crt": File(keys.front_proxy.certificate.read_bytes()),
        # of nodes that ask for their certificates themselves
        f"{ETC}/pki/ca.key": File(keys.kubernetes.key.read_bytes(), 0o600, kubernetes),
        f"{ETC}/pki/service-account.key": File(signing.read_bytes(), 0o600, kubernetes),
        f"{ETC}/pki/service-account.pub": File(signing.with_suffix(".pub").read_bytes()),
        f"{ETC}/encryption.json": File(encryption_configuration(encryption_secret), 0o600, kubernetes),
        f"{ETC}/authentication.json": File(_authentication()),
    }  # fmt: skip
    for component in ("kube-controller-manager", "kube-scheduler"):
        user = f"system:{component}"
        found |= _credential(f"pki/{component}", keys.user(user), kubernetes)
        found[f"{ETC}/{component}.kubeconfig"] = File(local_kubeconfig(plan.server, user, component))
    found |= _credential("pki/pod-network", keys.user(POD_NETWORK), 0)
    units = {
        "etcd": _etcd(plan.control_plane),
        "kube-apiserver": _api_server(plan),
        "kube-controller-manager": _controller_manager(plan),
        "kube-scheduler": _scheduler(),
    }
    return found | {f"/etc/systemd/system/{name}.service": File(text) for name, text in units.items()}


def local_kubeconfig(server: str, user: str, name: str) -> str:
    """A kubeconfig for a program in a lab machine: its certificate and key lie in `ETC`/pki as *name*, and may be renewed there."""
    access = {"client-certificate": f"{ETC}/pki/{name}.crt", "client-key": f"{ETC}/pki/{name}.key"}
    return kubeconfig(server, f"{ETC}/pki/ca.crt", user, access)


def credential_files(name: str, credential: Credential, owner: int = 0) -> Iterator[tuple[str, File]]:
    """Certificate and key of *credential* as files `ETC`/*name*.crt and .key."""
    yield f"{ETC}/{name}.crt", File(credential.certificate.read_bytes())
    yield f"{ETC}/{name}.key", File(credential.key.read_bytes(), 0o600, owner)


def _credential(name: str, credential: Credential, owner: int) -> dict[str, File]:
    return dict(credential_files(name, credential, owner))


def binaries(cache: Path, programs: tuple[str, ...] = PROGRAMS) -> dict[Path, str]:
    """Programs in the cache and where a machine sees them."""
    return {cache / "bin" / name: f"{BIN}/{name}" for name in programs}


def _authentication() -> str:
    """Nobody but certificate and token holders, except for the health of the API server."""
    return json.dumps({
        "apiVersion": "apiserver.config.k8s.io/v1beta1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": True, "conditions": [{"path": path} for path in ("/livez", "/readyz", "/healthz")]},
    })  # fmt: skip


def _etcd(name: str) -> str:
    pki = f"{ETC}/etcd/pki"
    tls = {"cert-file": f"{pki}/server.crt", "key-file": f"{pki}/server.key", "trusted-ca-file": f"{pki}/ca.crt"}
    flags = {
        "name": name,
        "data-dir": ETCD_DATA,
        "listen-client-urls": _ETCD_CLIENT,
        "advertise-client-urls": _ETCD_CLIENT,
        "listen-peer-urls": _ETCD_PEER,
        "initial-advertise-peer-urls": _ETCD_PEER,
        "initial-cluster": f"{name}={_ETCD_PEER}",
        "client-cert-auth": "true",
        **tls,
        "peer-client-cert-auth": "true",
        **{f"peer-{flag}": value for flag, value in tls.items()},
        # the default of 100,000 keeps that many entries in memory
        "snapshot-count": "5000",
        "log-level": "warn",
        "logger": "zap",
    }
    lines = ("Type=notify", "User=etcd", f"ReadWritePaths={ETCD_DATA}", *unit_text.CONFINED, *unit_text.KEPT_RUNNING)
    return unit_text.service("etcd, the store of Kubernetes", unit_text.command(f"{BIN}/etcd", flags), service=lines)


def _api_server(plan: ClusterPlan) -> str:
    url = urlsplit(plan.server)
    pki = f"{ETC}/pki"
    flags = {
        "advertise-address": url.hostname,
        "bind-address": "0.0.0.0",  # its own address and the loopback forward
        "secure-port": str(url.port),
        "service-cluster-ip-range": plan.service_prefix,
        "etcd-servers": _ETCD_CLIENT,
        "etcd-cafile": f"{pki}/etcd-ca.crt",
        "etcd-certfile": f"{pki}/etcd-client.crt",
        "etcd-keyfile": f"{pki}/etcd-client.key",
        "tls-cert-file": f"{pki}/apiserver.crt",
        "tls-private-key-file": f"{pki}/apiserver.key",
        "tls-min-version": "VersionTLS13",
        "client-ca-file": f"{pki}/ca.crt",
        "authentication-config": f"{ETC}/authentication.json",
        "authorization-mode": "Node,RBAC",
        "enable-bootstrap-token-auth": "true",
        "enable-admission-plugins": "NodeRestriction",
        "encryption-provider-config": f"{ETC}/encryption.json",
        "kubelet-certificate-authority": f"{pki}/ca.crt",
        "kubelet-client-certificate": f"{pki}/kubelet-client.crt",
        "kubelet-client-key": f"{pki}/kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": f"{pki}/front-proxy-client.crt",
        "proxy-client-key-file": f"{pki}/front-proxy-client.key",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": f"{pki}/service-account.pub",
        "service-account-signing-key-file": f"{pki}/service-account.key",
        "shutdown-delay-duration": "0s",
        "profiling": "false",
    }
    lines = (
        "Type=notify", "User=kubernetes", "Environment=GOGC=60", *unit_text.CONFINED, *unit_text.KEPT_RUNNING,
    )  # fmt: skip
    return unit_text.service(
        "Kubernetes API server",
        unit_text.command(f"{BIN}/kube-apiserver", flags),
        after=("etcd.service",),
        service=lines,
    )


def _controller_manager(plan: ClusterPlan) -> str:
    config = f"{ETC}/kube-controller-manager.kubeconfig"
    flags = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "allocate-node-cidrs": "true",
        "cluster-cidr": plan.pod_prefix,
        "node-cidr-mask-size": str(NODE_PREFIX_BITS),
        "service-cluster-ip-range": plan.service_prefix,
        "root-ca-file": f"{ETC}/pki/ca.crt",
        "cluster-signing-cert-file": f"{ETC}/pki/ca.crt",
        "cluster-signing-key-file": f"{ETC}/pki/ca.key",
        # removes tokens that have run out; off unless it is named
        "controllers": "*,tokencleaner",
        "service-account-private-key-file": f"{ETC}/pki/service-account.key",
        "use-service-account-credentials": "true",
        "profiling": "false",
    }
    return _component("Kubernetes controller manager", "kube-controller-manager", flags)


def _scheduler() -> str:
    config = f"{ETC}/kube-scheduler.kubeconfig"
    flags = {
        "kubeconfig": config,
        "authentication-kubeconfig": config,
        "authorization-kubeconfig": config,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "profiling": "false",
    }
    return _component("Kubernetes scheduler", "kube-scheduler", flags)


def _component(description: str, name: str, flags: Mapping[str, str | None]) -> str:
    lines = ("User=kubernetes", "Environment=GOGC=60", *unit_text.CONFINED, *unit_text.KEPT_RUNNING)
    return unit_text.service(
        description, unit_text.command(f"{BIN}/{name}", flags), after=("kube-apiserver.service",), service=lines
    )
