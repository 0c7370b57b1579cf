"""Who may log in: public keys, and no private ones."""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from pinion.site.errors import Path
from pinion.site.rules.facts import Facts

#: OpenSSH's names of the key types that we accept, and the fewest bytes that the key's blob then has (name, lengths and key).
KEY_TYPES = {
    "ssh-ed25519": 51,
    "sk-ssh-ed25519@openssh.com": 62,
    "ecdsa-sha2-nistp256": 104,
    "ecdsa-sha2-nistp384": 136,
    "ecdsa-sha2-nistp521": 172,
    "sk-ecdsa-sha2-nistp256@openssh.com": 115,
    # 2048-bit modulus: NIST SP 800-131A disallows shorter ones.
    "ssh-rsa": 272,
}


def check(facts: Facts) -> None:
    """All rules about access."""
    for key, written in (("admins", facts.site.access.admins), ("authorities", facts.site.access.authorities)):
        _keys(facts, key, written)
    if facts.has(("access", "principals")) and not facts.has(("access", "authorities")):
        facts.report.on_key("ACC-004", ("access", "principals"))


def _keys(facts: Facts, key: str, keys: tuple[str, ...]) -> None:
    first: dict[str, int] = {}
    for index, written in enumerate(keys):
        path: Path = ("access", key, index)
        if "PRIVATE KEY" in written:
            facts.report.on("ACC-003", path)
            continue
        wrong = _mistake(written)
        if wrong is not None:
            facts.report.on("ACC-001", path, why=wrong)
            continue
        blob = written.split()[1]
        if first.setdefault(blob, index) != index:
            facts.report.on("ACC-002", path, position=first[blob] + 1)


def _mistake(written: str) -> str | None:
    """What is wrong with a public key; None when it is a good one."""
    words = written.split()
    if len(words) < 2 or words[0] not in KEY_TYPES:
        return f"it does not begin with a known type of key ({', '.join(KEY_TYPES)})"
    if "\n" in written.strip():
        return "it has more than one line"
    if any(word in KEY_TYPES for word in words[2:]):
        return "it is two keys; write each as an item of its own"
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return "its second word is not base64"
    name = words[0].encode()
    if blob[:4] != len(name).to_bytes(4, "big") or blob[4 : 4 + len(name)] != name:
        return f"its second word is not a key of type {words[0]}"
    if len(blob) < KEY_TYPES[words[0]]:
        return "it is cut off, or too short a key"
    try:
        load_ssh_public_key(" ".join(words[:2]).encode())
    except (ValueError, UnsupportedAlgorithm):
        return "its second word was changed or cut off"
    return None
