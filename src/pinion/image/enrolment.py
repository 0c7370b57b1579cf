"""How a node gets its certificate by itself at its first boot: what its image needs for that, and what is said when it cannot.

The root certificate and the one-time token come from the site's authority on this machine, or from the command line. A token is kept beside
the image that it is in: a build a moment later gives the same image. It is made anew when less than `KEPT` of its life is left, when it is
not for this node and authority any more, and once it went to a card, for it works once.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pinion.drivers.hosts.onhost.journal import Journal, Original
from pinion.drivers.hosts.onhost.notes import journal_file
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.issuers import issuer
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.tokens import enrolment as new_token
from pinion.drivers.identity.tokens import read as read_token
from pinion.drivers.identity.tokens import serves
from pinion.image.errors import ImageError
from pinion.image.store import Store
from pinion.lab.state import write_file
from pinion.plan.concerns import identity as concern_identity
from pinion.plan.model import Concern, HostFile, HostMaterial, Plan

#: A card is written, carried to the rack and started within a week, in seconds.
LIFE_SECONDS = 7 * 86400
#: A kept token with less than this share of its life left is replaced: whoever writes a card has at least that long to start it.
KEPT = 1 / 2


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a node's image brings for it. *root* is PEM; *token* a secret that works once, until the Unix time *ends*.

    *why_not* says why the node will not enrol itself; None when it will, and when the site wants no certificate on it.
    """

    root: bytes | None = None
    token: bytes | None = field(default=None, repr=False)
    ends: int | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Where it comes from. *folder* is the site's authority on this machine, None to make nothing of; *root* (PEM) and *token* are stated
    by the operator, and then count. *life* is that of a token, in seconds.
    """

    folder: Path | None = None
    root: bytes | None = None
    token: bytes | None = field(default=None, repr=False)
    life: float = LIFE_SECONDS


def enrolment(store: Store, plan: Plan, node: str, sources: Sources, now: float) -> Enrolment:
    """What *node* gets at the Unix time *now*. Raises `ImageError` for what was stated and cannot be right."""
    wanted = _wanted(_concern(plan, node))
    if wanted is None:
        if sources.token is not None:
            raise ImageError(f"--token: {plan.site} states no concern `identity` for {node}, so nothing would use it")
        return Enrolment(root=sources.root)
    root, why_not = sources.root, "this machine makes no token for it"
    authority = None
    if sources.folder is not None:
        authority = Authority(sources.folder)
        try:
            root = root or authority.root.encode()
        except AuthorityError as error:
            authority, why_not = None, _elsewhere(plan, str(error))
    if sources.token is not None:
        if root is None:
            raise ImageError("--token is shown to the site's authority alone: say by --root-ca which that is")
        return Enrolment(root, sources.token, _stated(sources.token, node, wanted, now))
    if root is None or authority is None:
        return Enrolment(root, why_not=why_not)
    try:
        if authority.fingerprint != fingerprint(root):
            why_not = (
                f"--root-ca is not the root of the authority in {authority.folder}: give that authority's --token too"
            )
            return Enrolment(root, why_not=why_not)
        token, ends = _kept(store.tokens / node, authority, wanted, sources.life, now)
    except AuthorityError as error:
        return Enrolment(root, why_not=_elsewhere(plan, str(error)))
    return Enrolment(root, token, ends)


def fingerprint(root: bytes) -> str:
    """SHA-256 of the certificate *root* (PEM), as 64 hexadecimal digits. Raises `ImageError`."""
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(root.decode().strip() + "\n")).hexdigest()
    except ValueError:
        raise ImageError("--root-ca: no single certificate in PEM") from None


def handed_out(store: Store, node: str) -> None:
    """Say that the token of *node* goes to a card: the next image gets another."""
    (store.tokens / node).unlink(missing_ok=True)


def files(plan: Plan, node: str, root: bytes) -> tuple[HostFile, ...]:
    """What the concern places on *node* and the image brings, with what the operator's machine puts in: all but the token, and its journal.

    The journal says to the on-host program that these files are the concern's: they go when the site file no longer has it.
    """
    concern = _concern(plan, node)
    assert concern is not None
    brought = [_filled(file, root) for file in concern.files if file.unless is None]
    noted = journal(brought)
    noted.units = {unit.name: (False, False, False) for unit in concern.units}
    return (*brought, HostFile(path=str(journal_file(concern_identity.NAME)), mode="0600", content=noted.to_json()))


def journal(brought: Sequence[HostFile]) -> Journal:
    """What the on-host program has to know of files of a concern that an image brings: where there is one, there was none."""
    return Journal(
        files={
            file.path: Original(
                content=None,
                owner=None,
                group=None,
                mode=None,
                notify=sorted(file.notify),
                confirm=file.confirm,
                restart=sorted(file.restart),
                run=list(file.run),
            )
            for file in brought
        }
    )


def units(plan: Plan, node: str) -> Sequence[str]:
    """The units that the first boot enables and starts."""
    concern = _concern(plan, node)
    return [unit.name for unit in concern.units if unit.enabled] if concern is not None else []


def _concern(plan: Plan, node: str) -> Concern | None:
    host = next(host for host in plan.hosts if host.name == node)
    return host.concerns.get(concern_identity.NAME)


def _wanted(concern: Concern | None) -> HostMaterial | None:
    """The token that *concern* asks for."""
    found = [entry for file in (concern.files if concern else ()) for entry in file.materials if entry.kind == "token"]
    return found[0] if found else None


def _filled(file: HostFile, root: bytes) -> HostFile:
    content = file.content
    for material in file.materials:
        if material.kind != "fingerprint":
            raise ImageError(f"{file.path}: an image cannot bring its {material.kind}")
        content = content.replace(material.placeholder, fingerprint(root))
    return file.model_copy(update={"content": content, "materials": ()})


def _stated(token: bytes, node: str, wanted: HostMaterial, now: float) -> int:
    """When the *token* that the operator stated ends. Raises `ImageError` where the node could not use it."""
    try:
        found = read_token(token.decode())
    except ValueError:
        raise ImageError("--token: no enrolment token (`pinion identity token` prints one)") from None
    if set(found.names) != set(wanted.names):
        raise ImageError(f"--token is for {', '.join(found.names)}, and {node} is {', '.join(wanted.names)}")
    if found.ends <= now:
        raise ImageError("--token has run out; ask for another")
    return found.ends


def _kept(path: Path, authority: Authority, wanted: HostMaterial, life: float, now: float) -> tuple[bytes, int]:
    """The token in *path* while it is good for this life, else a new one there. Raises `AuthorityError`."""
    signer = issuer(authority, wanted.issuer)
    try:
        text = path.read_text()
        found = read_token(text)
        lives, left = found.ends - found.begins, found.ends - now
        mine = serves(found, authority, wanted.authority, wanted.names, signer)
        if lives == int(life) and left >= KEPT * life and mine:
            return text.encode(), found.ends
    except (OSError, ValueError):
        pass  # none, or not one that we wrote whole
    text = new_token(authority, wanted.authority, wanted.names, int(life), issuer=signer, now=now)
    write_file(path, text, 0o600)
    return text.encode(), read_token(text).ends


def _elsewhere(plan: Plan, why: str) -> str:
    if plan.authority is not None and plan.authority.host is None:
        return f"{why}. The authority is run elsewhere ({plan.authority.url}): its own --root-ca and --token for this node do as well"
    return why
