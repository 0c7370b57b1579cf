"""The base from Raspberry Pi OS Lite: the vendor's own file systems, altered where ours must differ, and nothing installed.

The boot partition keeps the vendor's kernels, device trees and firmware; the root keeps every package. What makes the vendor's first boot
(its user, its growth of the root, its host keys, cloud-init) goes, for `pinion.services.node_programs.first_boot` does that here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pinion.image import recipe
from pinion.image.accounts import FILES, with_our_user
from pinion.image.archives import Archive, have, unpack
from pinion.image.disk import disk_id, fat, tool
from pinion.image.errors import ImageError
from pinion.image.kinds import Kind, Made
from pinion.image.layout import BOOT, LABELS, MIB, ROOT, SECTOR, SEED, Layout, layout
from pinion.image.packages import Say
from pinion.image.recipe import USER, USER_ID
from pinion.image.rootfs import Alterations, Placed, RootFs
from pinion.image.sbom import Json, bill_of_status
from pinion.image.store import Store

#: Raspberry Pi OS Lite (64-bit) of 2026-06-18, Debian trixie. SHA-256: the vendor's own, published beside the archive (…img.xz.sha256).
ARCHIVE = Archive(
    url="https://downloads.raspberrypi.com/raspios_lite_arm64/images/raspios_lite_arm64-2026-06-19/2026-06-18-raspios-trixie-arm64-lite.img.xz",
    size=524_875_608,
    sha256="acff736ca7945e3b305f07cda4abdb870910e12634991da69783611756e381b3",
    epoch=int(datetime(2026, 6, 19, tzinfo=UTC).timestamp()),
)
RELEASE = "trixie"
#: Goes up when `alter` or `with_our_user` makes something else of the same archive: it is in the base's key.
_ALTERATIONS = 1

_UNITS = "/usr/lib/systemd/system"
_ETC_UNITS = "/etc/systemd/system"
#: Units that must be at work, by the target that wants them.
_ENABLED = {
    "systemd-networkd.service": "multi-user.target",
    "systemd-timesyncd.service": "sysinit.target",
    "ssh.service": "multi-user.target",
}
#: Units that would bring about another network, user, host key or size than ours; one that the archive does not have is masked as well.
_MASKED = (
    "NetworkManager.service", "NetworkManager-wait-online.service", "systemd-networkd-wait-online.service", "systemd-firstboot.service",
    "sshd-keygen.service", "regenerate_ssh_host_keys.service", "sshswitch.service", "userconfig.service", "rpi-resize.service",
    "resize2fs_once.service", "cloud-init-local.service", "cloud-init-main.service", "cloud-init-network.service", "cloud-init.service",
    "cloud-config.service", "cloud-final.service",
)  # fmt: skip
#: Files of the boot partition that speak to the vendor's first boot; config.txt and cmdline.txt are a node's.
_BOOT_GONE = (
    "cmdline.txt", "config.txt", "firstrun.sh", "custom.toml", "user-data", "meta-data", "network-config", "userconf.txt", "userconf",
    "ssh.txt", "ssh",
)  # fmt: skip
#: What the first boot's program and a login need, so that an archive of another shape is refused here and not on a board.
_NEEDED = (
    "/usr/bin/python3", "/usr/bin/openssl", "/usr/bin/sudo", "/usr/sbin/sshd", "/usr/sbin/sfdisk", "/usr/bin/partx", "/usr/sbin/resize2fs",
    "/usr/sbin/update-ca-certificates", *(f"{_UNITS}/{unit}" for unit in _ENABLED),
)  # fmt: skip
#: Of the boot partition: what a Pi 4, a Pi 5 and an emulated machine start.
_BOOT_NEEDED = ("kernel8.img", "initramfs8", "kernel_2712.img", "bcm2712-rpi-5-b.dtb", "start4.elf", "fixup4.dat")


@dataclass(frozen=True, slots=True)
class RaspiosBuilder:
    """The base out of *archive*: the one in the store, or fetched."""

    store: Store
    archive: Archive

    @property
    def kind(self) -> Kind:
        return Kind.RASPIOS

    @property
    def key(self) -> str:
        """SHA-256 of everything that shapes the base: the archive, and all that is written here."""
        number = disk_id(self.archive.sha256)
        content = {
            "archive": self.archive.sha256,
            "files": {
                path: [placed.content.decode(), placed.mode, placed.owner]
                for path, placed in _files(layout(number, root=MIB)).items()
            },
            "links": _links(),
            "boot": _BOOT_GONE,
            "labels": LABELS,
            "user": [USER, USER_ID],
            "alterations": _ALTERATIONS,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def epoch(self) -> int:
        return self.archive.epoch

    @property
    def contents(self) -> str:
        return self.archive.name

    def make(self, work: Path, held: int, say: Say, *, afresh: bool) -> Made:
        """Take the archive apart, alter what must differ, and leave the rest as it is."""
        del held, afresh  # it takes minutes at most, and no child outlives it
        place = have(self.archive, self.store.archives, None, say)
        say("archive", f"unpacks {self.archive.name}")
        whole = work / "archive.img"
        unpack(place, whole)
        parts = partitions(whole)
        disk = layout(disk_id(self.archive.sha256), boot=parts[BOOT][1], root=parts[ROOT][1])
        for name, (start, size) in parts.items():
            cut(whole, start, size, work / f"{name}.fs", disk[name].size)
        whole.unlink()
        say("disk", "alters the file systems")
        _alter_boot(work / f"{BOOT}.fs", self.epoch)
        root = RootFs(work / f"{ROOT}.fs", self.epoch)
        alter(root, disk, work)
        status = root.text("/var/lib/dpkg/status")
        fat(work / f"{SEED}.fs", disk[SEED].size, LABELS[SEED], {}, key=self.key, epoch=self.epoch)
        inputs: dict[str, Json] = {
            "release": RELEASE,
            "architecture": recipe.ARCHITECTURE,
            "archive": {"url": self.archive.url, "size": self.archive.size, "sha256": self.archive.sha256},
        }
        return Made(disk, inputs, lambda sha256: self._bill(status, sha256))

    def _bill(self, status: str, sha256: str) -> dict[str, Json]:
        source = (self.archive.name, self.archive.sha256)
        return bill_of_status(
            status, name="pinion-base", digest=sha256, release=RELEASE, epoch=self.epoch, archive=source
        )

    def done(self) -> None:
        """Nothing is kept but the archive, for the next base out of it."""


def partitions(whole: Path) -> dict[str, tuple[int, int]]:
    """Start and size in bytes of boot partition and root in the vendor's image. Raises `ImageError` when it has another shape."""
    table = json.loads(tool(["sfdisk", "--json", whole]))["partitiontable"]
    entries = table["partitions"]
    kinds = [entry["type"] for entry in entries]
    if table.get("label") != "dos" or kinds != ["c", "83"]:
        raise ImageError(
            f"archive: a table {table.get('label')} with partitions {kinds}, expected dos with c (FAT32) and 83 (Linux)"
        )
    return {
        name: (int(entry["start"]) * SECTOR, int(entry["size"]) * SECTOR)
        for name, entry in zip((BOOT, ROOT), entries, strict=True)
    }


def cut(whole: Path, start: int, size: int, target: Path, wanted: int) -> None:
    """Write *size* bytes of *whole* from *start* on to *target*, zeros after them up to *wanted* bytes, and holes for zeros."""
    with whole.open("rb") as source, target.open("xb") as stream:
        source.seek(start)
        left = size
        while left and (block := source.read(min(MIB, left))):
            left -= len(block)
            if block.strip(b"\0"):
                stream.write(block)
            else:
                stream.seek(len(block), os.SEEK_CUR)
        if left:
            raise ImageError(f"archive: it ends {left} bytes before its partition does")
        stream.truncate(wanted)


# --- the boot partition -----------------------------------------------------------------------------------------------


def _alter_boot(file: Path, epoch: int) -> None:
    there = {line.strip().removeprefix("::/") for line in tool(["mdir", "-b", "-i", file, "::/"]).splitlines()}
    if missing := [name for name in _BOOT_NEEDED if name not in there]:
        raise ImageError(f"archive: its boot partition has no {', '.join(missing)}: not the shape that is known here")
    for name in _BOOT_GONE:
        if name in there:
            tool(["mdel", "-i", file, f"::/{name}"], epoch=epoch)


# --- the root ---------------------------------------------------------------------------------------------------------


def alter(root: RootFs, disk: Layout, work: Path) -> None:
    """Make the vendor's *root* one that starts as ours. Raises `ImageError` when it has another shape."""
    if missing := [path for path in _NEEDED if root.kind(path) is None]:
        raise ImageError(f"archive: its root has no {', '.join(missing)}: not the shape that is known here")
    made = with_our_user({path: root.text(path) for path in FILES if root.kind(path) is not None})
    home = f"/home/{USER}"
    moved = {} if made.home is None or made.home == home or root.kind(made.home) is None else {made.home: home}
    keys = [f"/etc/ssh/{name}" for name in root.entries("/etc/ssh") if name.startswith("ssh_host_")]
    granting = [f"/etc/sudoers.d/{name}" for name, kind in root.entries("/etc/sudoers.d").items() if kind == "file"]
    grants = [path for path in granting if "NOPASSWD" in root.text(path)]
    accounts = {path: Placed(text.encode(), 0o640 if "shadow" in path else 0o644) for path, text in made.texts.items()}
    root.alter(
        Alterations(
            gone=(*keys, *grants, "/var/lib/dbus/machine-id"),
            moved=moved,
            folders={
                home: (0o700, USER_ID),
                f"{home}/.ssh": (0o700, USER_ID),
                "/var/lib/pinion": (0o755, 0),
                "/boot/firmware": (0o755, 0),
            },
            files={**_files(disk), **accounts},
            links=_links(),
        ),
        work,
    )


def _files(disk: Layout) -> Mapping[str, Placed]:
    """Files of ours, by path."""
    found = {path: Placed(text.encode(), mode) for path, (text, mode) in recipe.common_files(disk).items()}
    for path, text in recipe.UNASSIGNED.items():
        found[path] = Placed(text.encode())
    # empty until the first boot (machine-id(5))
    found["/etc/machine-id"] = Placed(b"", 0o444)
    # cloud-init's own way to be told that it is not wanted
    found["/etc/cloud/cloud-init.disabled"] = Placed(b"")
    return found


def _links() -> dict[str, str]:
    """Links of ours, by path: units that are enabled or masked, as systemctl(1) would make them."""
    first_boot = f"{_ETC_UNITS}/{recipe.FIRST_BOOT_UNIT}"
    found = {f"{_ETC_UNITS}/multi-user.target.wants/{recipe.FIRST_BOOT_UNIT}": first_boot}
    found |= {f"{_ETC_UNITS}/{target}.wants/{unit}": f"{_UNITS}/{unit}" for unit, target in _ENABLED.items()}
    found |= {f"{_ETC_UNITS}/{unit}": "/dev/null" for unit in _MASKED}
    found[f"{_ETC_UNITS}/default.target"] = f"{_UNITS}/multi-user.target"
    return found
