"""How an image is divided: an MBR with a boot partition, a small seed partition and the root, in this order. Pure.

The root is the last one, so that it can grow over the card at first boot; the seed has a place of its own, so that a node's identity
changes neither of the others. The Raspberry Pi's firmware starts from the first FAT partition (Raspberry Pi documentation, config.txt).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pinion.image.errors import ImageError

SECTOR = 512
MIB = 1 << 20
#: MBR types (sfdisk --list-types): FAT32 with LBA, Linux.
FAT32, FAT16, LINUX = "c", "e", "83"
BOOT, SEED, ROOT = "boot", "seed", "root"
#: Labels of the file systems; FAT labels have at most 11 characters.
LABELS = {BOOT: "PINION-BOOT", SEED: "PINION-SEED", ROOT: "pinion-root"}


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: *start* and *size* in bytes, both whole mebibytes."""

    number: int
    name: str
    kind: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole disk. *disk_id* is the MBR's 32-bit signature, from which Linux makes each PARTUUID."""

    disk_id: int
    partitions: tuple[Partition, ...]

    def __getitem__(self, name: str) -> Partition:
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise KeyError(name)

    @property
    def size(self) -> int:
        """Bytes of the whole image."""
        return self.partitions[-1].end

    def partuuid(self, name: str) -> str:
        """The PARTUUID of partition *name* as Linux writes it for an MBR: signature and number."""
        return f"{self.disk_id:08x}-{self[name].number:02x}"

    def script(self) -> str:
        """The partition table as sfdisk(8) reads it: every place, type and identifier stated."""
        lines = ["label: dos", f"label-id: 0x{self.disk_id:08x}", "unit: sectors", ""]
        lines += [
            f"start={part.start // SECTOR}, size={part.size // SECTOR}, type={part.kind}"
            f"{', bootable' if part.name == BOOT else ''}"
            for part in self.partitions
        ]
        return "\n".join(lines) + "\n"


def layout(disk_id: int, *, root: int, boot: int = 256 * MIB, seed: int = 16 * MIB) -> Layout:
    """The layout with partitions of so many bytes, each rounded up to whole mebibytes; the first begins at 4 MiB.

    4 MiB is a whole number of erase blocks of the usual cards. Raises `ImageError` for a signature or size that an MBR cannot hold.
    """
    if not 0 < disk_id < 1 << 32:
        raise ImageError(f"disk signature {disk_id:#x}: an MBR has 32 bits, and 0 means none")
    found = []
    start = 4 * MIB
    for number, (name, kind, size) in enumerate([(BOOT, FAT32, boot), (SEED, FAT16, seed), (ROOT, LINUX, root)], 1):
        if size <= 0:
            raise ImageError(f"partition {name}: {size} bytes; it needs some")
        whole = -(-size // MIB) * MIB
        found.append(Partition(number, name, kind, start, whole))
        start += whole
    if start // SECTOR > (1 << 32) - 1:
        raise ImageError(f"image of {start} bytes: an MBR counts sectors in 32 bits (2 TiB)")
    return Layout(disk_id, tuple(found))


def parse_table(text: str) -> Layout:
    """The layout in the answer of ``sfdisk --json``. Raises `ImageError` when it is none of ours."""
    try:
        table = json.loads(text)["partitiontable"]
        entries = table["partitions"]
        disk_id = int(table["id"], 16)
        sector = int(table.get("sectorsize", SECTOR))
    except (ValueError, KeyError, TypeError) as error:
        raise ImageError(f"partition table: not what sfdisk --json answers ({error!r})") from None
    if table.get("label") != "dos" or len(entries) != len(LABELS):
        raise ImageError(
            f"partition table: {table.get('label')} with {len(entries)} partitions, expected dos with {len(LABELS)}"
        )
    return Layout(
        disk_id,
        tuple(
            Partition(number, name, entry["type"], int(entry["start"]) * sector, int(entry["size"]) * sector)
            for number, (name, entry) in enumerate(zip(LABELS, entries, strict=True), 1)
        ),
    )
