"""Which base a site's images are made of: decided once and noted, so that build, trial and write take the same.

In this order: what the operator says (``--base``); what is noted; what the Pis' platform in the site file asks for. Pis of Debian get the
base of Debian's packages. Pis of Raspberry Pi OS get its archive where that is here or the vendor answers, else Debian, and are told so.
"""

from __future__ import annotations

import json
from pathlib import Path

from pinion.image import base as bases
from pinion.image.archives import kept, unreachable
from pinion.image.base import Base
from pinion.image.kinds import Kind
from pinion.image.packages import Say
from pinion.image.raspios import ARCHIVE
from pinion.image.store import Store
from pinion.lab.state import read_json, write_file
from pinion.plan.model import DeviceKind, Plan
from pinion.site.rules.hardware import FIRMWARE_PLATFORM


def base_of(
    store: Store,
    plan: Plan,
    say: Say,
    stated: Kind | None = None,
    *,
    archive: Path | None = None,
    update: bool = False,
    rebuild: bool = False,
) -> tuple[Kind, Base]:
    """Have the base of the site's images, and note its kind once it is there. Raises `ImageError`; the rest is `ensure`'s."""
    kind = settle(store, plan, stated or (Kind.RASPIOS if archive is not None else None), say)
    base = bases.ensure(store, say, kind, update=update, rebuild=rebuild, archive=archive)
    note(store, kind)
    return kind, base


def settle(store: Store, plan: Plan, stated: Kind | None, say: Say) -> Kind:
    """The kind of the site's base by the rule above."""
    if stated is not None:
        return stated
    noted = read_json(store.kind_file).get("base")
    return Kind(str(noted)) if noted in {*Kind} else _by_platform(store, plan, say)


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
