"""Images: a valid OCI layout, the same digest for the same content, another for any other."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from pinion.lab.images.oci import Image, ImageFile, archive
from pinion.lab.images.own import HELLO, PAUSE, own_images, write_images

IMAGE = Image(
    name="example.invalid/one:1",
    architecture="amd64",
    files={"/bin/tool": ImageFile(b"program", 0o755), "/etc/passwd": ImageFile(b"root")},
    entrypoint=("/bin/tool",),
    ports=(80,),
)


def _members(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as read:
        found = {}
        for member in read:
            stream = read.extractfile(member)
            found[member.name] = stream.read() if stream else b""
        return found


def test_every_descriptor_leads_to_its_blob() -> None:
    made = archive(IMAGE)
    members = _members(made.content)
    assert json.loads(members["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (reference,) = json.loads(members["index.json"])["manifests"]
    assert reference["digest"] == made.digest
    assert reference["annotations"]["io.containerd.image.name"] == IMAGE.name
    manifest = json.loads(members[f"blobs/sha256/{made.digest[7:]}"])
    for descriptor in (reference, manifest["config"], *manifest["layers"]):
        blob = members[f"blobs/sha256/{descriptor['digest'][7:]}"]
        assert len(blob) == descriptor["size"]
        assert f"sha256:{hashlib.sha256(blob).hexdigest()}" == descriptor["digest"]
    config = json.loads(members[f"blobs/sha256/{manifest['config']['digest'][7:]}"])
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["ExposedPorts"] == {"80/tcp": {}}


def test_layer_holds_the_files_with_their_modes_and_nothing_of_this_machine() -> None:
    members = _members(archive(IMAGE).content)
    manifest = json.loads(members[f"blobs/sha256/{archive(IMAGE).digest[7:]}"])
    layer = members[f"blobs/sha256/{manifest['layers'][0]['digest'][7:]}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as read:
        entries = {member.name: member for member in read}
    assert list(entries) == ["bin", "bin/tool", "etc", "etc/passwd"]
    assert (entries["bin/tool"].mode, entries["etc/passwd"].mode, entries["bin"].mode) == (0o755, 0o644, 0o755)
    assert {(member.uid, member.gid, member.mtime, member.uname) for member in entries.values()} == {(0, 0, 0, "")}


def test_order_of_files_does_not_matter() -> None:
    backwards = replace(IMAGE, files=dict(reversed(IMAGE.files.items())))
    assert archive(backwards).content == archive(IMAGE).content


@pytest.mark.parametrize(
    "other",
    [
        replace(IMAGE, entrypoint=("/bin/other",)),
        replace(IMAGE, architecture="arm64"),
        replace(IMAGE, user="0:0"),
        replace(IMAGE, environment={"A": "b"}),
        replace(IMAGE, files={**IMAGE.files, "/bin/tool": ImageFile(b"program", 0o700)}),
        replace(IMAGE, files={**IMAGE.files, "/bin/tool": ImageFile(b"Program", 0o755)}),
    ],
)
def test_any_other_content_has_another_digest(other: Image) -> None:
    assert archive(other).digest != archive(IMAGE).digest


@pytest.mark.parametrize("path", ["bin/tool", "/bin/../tool", "//bin/tool", "/bin/", "/./bin"])
def test_paths_that_could_leave_the_image_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="a path in an image"):
        archive(replace(IMAGE, files={path: ImageFile(b"")}))


def test_same_digest_in_another_process() -> None:
    program = (
        "from pinion.lab.images.own import own_images; from pinion.lab.images.oci import archive\n"
        "print(*(archive(image).digest for image in own_images(b'busybox', 'amd64')))"
    )
    path = os.pathsep.join(sys.path)
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {" ".join(archive(image).digest for image in own_images(b"busybox", "amd64")) + "\n"}


def test_written_once(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"program")
    made = write_images(busybox, tmp_path / "images")
    assert set(made) == {PAUSE, HELLO}
    before = {path.name: path.stat().st_ino for path in (tmp_path / "images").iterdir()}
    assert set(before) == {"pause.tar", "hello.tar"}
    write_images(busybox, tmp_path / "images")
    assert {path.name: path.stat().st_ino for path in (tmp_path / "images").iterdir()} == before
