"""Which base a site's images are made of: decided once and noted, so that build, trial and write take the same.

In this order: what the operator says (``--base``); what is noted; what the Pis' platform in the site file asks for. Pis of Debian get the
base of Debian's packages. Pis of Raspberry Pi OS get its archive where that is here or the vendor answers, else Debian, and are told so.
"""

from __future__ import annotations

import json
from pathlib import Path

from pinion.image.archives import kept, unreachable
from pinion.image.kinds import Kind
from pinion.image.packages import Say
from pinion.image.raspios import ARCHIVE
from pinion.image.store import Store
from pinion.lab.state import read_json, write_file
from pinion.plan.model import DeviceKind, Plan
from pinion.site.rules.nodes import FIRMWARE_PLATFORM


def settle(store: Store, plan: Plan, stated: Kind | None, archive: Path | None, say: Say) -> Kind:
    """The kind of the site's base, from now on: *stated*, or what *archive* (its file) implies, or by the rule above."""
    noted = read_json(store.kind_file).get("base")
    kind = stated or (Kind.RASPIOS if archive is not None else None)
    if kind is None and noted in {*Kind}:
        return Kind(str(noted))
    if kind is None:
        kind = _by_platform(store, plan, say)
    note(store, kind)
    return kind


def note(store: Store, kind: Kind) -> None:
    """Have the site's images be made of *kind* until another is stated."""
    write_file(store.kind_file, json.dumps({"base": kind}) + "\n", 0o600)


def _by_platform(store: Store, plan: Plan, say: Say) -> Kind:
    pis = [device for device in plan.devices if device.kind is DeviceKind.PI and not device.leaving]
    if not any(device.platform == FIRMWARE_PLATFORM for device in pis):
        return Kind.DEBIAN
    if kept(ARCHIVE, store.archives).exists():
        return Kind.RASPIOS
    why = unreachable(ARCHIVE)
    if why is None:
        return Kind.RASPIOS
    say(
        "base",
        f"made of Debian: {ARCHIVE.url} is not reachable ({why}). Hand {ARCHIVE.name} over with --base-archive FILE to have "
        "Raspberry Pi OS; a Pi 5 needs it for its Ethernet port",
    )
    return Kind.DEBIAN
