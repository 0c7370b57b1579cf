"""Who may serve as a node: the operator's machine approves what a kubelet asks its cluster for, where it is the plan's.

Kubernetes approves no certificate that a kubelet serves with (signer kubernetes.io/kubelet-serving): nothing in a cluster knows which names
and addresses are a node's. The plan does.
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

from pinion.drivers.hosts.joining import JoinError, Run, kubeconfig, kubectl
from pinion.plan.model import HostApproval

SIGNER = "kubernetes.io/kubelet-serving"
#: What a run says of a host where something was approved; the same for all, so that many hosts are one line.
NOTE = "the certificate that its kubelet serves with is approved"
#: Kubernetes' group of kubelets.
_NODES = "system:nodes"
#: What such a certificate is for (Kubernetes documentation, Certificates and Certificate Signing Requests, "Kubernetes signers").
_USAGES = frozenset({"digital signature", "key encipherment", "server auth"})


def approve(wanted: HostApproval, variables: Mapping[str, str], run: Run = subprocess.run) -> tuple[str, ...]:
    """Approve what the kubelet of *wanted*'s node asks for and is the plan's; the requests' names.

    Raises `JoinError` when there is nothing but requests for something else; those are left for a person.
    """
    cluster = kubeconfig(wanted.server, variables)
    try:
        listed = kubectl(cluster, ["get", "csr", f"--field-selector=spec.signerName={SIGNER}", "--output=json"], run)
        waiting = [entry for entry in json.loads(listed)["items"] if _waits(entry, wanted.node)]
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


def _waits(entry: Mapping[str, Any], node: str) -> bool:
    """Whether this is a request of the kubelet of *node* that nobody has judged."""
    return bool(entry["spec"].get("username") == f"system:node:{node}" and not entry.get("status"))


def fault(spec: Mapping[str, Any], wanted: HostApproval) -> str | None:
    """Why a request must not be approved, None when it is exactly what *wanted* says."""
    if _NODES not in spec.get("groups", ()):
        return "is not a kubelet's"
    usages = set(spec.get("usages", ()))
    if "server auth" not in usages or not usages <= _USAGES:
        return f"is for {', '.join(sorted(usages))}"
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"], validate=True))
        names = {(attribute.oid, attribute.value) for attribute in asked.subject}
        shown = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        sound = asked.is_signature_valid
    except (KeyError, ValueError, binascii.Error, x509.ExtensionNotFound) as error:
        return f"cannot be read: {error}"
    if not sound:
        return "is not signed by its own key"
    if names != {(NameOID.COMMON_NAME, f"system:node:{wanted.node}"), (NameOID.ORGANIZATION_NAME, _NODES)}:
        return f"is made out to {asked.subject.rfc4514_string()}"
    found = sorted(_text(name) for name in shown)
    planned = sorted((f"DNS {wanted.node}", *(f"IP {address}" for address in wanted.addresses)))
    return None if found == planned else f"is for {', '.join(found)}, planned {', '.join(planned)}"


def _text(name: x509.GeneralName) -> str:
    match name:
        case x509.DNSName():
            return f"DNS {name.value}"
        case x509.IPAddress():
            return f"IP {name.value}"
        case _:
            return type(name).__name__
