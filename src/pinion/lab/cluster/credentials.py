"""Who may talk to whom in the cluster, as certificates and kubeconfigs.

Three authorities, because a certificate of one must be worth nothing to the others: ``kubernetes`` (clients and servers of the API),
``etcd``, ``front-proxy`` (the API server towards extension servers). Kubernetes reads a certificate's common name as user and its
organisations as groups.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pinion.lab.pki import Authority, Credential, Usage, authority
from pinion.lab.state import lock, write_file
from pinion.plan.model import ClusterPlan, NodePlan

#: Users of the API server beyond Kubernetes' own. Their rights are in `files/access.yaml`.
DEPLOYER = "pinion-deployer"
POD_NETWORK = "pinion-pod-network"
#: Kubernetes' group that may do everything, and the one of kubelets.
_MASTERS, _NODES = "system:masters", "system:nodes"


@dataclass(frozen=True)
class ClusterCredentials:
    """All credentials of the cluster of one instance, kept under its state folder *state*."""

    state: Path
    plan: ClusterPlan

    @property
    def kubernetes(self) -> Authority:
        """Vouches for the API server, kubelets and users."""
        return authority(self.state, "kubernetes")

    @property
    def etcd(self) -> Authority:
        """Vouches for etcd and its one client."""
        return authority(self.state, "etcd")

    @property
    def front_proxy(self) -> Authority:
        """Vouches for the API server where it speaks for a user."""
        return authority(self.state, "front-proxy")

    def api_server(self) -> Credential:
        """The API server's own certificate: good for its address, its in-cluster names and a loopback forward."""
        host = urlsplit(self.plan.server).hostname or ""
        service = str(next(ipaddress.ip_network(self.plan.service_prefix).hosts()))
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        return self.kubernetes.issue(
            "kube-apiserver", (*names, self.plan.control_plane, "localhost"), (host, service, "127.0.0.1")
        )

    def user(self, name: str, *groups: str) -> Credential:
        """A client certificate of user *name*."""
        return self.kubernetes.issue(name.replace(":", "-"), usages=(Usage.CLIENT,), subject=name, groups=tuple(groups))

    def administrator(self) -> Credential:
        """May do everything; only for people and for the lab itself."""
        return self.user("pinion-administrator", _MASTERS)

    def kubelet(self, node: NodePlan) -> tuple[Credential, Credential]:
        """What the kubelet of *node* shows to the API server, and what it serves with."""
        serving = self.kubernetes.issue(f"kubelet-{node.name}", (node.name,), (node.address,))
        return self.user(f"system:node:{node.name}", _NODES), serving

    def service_account_key(self) -> Path:
        """The private key that signs service accounts' tokens, made once; its public half is beside it as ``.pub``."""
        key = self.state / "pki" / "service-account.key"
        public = key.with_suffix(".pub")
        with lock(key.with_name(".service-account.lock"), timeout=60.0):
            if not (key.exists() and public.exists()):
                made = ec.generate_private_key(ec.SECP256R1())
                write_file(public, _public_pem(made.public_key()), 0o644)
                write_file(
                    key,
                    made.private_bytes(
                        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                    ),
                )
        return key


def _public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def kubeconfig(server: str, ca: str, user: str, access: Mapping[str, str], cluster: str = "pinion") -> str:
    """A kubeconfig as JSON (which is YAML). *ca* is the path of the authority's certificate; *access* are the user's fields."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority": ca}}],
        "users": [{"name": user, "user": dict(access)}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def referring(server: str, user: str, credential: Credential) -> str:
    """A kubeconfig that names the files of *credential*: clients need no copy of the key, and renewals reach them."""
    access = {"client-certificate": str(credential.certificate), "client-key": str(credential.key)}
    return kubeconfig(server, str(credential.ca), user, access)


def encryption_configuration(secret: str) -> str:
    """How the API server encrypts Secrets in etcd: with a key of 32 bytes (secretbox) that follows from *secret*."""
    key = base64.b64encode(hashlib.sha256(secret.encode()).digest()).decode()
    provider = {"secretbox": {"keys": [{"name": "lab", "secret": key}]}}
    return json.dumps({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [provider, {"identity": {}}]}],
    })  # fmt: skip
