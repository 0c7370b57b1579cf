"""Who may become a node, and serve as one: the operator's machine approves what a kubelet asks its cluster for, where it is the plan's.

Kubernetes approves no certificate that a kubelet serves with (signer kubernetes.io/kubelet-serving): nothing in a cluster knows which names
and addresses are a node's. The plan does. The first certificate of a node (kubernetes.io/kube-apiserver-client-kubelet) it would approve
for whoever shows a token, in any node's name: so that is judged here too, and no token's group is bound to Kubernetes' approver.
"""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from pinion.drivers.hosts.joining import JoinError, JoinToken, Kubeconfig, Run, kubeconfig, kubectl
from pinion.plan.model import HostApproval

SIGNER = "kubernetes.io/kubelet-serving"
#: Who signs the certificate that a kubelet shows the API server.
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
#: What a run says of a host where something was approved; the same for all, so that many hosts are one line.
NOTE = "the certificate that its kubelet serves with is approved"
#: Kubernetes' group of kubelets.
_NODES = "system:nodes"
#: What such a certificate is for (Kubernetes documentation, Certificates and Certificate Signing Requests, "Kubernetes signers").
_USAGES = frozenset({"digital signature", "key encipherment", "server auth"})
#: What reading a request that is none raises.
_UNREADABLE = (KeyError, ValueError, binascii.Error)
#: The two sets that the client's may be for: with an elliptic key, with an RSA key.
_CLIENT_USAGES = ({"digital signature", "client auth"}, {"digital signature", "key encipherment", "client auth"})


def approve(wanted: HostApproval, variables: Mapping[str, str], run: Run = subprocess.run) -> tuple[str, ...]:
    """Approve what the kubelet of *wanted*'s node asks for and is the plan's; the requests' names.

    Raises `JoinError` when there is nothing but requests for something else; those are left for a person.
    """
    cluster = kubeconfig(wanted.server, variables)
    try:
        waiting = requests_of(cluster, SIGNER, f"system:node:{wanted.node}", run)
        faults = {entry["metadata"]["name"]: fault(entry["spec"], wanted) for entry in waiting}
        good = tuple(name for name, wrong in faults.items() if wrong is None)
        if good:
            kubectl(cluster, ["certificate", "approve", *good], run)
    except JoinError as error:
        why = f"its kubelet's certificate could not be approved: {error}"
        raise JoinError(f"{wanted.node} at {wanted.server}: {why}") from None
    if faults and not good:
        told = "; ".join(f"{name} {wrong}" for name, wrong in faults.items())
        raise JoinError(
            f"{wanted.node} at {wanted.server}: its kubelet asks for what the plan does not say, so nobody approves it: {told}"
        )
    return good


def requests_of(cluster: Kubeconfig, signer: str, user: str, run: Run) -> list[Mapping[str, Any]]:
    """What *user* asks *signer* for and nobody has judged, the oldest first. Raises `JoinError`."""
    listed = kubectl(cluster, ["get", "csr", f"--field-selector=spec.signerName={signer}", "--output=json"], run)
    try:
        items = json.loads(listed)["items"]
        waiting = [entry for entry in items if entry["spec"].get("username") == user and not entry.get("status")]
    except (ValueError, KeyError, TypeError) as error:
        raise JoinError(f"kubectl get csr: not a list of requests ({type(error).__name__}: {error})") from None
    return sorted(waiting, key=lambda entry: str(entry["metadata"].get("creationTimestamp", "")))


def client_fault(spec: Mapping[str, Any], token: JoinToken) -> str | None:
    """Why a request for a node's first certificate must not be approved, None when it is what *token* was made for."""
    if spec.get("username") != token.user or not token.groups <= set(spec.get("groups", ())):
        return "is not of the bearer of the token"
    usages = set(spec.get("usages", ()))
    if usages not in _CLIENT_USAGES:
        return f"is for {', '.join(sorted(usages))}"
    try:
        asked, shown = _read(spec)
    except _UNREADABLE as error:
        return f"cannot be read: {error}"
    return _other_subject(asked, token.node) or (f"is for {', '.join(shown)} as well" if shown else None)


def fault(spec: Mapping[str, Any], wanted: HostApproval) -> str | None:
    """Why a request must not be approved, None when it is exactly what *wanted* says."""
    if _NODES not in spec.get("groups", ()):
        return "is not a kubelet's"
    usages = set(spec.get("usages", ()))
    if "server auth" not in usages or not usages <= _USAGES:
        return f"is for {', '.join(sorted(usages))}"
    try:
        asked, found = _read(spec)
    except _UNREADABLE as error:
        return f"cannot be read: {error}"
    planned = sorted((f"DNS {wanted.node}", *(f"IP {address}" for address in wanted.addresses)))
    other = None if found == planned else f"is for {', '.join(found) or 'no name'}, planned {', '.join(planned)}"
    return _other_subject(asked, wanted.node) or other


def _read(spec: Mapping[str, Any]) -> tuple[x509.CertificateSigningRequest, list[str]]:
    """The request and the names and addresses that it is for. Raises `_UNREADABLE`."""
    asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"], validate=True))
    try:
        shown = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return asked, []
    return asked, sorted(_text(name) for name in shown)


def _other_subject(asked: x509.CertificateSigningRequest, node: str) -> str | None:
    """What is wrong with who asks; None when it is the kubelet of *node*, with its key."""
    if not asked.is_signature_valid:
        return "is not signed by its own key"
    names = [(attribute.oid, attribute.value) for attribute in asked.subject]
    wanted = {(NameOID.COMMON_NAME, f"system:node:{node}"), (NameOID.ORGANIZATION_NAME, _NODES)}
    return (
        None
        if len(names) == len(wanted) and set(names) == wanted
        else f"is made out to {asked.subject.rfc4514_string()}"
    )


def _text(name: x509.GeneralName) -> str:
    match name:
        case x509.DNSName():
            return f"DNS {name.value}"
        case x509.IPAddress():
            return f"IP {name.value}"
        case _:
            return type(name).__name__
