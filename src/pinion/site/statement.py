"""What a site file is made of: the base of every statement, and the kinds of value that a person writes in one.

Values stay as the person wrote them (``60%``, ``1-8``); `pinion.site.quantities` gives them their meaning.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from pinion.site import quantities


class Statement(BaseModel):
    """Base of everything a user may state: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _parsed_by(parse: object) -> AfterValidator:
    """A validator that keeps the text as written and refuses what *parse* refuses."""

    def check(written: str) -> str:
        parse(written)  # type: ignore[operator]
        return written

    return AfterValidator(check)


def _text(value: object) -> object:
    """Let a lone number stand for its own text (``numbers: 5``), so that its parser can say what else is needed."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _number_key(key: object) -> object:
    """A key that is the number of a node, without leading zeros or spaces."""
    if isinstance(key, str):
        if not re.fullmatch(r"[1-9][0-9]{0,8}", key):
            raise ValueError(f"'{key[:40]}' is not the number of a node; write a number such as 3")
        return int(key)
    return key


#: RFC 1123 label: lower-case letters, digits and inner hyphens, at most 63 characters.
DNS_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
#: Name of a VLAN, a range or a model artefact: letters, digits, dot, underscore and hyphen, at most 64 characters.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#: EUI-48 in the colon form.
MAC_ADDRESS = r"^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$"

DnsLabel = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
Name = Annotated[str, StringConstraints(pattern=NAME)]
MacAddress = Annotated[str, StringConstraints(pattern=MAC_ADDRESS)]
#: NetBox keeps 200 characters of a description.
Description = Annotated[str, StringConstraints(max_length=200)]
#: The patterns are for editors; the parsers of `pinion.site.quantities` decide.
Duration = Annotated[
    str,
    BeforeValidator(_text),
    _parsed_by(quantities.seconds),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|min|h)$"}),
]
Percentage = Annotated[
    str,
    BeforeValidator(_text),
    _parsed_by(quantities.fraction),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?%$"}),
]
Numbers = Annotated[
    str,
    BeforeValidator(_text),
    _parsed_by(quantities.numbers),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": r"^[0-9]+(-[0-9]+)?( ?, ?[0-9]+(-[0-9]+)?)*$", "minimum": 1}
    ),
]
SwitchPortList = Annotated[
    str,
    _parsed_by(quantities.switch_ports),
    WithJsonSchema({"type": "string", "pattern": r"^[a-z0-9-]+ +[A-Za-z]+[0-9].*$"}),
]
PortList = Annotated[
    str, _parsed_by(quantities.port_names), WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z]+[0-9].*$"})
]
TimeWindow = Annotated[
    str,
    _parsed_by(quantities.window),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(daily|mon|tue|wed|thu|fri|sat|sun) [0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$",
        }
    ),
]
#: Where an artefact is fetched from.
ArtefactUrl = Annotated[
    str, _parsed_by(quantities.artefact_url), WithJsonSchema({"type": "string", "pattern": r"^https?://[^ @?#]+$"})
]
#: Where packages are had from.
ArchiveUrl = Annotated[
    str, _parsed_by(quantities.archive_url), WithJsonSchema({"type": "string", "pattern": r"^https?://[^ @?#]+$"})
]
#: https, a host name or an address, perhaps a port; no path.
AuthorityUrl = Annotated[
    str,
    _parsed_by(quantities.authority_url),
    WithJsonSchema(
        {"type": "string", "maxLength": 253, "pattern": r"^https://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?$"}
    ),
]
#: registry/repository:tag, or @sha256:digest (OCI distribution specification), all of it stated.
ImageReference = Annotated[
    str,
    _parsed_by(quantities.image),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 255,
            "pattern": r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)+"
            r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|@sha256:[0-9a-f]{64})$",
        }
    ),
]
#: SHA-256 in lower-case hex.
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
#: 32 bytes, an Ed25519 public key, in base64 (RFC 8032, RFC 4648).
PublicKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
#: 64 bytes, an Ed25519 signature, in base64.
Signature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{86}==$")]
#: The number of one node, as a key: written one way only, so that no two keys mean one node.
NodeNumber = Annotated[int, BeforeValidator(_number_key), Field(ge=1)]
#: 64 is the smallest IPv4 MTU worth stating (RFC 791 requires 68); 9216 the largest any switch in the catalogue takes.
Mtu = Annotated[int, Field(ge=68, le=9216)]
#: IEEE 802.1Q VLAN identifier, without the reserved 0 and 4095.
Vid = Annotated[int, Field(ge=1, le=4094)]
#: RFC 2474: six bits.
Dscp = Annotated[int, Field(ge=0, le=63)]


#: A field with its meaning: the JSON Schema, the reference page and the messages for missing keys all take it from here.
def says(description: str, **constraints: Any) -> Any:  # noqa: ANN401 - pydantic types a field's default by its annotation
    return Field(description=description, **constraints)
