"""What the authority on the operator's machine puts into files of hosts, by the plan's word for it."""

from __future__ import annotations

from collections.abc import Mapping

from pinion.drivers.identity import issuers, tokens
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import folder_of
from pinion.plan.model import HostMaterial


def content(wanted: HostMaterial, variables: Mapping[str, str]) -> str:
    """The text of *wanted*, from the authority that the environment *variables* name. Raises `AuthorityError`."""
    authority = Authority(folder_of(wanted.site, variables))
    match wanted.kind:
        case "root":
            return authority.root
        case "fingerprint":
            return authority.fingerprint
        case "intermediate":
            return authority.intermediate
        case "intermediate-key":
            return authority.intermediate_key
        case "provisioners":
            return issuers.as_json(authority, wanted.names)
        case "issuer":
            return issuers.issuer(authority, wanted.issuer)
        case "token":
            issuer = issuers.issuer(authority, wanted.issuer)
            return tokens.enrolment(authority, wanted.authority, wanted.names, issuer=issuer)
        case "cluster-authority" | "cluster-token":
            raise ValueError(f"{wanted.kind} is not the authority's")
