"""The partition table: what sfdisk makes of it is what was planned."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.image import disk
from pinion.image.errors import ImageError
from pinion.image.layout import BOOT, MIB, ROOT, SECTOR, SEED, layout, parse_table

needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("sfdisk", "mkfs.fat", "mcopy", "mke2fs", "debugfs"))),
    reason="needs the Debian packages of tools/image-packages.txt (make test installs them)",
)


@given(st.integers(1, 2**32 - 1), st.integers(1, 2**36), st.integers(1, 2**30), st.integers(1, 2**26))
def test_partitions_follow_one_another_on_whole_mebibytes(number: int, root: int, boot: int, seed: int) -> None:
    found = layout(number, root=root, boot=boot, seed=seed)
    assert [part.name for part in found.partitions] == [BOOT, SEED, ROOT], "the root is last: it grows"
    end = 4 * MIB
    for part, wanted in zip(found.partitions, (boot, seed, root), strict=True):
        assert part.start == end
        assert part.size % MIB == 0
        assert 0 <= part.size - wanted < MIB
        end = part.end
    assert found.size == end


@pytest.mark.parametrize(
    ("number", "root", "said"),
    [(0, MIB, "0 means none"), (2**32, MIB, "32 bits"), (1, 0, "needs some"), (1, 2**41, "2 TiB")],
)
def test_what_an_mbr_cannot_hold_is_refused(number: int, root: int, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        layout(number, root=root)


def test_linux_finds_the_root_by_signature_and_number() -> None:
    assert layout(0xABC, root=MIB).partuuid(ROOT) == "00000abc-03"


@pytest.mark.parametrize("text", ["", "{}", '{"partitiontable": {"label": "gpt", "id": "1", "partitions": []}}'])
def test_another_disk_is_not_taken_for_ours(text: str) -> None:
    with pytest.raises(ImageError, match="partition table"):
        parse_table(text)


@needs_tools
def test_a_disk_is_put_together_as_planned_and_twice_the_same(tmp_path: Path) -> None:
    planned = layout(0x1234ABCD, root=8 * MIB, boot=17 * MIB, seed=16 * MIB)
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    for name in ("hostname", "fstab", "passwd"):
        (tree / "etc" / name).write_text(f"{name}\n")
    digests = []
    for attempt in ("one", "two"):
        # the times of the folder differ from run to run
        for path in (tree, *tree.rglob("*")):
            os.utime(path, (1_600_000_000, 1_600_000_000))
            path.chmod(path.stat().st_mode)
        work = tmp_path / attempt
        work.mkdir()
        disk.fat(
            work / "boot",
            planned[BOOT].size,
            "A",
            {"cmdline.txt": b"quiet\n", "kernel8.img": bytes(range(256)) * 3},
            key="k",
            epoch=1_700_000_000,
        )
        disk.fat(work / "seed", planned[SEED].size, "B", {}, key="k", epoch=1_700_000_000)
        disk.ext4(work / "root", planned[ROOT].size, "c", tree, key="k", epoch=1_700_000_000)
        disk.assemble(work / "image", planned, {BOOT: work / "boot", SEED: work / "seed", ROOT: work / "root"})
        digests.append(disk.digest(work / "image"))
        assert disk.table(work / "image") == planned
        assert disk.take(work / "image", planned[BOOT].start, "cmdline.txt") == b"quiet\n"
        assert disk.take(work / "image", planned[BOOT].start, "kernel8.img") == bytes(range(256)) * 3, (
            "not a byte is translated"
        )
        with (work / "image").open("rb") as image:
            image.seek(planned[ROOT].start + 1024 + 56)
            assert image.read(2) == b"\x53\xef", "the magic number of ext4 where the table says that the root begins"
    assert digests[0] == digests[1]


@needs_tools
def test_a_file_can_be_replaced_on_a_boot_partition_inside_an_image(tmp_path: Path) -> None:
    planned = layout(7, root=MIB, boot=17 * MIB, seed=16 * MIB)
    boot = tmp_path / "boot"
    disk.fat(boot, planned[BOOT].size, "A", {"config.txt": b"old"}, key="k", epoch=1_700_000_000)
    image = tmp_path / "image"
    disk.assemble(image, planned, {BOOT: boot})
    disk.put(image, planned[BOOT].start, {"config.txt": b"new, and longer"}, epoch=1_700_000_000)
    assert disk.take(image, planned[BOOT].start, "config.txt") == b"new, and longer"
    with pytest.raises(ImageError, match="no nothing"):
        disk.take(image, planned[BOOT].start, "nothing.txt")


def test_content_of_another_size_is_refused(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(bytes(SECTOR))
    with pytest.raises(ImageError, match="512 bytes for partition seed"):
        disk.embed(tmp_path / "image", layout(1, root=MIB)[SEED], part)


def test_inodes_in_use_are_read_from_dumpe2fs() -> None:
    said = "Inode count:     32\nFree inodes:     10\n\nGroup 0:\n  Free inodes: 14-16\nGroup 1:\n  Free inodes: 18, 20-32\n"
    assert disk.used_inodes(said) == [2, 11, 12, 13, 17, 19]
    with pytest.raises(ImageError):
        disk.used_inodes("nothing")


def test_identifiers_follow_from_what_they_are_for() -> None:
    assert disk.identifier("a", "b") == disk.identifier("a", "b") != disk.identifier("ab")
    assert disk.disk_id("x") == disk.disk_id("x") != disk.disk_id("y")
    assert json.dumps(disk.identifier("a"))[15] == "8", "a version 8 UUID"
