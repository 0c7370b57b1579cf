"""A node's image: the base with the node's boot files and seed. The same node and base give the same bytes.

An image under its final name is whole: it is made aside and renamed. It holds the host key and perhaps a token: 0600, and its digest is
in a manifest beside it, signed.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.image.base import Base
from pinion.image.disk import copy_sparse, digest, embed, fat, put
from pinion.image.enrolment import LIFE_SECONDS, Enrolment, Sources, enrolment
from pinion.image.errors import ImageError
from pinion.image.identity import Given, command_line, config_txt, identity, node_of, planned_files, seed_files
from pinion.image.layout import BOOT, LABELS, ROOT, SEED
from pinion.image.packages import Say
from pinion.image.sbom import Json
from pinion.image.signing import Signer
from pinion.image.store import Store
from pinion.lab.state import read_json, write_file
from pinion.plan.addressing import host as without_mask
from pinion.plan.concerns.base import NAMES_FILE
from pinion.plan.model import DevicePlan, Plan
from pinion.plan.package_sources import FOLDER as SOURCES_FOLDER


@dataclass(frozen=True, slots=True)
class NodeImage:
    """The image of one node. *identity* is the SHA-256 of what its seed places, *enrolment* what it gets its certificate with."""

    node: str
    path: Path
    manifest: Path
    size: int
    sha256: str
    identity: str
    enrolment: Enrolment


@dataclass(frozen=True, slots=True)
class Supplied:
    """What the operator named on the command line: files, each or none; where the site's *authority* lies; seconds that a token counts."""

    admin_keys: tuple[Path, ...] = ()
    user_ca: Path | None = None
    root_ca: Path | None = None
    token: Path | None = None
    authority: Path | None = None
    token_life: float = LIFE_SECONDS


def ssh_key(path: Path, comment: str) -> str:
    """Have the SSH key *path* (Ed25519, 0600, public half beside it); type and key of its public half."""
    public = Path(f"{path}.pub")
    if not path.exists() or not public.exists():
        new = path.with_name(f".{path.name}.new")
        for stale in (new, Path(f"{new}.pub")):
            stale.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(new)], check=True)
        # the public half first: a private key without it is never seen
        Path(f"{new}.pub").replace(public)
        new.replace(path)
    return " ".join(public.read_text().split()[:2])


def given(store: Store, node: str, supplied: Supplied, found: Enrolment) -> Given:
    """What *node* gets beside what its plan says: the supplied files, a key of the store's own where none was named, and what was *found*
    to enrol with.

    Raises `ImageError`.
    """
    host_key = store.host_keys / node
    public = ssh_key(host_key, node)
    authorized = [line for path in supplied.admin_keys for line in _public_keys(path)]
    if not authorized:
        authorized = [f"{ssh_key(store.admin_key, 'pinion')} pinion"]
    user_ca = "\n".join(_public_keys(supplied.user_ca)) if supplied.user_ca is not None else None
    return Given(host_key.read_bytes(), public, tuple(authorized), user_ca, found.root, found.token)


def sources(supplied: Supplied) -> Sources:
    """Where a node's root certificate and token come from. Raises `ImageError`."""
    root_ca = _read(supplied.root_ca)
    if root_ca is not None and b"-----BEGIN CERTIFICATE-----" not in root_ca:
        raise ImageError(f"{supplied.root_ca}: no certificate in PEM")
    token = _read(supplied.token)
    if token is not None and not token.strip():
        raise ImageError(f"{supplied.token}: an empty token")
    return Sources(supplied.authority, root_ca, token, supplied.token_life)


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path}: cannot be read: {error.strerror}") from None


def _public_keys(path: Path) -> list[str]:
    lines = [line.strip() for line in (_read(path) or b"").decode(errors="replace").splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    for line in found:
        if not line.startswith(("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")):
            raise ImageError(
                f"{path}: no public key of OpenSSH's (a private key must not go into an image); name the .pub file"
            )
    if not found:
        raise ImageError(f"{path}: no public key in it")
    return found


def build(store: Store, plan: Plan, base: Base, node: str, supplied: Supplied, say: Say) -> NodeImage:
    """Have the image of *node*, made anew whenever base, plan or identity differ. Raises `ImageError`."""
    device = node_of(plan, node)
    found = enrolment(store, plan, node, sources(supplied), time.time())
    for lacking in unreached(plan, node):
        say(node, lacking)
    files = identity(plan, device, given(store, node, supplied, found))
    seed: dict[str, bytes | Path] = {**seed_files(plan, node, files, base.epoch)}
    boot: dict[str, bytes | Path] = {
        "config.txt": config_txt(plan, node).encode(),
        "cmdline.txt": command_line(plan, node, base.disk.partuuid(ROOT)).encode(),
    }
    stated = json.loads(bytes(seed["identity.json"]))
    wanted: dict[str, Json] = {
        "schema_version": 1,
        "site": plan.site,
        "node": node,
        "base": {"key": base.key, "sha256": base.sha256},
        "identity": stated["sha256"],
        "boot": {name: content.decode() for name, content in boot.items() if isinstance(content, bytes)},
    }
    target = store.node(node)
    present = current(store, node, wanted, found)
    if present is not None:
        return present
    say(node, "puts its identity on the base")
    part = target.with_name(f".{target.name}.new")
    seed_fs = target.with_name(f".{target.name}.seed")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        copy_sparse(base.image, part)
        put(part, base.disk[BOOT].start, boot, epoch=base.epoch)
        fat(seed_fs, base.disk[SEED].size, LABELS[SEED], seed, key=base.key, epoch=base.epoch)
        embed(part, base.disk[SEED], seed_fs)
        part.chmod(0o600)
        sha256 = digest(part)
        part.replace(target)
    finally:
        seed_fs.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
    manifest = target.with_suffix(".json")
    whole = wanted | {"image": {"file": target.name, "size": base.disk.size, "sha256": sha256}}
    write_file(manifest, json.dumps(whole, indent=1, sort_keys=True) + "\n", 0o600)
    signer = Signer(store.signing_key)
    signer.sign(target)
    signer.sign(manifest)
    remember(store, plan)
    say(node, f"image {target}")
    return NodeImage(node, target, manifest, base.disk.size, sha256, str(stated["sha256"]), found)


def unreached(plan: Plan, node: str) -> Iterator[str]:
    """What the site file does not say, and its nodes then have to know from elsewhere before they can be converged."""
    paths = [file.path for file in planned_files(plan, node)]
    if NAMES_FILE not in paths:
        yield "looks up names in /etc/hosts alone: the site file states no concerns.base.name_servers"
    if not any(path.startswith(f"{SOURCES_FOLDER}/") for path in paths):
        yield "has the package sources of its base image and no others: the site file states no concerns.base.package_sources"


def current(store: Store, node: str, wanted: dict[str, Json], found: Enrolment) -> NodeImage | None:
    """The image of *node* when it is whole and was made from exactly *wanted*; None when it must be made."""
    target = store.node(node)
    manifest = target.with_suffix(".json")
    known = read_json(manifest)
    image = known.get("image")
    if not isinstance(image, dict) or {key: value for key, value in known.items() if key != "image"} != wanted:
        return None
    signed = all(path.with_name(f"{path.name}.minisig").exists() for path in (target, manifest))
    if (
        not signed
        or not target.is_file()
        or target.stat().st_size != image.get("size")
        or digest(target) != image.get("sha256")
    ):
        return None
    return NodeImage(
        node, target, manifest, target.stat().st_size, str(image["sha256"]), str(wanted["identity"]), found
    )


def remember(store: Store, plan: Plan) -> None:
    """known_hosts of all nodes that have a host key here: for PINION_KNOWN_HOSTS."""
    lines = []
    for device in plan.devices:
        public = store.host_keys / f"{device.name}.pub"
        if public.exists():
            lines.append(f"{','.join(names(device))} {' '.join(public.read_text().split()[:2])}\n")
    write_file(store.known_hosts, "".join(lines), 0o644)


def names(device: DevicePlan) -> Sequence[str]:
    """Name and addresses of a node, as known_hosts has them."""
    return [device.name, *(without_mask(address) for interface in device.interfaces for address in interface.addresses)]
