"""The base out of Raspberry Pi OS, on an archive of the same shape that is made here: MBR, FAT32 and ext4, compressed by xz."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from unit.hosts.sites import DC, plan_of_file, planned
from unit.services.artefact_server import Artefacts, serving

from pinion.cli import main
from pinion.image import archives, choice, raspios
from pinion.image import base as bases
from pinion.image.accounts import with_our_user
from pinion.image.archives import Archive, have, kept
from pinion.image.choice import base_of, note, settle
from pinion.image.disk import take
from pinion.image.errors import ImageError
from pinion.image.kinds import Kind
from pinion.image.layout import BOOT, MIB, ROOT, SEED
from pinion.image.node import Supplied
from pinion.image.node import build as build_node
from pinion.image.rootfs import RootFs
from pinion.image.signing import Signer, prehash, verify
from pinion.image.store import Store

TOOLS = ("sfdisk", "mkfs.fat", "mcopy", "mke2fs", "debugfs", "minisign", "qemu-aarch64-static", "qemu-system-aarch64")
needs_tools = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, TOOLS)),
    reason="builds images: as root, with the Debian packages of tools/image-packages.txt",
)
EPOCH = 1_781_827_200
#: As the product has it; the tests put their own in its place.
OFFICIAL = raspios.ARCHIVE
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: arm64
Version: 2.41-12+rpt1

Package: raspi-firmware
Status: install ok installed
Architecture: all
Version: 1:1.20260601
Depends: libc6
"""
ROOT_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nrpi:x:1000:1000:,,,:/home/rpi:/bin/sh\n",
    "etc/shadow": "root:*:20000:0:99999:7:::\nrpi:$y$j9T$secret:20000:0:99999:7:::\nsshd:!*:20000::::::\n",
    "etc/group": "root:x:0:\nsudo:x:27:rpi\nvideo:x:44:other,rpi\nrpi:x:1000:\n",
    "etc/gshadow": "root:*::\nsudo:*::rpi\nrpi:!::\n",
    "etc/subuid": "rpi:100000:65536\n",
    "etc/fstab": "PARTUUID=deadbeef-01 /boot/firmware vfat defaults 0 2\n",
    "etc/hostname": "raspberrypi\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/ssh/sshd_config": "Include /etc/ssh/sshd_config.d/*.conf\n",
    "etc/ssh/ssh_host_rsa_key": "a key that all cards would share\n",
    "etc/sudoers.d/010_proxy": 'Defaults:%sudo env_keep += "http_proxy"\n',
    "etc/sudoers.d/010_pi-nopasswd": "rpi ALL=(ALL) NOPASSWD: ALL\n",
    "home/rpi/.bashrc": "# theirs\n",
    "var/lib/dpkg/status": STATUS,
    "usr/bin/first": "one content\n",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive: a boot partition and a root as the vendor's, with next to nothing in them."""
    folder = tmp_path_factory.mktemp("archive")
    tree = folder / "tree"
    for name, text in {**ROOT_FILES, **{path.lstrip("/"): "" for path in raspios._NEEDED}}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.link(tree / "usr/bin/first", tree / "usr/bin/second")
    (tree / "etc/resolv.conf").symlink_to("/run/resolv.conf")
    boot = folder / "boot"
    subprocess.run(["mkfs.fat", "-C", "-F", "32", boot, str(34 << 10)], check=True, capture_output=True)
    for name in (*raspios._BOOT_NEEDED, "config.txt", "cmdline.txt", "user-data", "LICENCE.broadcom"):
        (folder / name).write_text(f"their {name}\n")
        subprocess.run(["mcopy", "-i", boot, folder / name, f"::{name}"], check=True)
    subprocess.run(["mmd", "-i", boot, "::overlays"], check=True)
    # not whole mebibytes, as nothing promises that they are
    root, image = folder / "root", folder / "image"
    root.touch()
    os.truncate(root, 8 * MIB + 4096)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, root], check=True)
    image.touch()
    os.truncate(image, 44 * MIB)
    table = "label: dos\nlabel-id: 0xdeadbeef\nstart=2048, size=69632, type=c\nstart=71680, size=16392, type=83\n"
    subprocess.run(["sfdisk", "--quiet", image], input=table, text=True, check=True)
    with image.open("r+b") as stream:
        for start, part in ((2048, boot), (71680, root)):
            stream.seek(start * 512)
            stream.write(part.read_bytes())
    return lzma.compress(image.read_bytes(), preset=0)


@pytest.fixture(scope="module")
def archive(whole: bytes) -> Iterator[Archive]:
    """Its record in the place of the vendor's; nobody has it at its address."""
    stated = Archive("http://127.0.0.1:1/images/2026-pi.img.xz", len(whole), hashlib.sha256(whole).hexdigest(), EPOCH)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(raspios, "ARCHIVE", stated)
        patched.setattr(choice, "ARCHIVE", stated)
        yield stated


@pytest.fixture(scope="module")
def built(archive: Archive, whole: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, bases.Base]:
    """The base out of it, handed over as a file, and where it lies."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "handed").write_bytes(whole)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PINION_STATE", str(folder / "state"))
        patched.setenv("PINION_CACHE", str(folder / "cache"))
        store = Store.of("dc-rack-12")
    return store, bases.ensure(store, quiet, Kind.RASPIOS, archive=folder / "handed")


@pytest.fixture
def handed(whole: bytes, tmp_path: Path) -> Path:
    """The archive as a file."""
    path = tmp_path / "handed.img.xz"
    path.write_bytes(whole)
    return path


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("PINION_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PINION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PINION_SSH_KEY", raising=False)
    return Store.of("dc-rack-12")


def quiet(_stage: str, _text: str) -> None:
    """Say nothing."""


def root_of(image: Path, base: bases.Base, tmp_path: Path) -> RootFs:
    """The image's root, to be looked at."""
    path = tmp_path / "looked-at.fs"
    path.unlink(missing_ok=True)
    raspios.cut(image, base.disk[ROOT].start, base.disk[ROOT].size, path, base.disk[ROOT].size)
    return RootFs(path, EPOCH)


@needs_tools
def test_the_base_is_the_vendors_with_our_user_network_and_first_boot(
    built: tuple[Store, bases.Base], tmp_path: Path
) -> None:
    base = built[1]
    assert base.disk.disk_id != 0xDEADBEEF
    root = root_of(base.image, base, tmp_path)
    assert root.text("/etc/passwd").splitlines()[1] == "pinion:x:1000:1000:,,,:/home/pinion:/bin/bash"
    assert root.text("/etc/shadow").splitlines()[1].startswith("pinion:!:"), "their password is no way in"
    assert root.text("/etc/group").splitlines()[1:] == ["sudo:x:27:pinion", "video:x:44:other,pinion", "pinion:x:1000:"]
    assert root.text("/etc/subuid") == "pinion:100000:65536\n"
    assert root.entries("/home") == {"pinion": "folder"}
    assert root.text("/home/pinion/.bashrc") == "# theirs\n"
    assert base.disk.partuuid(ROOT) in root.text("/etc/fstab")
    assert root.text("/etc/hostname") == "unassigned\n"
    assert root.text("/etc/machine-id") == ""
    assert root.kind("/etc/resolv.conf") == "file", "not a link to what another network manager writes"
    assert set(root.entries("/etc/sudoers.d")) == {"010_proxy", "10-pinion"}
    assert not any(name.startswith("ssh_host_") for name in root.entries("/etc/ssh"))
    for unit in ("NetworkManager.service", "userconfig.service", "cloud-init-local.service"):
        assert root.kind(f"/etc/systemd/system/{unit}") == "link"
    wanted = root.entries("/etc/systemd/system/multi-user.target.wants")
    assert set(wanted) == {"pinion-first-boot.service", "systemd-networkd.service", "ssh.service"}
    assert "first-boot" in root.text("/usr/local/lib/pinion/first-boot")
    links = subprocess.run(
        ["debugfs", "-R", "stat /usr/bin/second", root.file], capture_output=True, text=True, check=True
    )
    assert "Links: 2" in links.stdout, "what we do not alter is theirs to the byte"


@needs_tools
def test_a_nodes_image_keeps_their_kernels_and_firmware_and_brings_its_own_lines(
    built: tuple[Store, bases.Base],
) -> None:
    store, base = built
    listed = subprocess.run(
        ["mdir", "-b", "-i", f"{base.image}@@{base.disk[BOOT].start}", "::/"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "user-data" not in listed
    assert "cmdline.txt" not in listed
    assert "overlays/" in listed
    plan = plan_of_file(DC)
    made = build_node(store, plan, base, "pi-01", Supplied(), quiet)
    start = base.disk[BOOT].start
    assert take(made.path, start, "kernel_2712.img") == b"their kernel_2712.img\n"
    assert f"root=PARTUUID={base.disk.partuuid(ROOT)}" in take(made.path, start, "cmdline.txt").decode()
    assert b"their" not in take(made.path, start, "config.txt")
    assert json.loads(take(made.path, base.disk[SEED].start, "identity.json"))["node"] == "pi-01"


@needs_tools
def test_the_same_archive_gives_the_same_digest_and_a_bill_of_what_it_holds(
    built: tuple[Store, bases.Base], archive: Archive
) -> None:
    store, base = built
    made = base.manifest.stat().st_mtime_ns
    assert bases.ensure(store, quiet, Kind.RASPIOS).manifest.stat().st_mtime_ns == made, "it is there"
    assert bases.ensure(store, quiet, Kind.RASPIOS, rebuild=True).sha256 == base.sha256
    manifest = json.loads(base.manifest.read_text())
    assert (manifest["inputs"]["base"], manifest["inputs"]["archive"]["sha256"]) == ("raspios", archive.sha256)
    bill = base.bill.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    assert {entry["name"] for entry in json.loads(bill)["components"]} == {archive.name, "libc6", "raspi-firmware"}


@needs_tools
def test_a_base_that_another_operator_built_is_signed_by_who_uses_it(
    built: tuple[Store, bases.Base], tmp_path: Path
) -> None:
    store, base = built
    other = replace(store, state=tmp_path / "other" / "dc-rack-12")
    other.state.mkdir(parents=True)
    for user in (other, store):
        assert bases.ensure(user, quiet, Kind.RASPIOS).sha256 == base.sha256
        public = Signer(user.signing_key).public_path.read_text()
        for path in (base.image, base.manifest, base.bill):
            verify(public, prehash(path), path.with_name(f"{path.name}.minisig").read_text(), path.name)


@needs_tools
def test_a_tampered_archive_and_one_of_another_shape_are_refused(
    built: tuple[Store, bases.Base],
    archive: Archive,
    handed: Path,
    store: Store,
    whole: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handed.write_bytes(whole[:-1] + b"!")
    command = ["image", "build", "dc-rack-12", "--base-archive", str(handed)]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 2
    assert "refused: its SHA-256 is" in said.output
    assert not kept(archive, store.archives).exists()
    there, base = built
    before = base.manifest.stat().st_mtime_ns
    with pytest.raises(ImageError, match="refused"):
        bases.ensure(there, quiet, Kind.RASPIOS, archive=handed)
    assert base.manifest.stat().st_mtime_ns == before, "also where a base is there"
    handed.write_bytes(whole)
    monkeypatch.setattr(raspios, "_NEEDED", ("/usr/bin/never",))
    with pytest.raises(ImageError, match="its root has no /usr/bin/never: not the shape"):
        bases.ensure(store, quiet, Kind.RASPIOS, archive=handed)
    assert not list(store.cache.glob("base-*"))
    assert not (store.cache / ".building").exists()


# --- where the archive comes from -------------------------------------------------------------------------------------


@pytest.fixture
def vendor(whole: bytes, archive: Archive) -> Iterator[Artefacts]:
    with serving() as found:
        found.files["/2026-pi.img.xz"] = whole
        yield found


def at(vendor: Artefacts, archive: Archive) -> Archive:
    return Archive(f"{vendor.address}/2026-pi.img.xz", archive.size, archive.sha256, archive.epoch)


@needs_tools
def test_a_fetch_that_broke_off_goes_on_and_says_how_far_it_is(
    vendor: Artefacts, archive: Archive, tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_SPOKEN", 0.01)
    vendor.break_after = [1000]
    said: list[str] = []
    stated = at(vendor, archive)
    assert have(stated, tmp_path, None, lambda _stage, text: said.append(text)).read_bytes() == whole
    assert vendor.asked == [("/2026-pi.img.xz", None), ("/2026-pi.img.xz", "bytes=1000-")]
    assert any("MiB of 2026-pi.img.xz" in text for text in said)
    asked = len(vendor.asked)
    assert have(stated, tmp_path, None, quiet) == kept(stated, tmp_path)
    assert len(vendor.asked) == asked, "what is here is not fetched"
    kept(stated, tmp_path).write_bytes(b"damaged")
    assert have(stated, tmp_path, None, quiet).read_bytes() == whole


@needs_tools
def test_what_the_vendor_has_is_used_with_the_recorded_digest_only(
    vendor: Artefacts, archive: Archive, tmp_path: Path, whole: bytes
) -> None:
    vendor.files["/2026-pi.img.xz"] = whole[:-1] + b"!"
    with pytest.raises(ImageError, match="refused: its SHA-256"):
        have(at(vendor, archive), tmp_path, None, quiet)
    assert list(tmp_path.iterdir()) == []


@needs_tools
def test_a_vendor_that_is_not_reached_is_told_with_what_to_do(archive: Archive, store: Store) -> None:
    said = CliRunner().invoke(main, ["image", "build", "dc-rack-12", "--base", "raspios"])
    assert said.exit_code == 2
    assert "Connection refused" in said.output
    assert "--base-archive FILE" in said.output
    assert "--base debian" in said.output


def test_the_recorded_archive_is_the_official_one() -> None:
    assert OFFICIAL.url.startswith("https://downloads.raspberrypi.com/raspios_lite_arm64/images/")
    assert OFFICIAL.name == "2026-06-18-raspios-trixie-arm64-lite.img.xz"
    assert len(OFFICIAL.sha256) == 64


# --- which base -------------------------------------------------------------------------------------------------------


@needs_tools
def test_the_base_is_decided_once(
    vendor: Artefacts, archive: Archive, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of_file(DC)
    said: list[str] = []
    assert settle(store, plan, None, lambda _stage, text: said.append(text)) is Kind.DEBIAN
    assert "not reachable" in said[0]
    assert "Connection refused" in said[0]
    note(store, Kind.DEBIAN)
    monkeypatch.setattr(choice, "ARCHIVE", at(vendor, archive))
    assert settle(store, plan, None, quiet) is Kind.DEBIAN, "what was built stays what is tried and written"
    assert settle(store, plan, Kind.RASPIOS, quiet) is Kind.RASPIOS
    store.kind_file.unlink()
    assert settle(store, plan, None, quiet) is Kind.RASPIOS, "the vendor answers"


@needs_tools
def test_what_could_not_be_built_is_not_noted(archive: Archive, handed: Path, store: Store) -> None:
    plan = plan_of_file(DC)
    note(store, Kind.DEBIAN)
    with pytest.raises(ImageError, match="Connection refused"):
        base_of(store, plan, quiet, Kind.RASPIOS)
    assert settle(store, plan, None, quiet) is Kind.DEBIAN
    kind, base = base_of(store, plan, quiet, archive=handed)
    assert kind is settle(store, plan, None, quiet) is Kind.RASPIOS
    assert base_of(store, plan, quiet) == (kind, base), "the archive is not asked for again"


@needs_tools
def test_pis_of_debian_get_debian_and_nobody_is_asked(store: Store, archive: Archive) -> None:
    plan = planned(DC, concerns={})
    devices = tuple(
        device.model_copy(update={"platform": "debian-13"}) if device.name.startswith("pi-") else device
        for device in plan.devices
    )
    said: list[str] = []
    pure = plan.model_copy(update={"devices": devices})
    assert settle(store, pure, None, lambda _stage, text: said.append(text)) is Kind.DEBIAN
    assert said == []


# --- accounts ---------------------------------------------------------------------------------------------------------

NOBODY = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "/etc/shadow": "root:$y$hash:1::::::\n",
    "/etc/group": "root:x:0:\n",
}


def test_an_archive_without_a_user_gets_ours_and_nobody_keeps_a_password() -> None:
    made = with_our_user(NOBODY)
    assert made.home is None
    assert made.texts["/etc/passwd"].endswith("pinion:x:1000:1000::/home/pinion:/bin/bash\n")
    assert made.texts["/etc/shadow"].splitlines()[0] == "root:!:1::::::"
    assert with_our_user(made.texts).texts == made.texts


@pytest.mark.parametrize(
    ("path", "line", "said"),
    [
        ("/etc/passwd", "pinion:x:999:999::/:/bin/sh\n", "has not the number 1000"),
        ("/etc/group", "users:x:1000:\n", "a group has the number 1000"),
    ],
)
def test_accounts_that_stand_in_the_way_are_refused(path: str, line: str, said: str) -> None:
    with pytest.raises(ImageError, match=said):
        with_our_user(NOBODY | {path: NOBODY[path] + line})
    with pytest.raises(ImageError, match="no /etc/shadow"):
        with_our_user({"/etc/passwd": "", "/etc/group": ""})
