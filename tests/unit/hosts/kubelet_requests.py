"""What a kubelet asks its cluster for: to become a node with, and to serve with."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pinion.drivers.hosts.approving import CLIENT_SIGNER, SIGNER
from pinion.drivers.hosts.joining import JoinToken


def request(
    node: str,
    names: Sequence[str],
    addresses: Sequence[str],
    *,
    user: str | None = None,
    organisation: str = "system:nodes",
    others: Sequence[x509.GeneralName] = (),
) -> str:
    """A certificate request (PEM) of the kubelet of *node*, made out to *user* when that is another."""
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
        x509.NameAttribute(NameOID.COMMON_NAME, user or f"system:node:{node}"),
    ]
    alternatives = [*map(x509.DNSName, names), *(x509.IPAddress(ip_address(text)) for text in addresses), *others]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def signing_request(name: str, pem: str, **changes: Any) -> dict[str, Any]:
    """The CertificateSigningRequest *name* with *pem*, before the API server has added who asks; *changes* are of its spec."""
    spec = {
        "signerName": SIGNER,
        "usages": ["digital signature", "server auth"],
        "request": base64.b64encode(pem.encode()).decode(),
        **changes,
    }
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
    return {**head, "spec": spec}


def waiting(name: str, node: str, pem: str, **changes: Any) -> dict[str, Any]:
    """The same as the API server shows it: of the kubelet of *node*, and judged by nobody."""
    groups = ["system:nodes", "system:authenticated"]
    stated = signing_request(name, pem, **{"username": f"system:node:{node}", "groups": groups, **changes})
    return {**stated, "status": {}}


def first_request(name: str, node: str, token_id: str, pem: str | None = None, **changes: Any) -> dict[str, Any]:
    """What the bearer of the token *token_id*, made for *node*, asks for to become a node, judged by nobody; *pem* unless that is the
    certificate of *node*.
    """
    token = JoinToken(node, token_id, "")
    spec = {
        "signerName": CLIENT_SIGNER,
        "usages": ["digital signature", "client auth"],
        "username": token.user,
        "groups": [*sorted(token.groups), "system:bootstrappers", "system:authenticated"],
        **changes,
    }
    return {**signing_request(name, pem or request(node, [], []), **spec), "status": {}}
