"""Writing: what is refused, what a cut leaves, and that a card that lies is found out."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.image.errors import ImageError
from pinion.image.write import BLOCK, BlockCard, Card, Facts, FileCard, card, parse_facts, refusals, told, write

SIZE = 3 * BLOCK + 12345 * 512


def _answer(**changes: object) -> str:
    """lsblk's answer for a card in a reader."""
    entry = {
        "path": "/dev/sdx", "type": "disk", "model": "SD Reader ", "serial": "0123", "size": 32_000_000_000, "ro": False, "rm": True,
        "tran": "usb", "label": None, "fstype": None, "mountpoints": [None],
        "children": [{"path": "/dev/sdx1", "type": "part", "size": 1000, "label": "boot", "fstype": "vfat", "mountpoints": [None]}],
    }  # fmt: skip
    return json.dumps({"blockdevices": [entry | changes]})


def _part(**changes: object) -> list[dict[str, object]]:
    return [
        {"path": "/dev/sdx1", "type": "part", "size": 1000, "label": None, "fstype": "ext4", "mountpoints": [None]}
        | changes
    ]


def test_a_card_in_a_reader_may_be_written() -> None:
    facts = parse_facts(_answer())
    assert refusals(facts, 2_000_000_000) == []
    assert facts.name == "0123"
    said = "\n".join(told(facts))
    assert all(word in said for word in ("/dev/sdx", "SD Reader", "0123", "32.0 GB", "/dev/sdx1", "vfat boot"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"type": "part"}, "it is a partition"),
        ({"type": "rom"}, "it is no disk but a rom"),
        ({"ro": True}, "read-only"),
        ({"size": 1000}, "smaller"),
        ({"mountpoints": ["/media/card"]}, "/dev/sdx is mounted at /media/card"),
        ({"children": _part(mountpoints=["/media/card"])}, "/dev/sdx1 is mounted at /media/card"),
        ({"children": _part(mountpoints=["/"])}, "this system runs from it"),
        ({"children": _part(mountpoints=["[SWAP]"])}, "this system runs from it"),
        (
            {"children": _part(children=_part(path="/dev/mapper/x", type="crypt", mountpoints=["/home"]))},
            "this system runs from it",
        ),
        ({"children": _part(children=_part(path="/dev/md0", type="raid1"))}, "something is built on it: /dev/md0"),
    ],
)
def test_what_must_not_be_written_is_refused(changes: dict[str, object], said: str) -> None:
    assert any(said in reason for reason in refusals(parse_facts(_answer(**changes)), 2_000_000_000))


@pytest.mark.parametrize("text", ["", "[]", '{"blockdevices": []}', '{"blockdevices": [{"path": "/dev/sda"}]}'])
def test_an_answer_that_is_not_lsblks_is_no_device(text: str) -> None:
    with pytest.raises(ImageError, match="lsblk"):
        parse_facts(text)


def test_a_file_or_nothing_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ImageError, match="not a block device"):
        card(tmp_path / "file")
    with pytest.raises(ImageError, match="No such file"):
        card(tmp_path / "none")


# --- the contract of every card ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("image") / "node.img"
    content = os.urandom(1000) * (SIZE // 1000 + 1)
    path.write_bytes(content[:SIZE])
    return path, hashlib.sha256(content[:SIZE]).hexdigest()


@pytest.fixture(params=["file", "loop"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Card]:
    backing = tmp_path / "card"
    backing.write_bytes(b"\xa5" * (SIZE + BLOCK))
    if request.param == "file":
        yield FileCard(backing)
        return
    if os.geteuid() != 0:
        pytest.skip("a loop device needs root")
    made = subprocess.run(["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this machine has no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield BlockCard(Path(device))
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def _content(target: Card, length: int) -> bytes:
    target.open()
    try:
        return b"".join(target.read(length))
    finally:
        target.close()


def test_what_was_written_is_read_back(image: tuple[Path, str], target: Card) -> None:
    path, digest = image
    heard: list[tuple[str, int, int]] = []
    write(path, digest, target, target.facts(), lambda *said: heard.append(said))
    assert _content(target, SIZE) == path.read_bytes()
    assert heard[-1] == ("reads back", SIZE, SIZE)
    assert ("writes", SIZE, SIZE) in heard


def test_a_write_that_is_cut_leaves_no_partition_table(image: tuple[Path, str], target: Card) -> None:
    path, digest = image

    def cut(what: str, done: int, whole: int) -> None:
        if what == "writes" and done > 2 * BLOCK:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, digest, target, target.facts(), cut)
    assert _content(target, BLOCK) == bytes(BLOCK)
    write(path, digest, target, target.facts(), lambda *_: None)
    assert _content(target, SIZE) == path.read_bytes()


def test_an_image_that_is_not_what_its_manifest_says_leaves_no_partition_table(
    image: tuple[Path, str], target: Card
) -> None:
    with pytest.raises(ImageError, match="build it again"):
        write(image[0], "0" * 64, target, target.facts(), lambda *_: None)
    assert _content(target, BLOCK) == bytes(BLOCK)


def test_another_device_in_its_place_is_not_written(image: tuple[Path, str], target: Card) -> None:
    facts = target.facts()
    seen = Facts(facts.path, facts.kind, "another", "serial", facts.size, False, True, "usb", (), ())
    with pytest.raises(ImageError, match="another device than a moment ago"):
        write(image[0], image[1], target, seen, lambda *_: None)
    assert _content(target, BLOCK) == b"\xa5" * BLOCK


class ForgetfulCard(FileCard):
    """Says that it has more room than it has, as counterfeit cards do: what lies beyond is lost without a word."""

    def write(self, offset: int, data: bytes) -> None:
        if offset < 2 * BLOCK:
            super().write(offset, data)


def test_a_card_that_loses_what_it_takes_is_found_out_and_does_not_start(
    image: tuple[Path, str], tmp_path: Path
) -> None:
    backing = tmp_path / "card"
    backing.write_bytes(bytes(SIZE + BLOCK))
    target = ForgetfulCard(backing)
    with pytest.raises(ImageError, match="not what was written"):
        write(image[0], image[1], target, target.facts(), lambda *_: None)
    assert backing.read_bytes()[:BLOCK] == bytes(BLOCK)
