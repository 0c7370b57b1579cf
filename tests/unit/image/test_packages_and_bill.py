"""The lock of packages, the pool, and the bill of materials that follows from dpkg's status."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from pinion.image import debian, recipe
from pinion.image.debian import planned, python_version
from pinion.image.errors import ImageError
from pinion.image.packages import Lock, Locked, broken, control, index, read_lock, write_lock
from pinion.image.recipe import ARCHITECTURE, PACKAGES, RELEASE
from pinion.image.sbom import bill, purl

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: arm64
Version: 2.41-12+deb13u4
Depends: libgcc-s1
Description: GNU C Library
 Long text.

Package: bash
Status: install ok installed
Architecture: arm64
Version: 5.2.37-2
Depends: base-files (>= 2.1.12) | other, libc6 (>= 2.38)

Package: gone
Status: deinstall ok config-files
Version: 1
"""


def _lock(*packages: tuple[str, str]) -> Lock:
    return Lock(
        release=RELEASE,
        architecture=ARCHITECTURE,
        asked=PACKAGES,
        epoch=1_763_000_000,
        packages=tuple(
            Locked(name=name, version=version, architecture="arm64", file=f"{name}.deb", size=1, sha256="ab" * 32)
            for name, version in packages
        ),
    )


LOCK = _lock(("bash", "5.2.37-2"), ("libc6", "2.41-12+deb13u4"), ("raspi-firmware", "1:1"))


def test_the_bill_is_valid_cyclonedx_by_their_own_schema() -> None:
    found = bill(STATUS, LOCK, name="pinion-base", digest="cd" * 32, carried=("raspi-firmware",))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(found)) is None
    broken_one = found | {"components": [{"type": "nonsense", "name": "x"}]}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(broken_one)) is not None, (
        "the validator does look"
    )


def test_the_bill_names_what_is_installed_with_digests_and_dependencies() -> None:
    found = bill(STATUS, LOCK, name="pinion-base", digest="cd" * 32, carried=("raspi-firmware",))
    text = json.dumps(found)
    assert [entry["name"] for entry in json.loads(text)["components"]] == ["bash", "libc6", "raspi-firmware"]
    bash = purl("bash", "5.2.37-2", "arm64", "trixie")
    edges = {entry["ref"]: entry["dependsOn"] for entry in json.loads(text)["dependencies"]}
    assert edges[bash] == ["pkg:deb/debian/libc6@2.41-12%2Bdeb13u4?arch=arm64&distro=trixie"]
    assert "gone" not in text
    assert bill(STATUS, LOCK, name="pinion-base", digest="cd" * 32) == bill(
        STATUS, LOCK, name="pinion-base", digest="cd" * 32
    )


@pytest.mark.parametrize(
    "lock", [_lock(("bash", "5.2.37-2"), ("libc6", "2.40")), _lock(("bash", "5.2.37-2"))], ids=["version", "unknown"]
)
def test_an_image_with_what_is_not_locked_gets_no_bill(lock: Lock) -> None:
    with pytest.raises(ImageError, match=r"libc6 2\.41-12.* not in the lock"):
        bill(STATUS, lock, name="pinion-base", digest="cd" * 32)


def test_a_status_without_packages_gets_no_bill() -> None:
    with pytest.raises(ImageError, match="no installed package"):
        bill("", LOCK, name="pinion-base", digest="cd" * 32)


# --- lock and pool ----------------------------------------------------------------------------------------------------


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "state" / "lock.json"
    assert read_lock(path) is None
    write_lock(path, LOCK)
    assert read_lock(path) == LOCK
    path.write_text(path.read_text().replace('"zstd"', '"other"'))
    assert read_lock(path) is None, "a lock of other packages is none of ours"
    path.write_text("{")
    with pytest.raises(ImageError, match="remove it to make a new one"):
        read_lock(path)


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Path, Lock]:
    """A pool with one package of our own making."""
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: tiny\nVersion: 1:2-3\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: short\n long\n .\n text\n"
    )
    file = tmp_path / "tiny.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(file)], check=True, capture_output=True)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    package = Locked(
        name="tiny", version="1:2-3", architecture="all", file=file.name, size=file.stat().st_size, sha256=digest
    )
    return tmp_path, LOCK.model_copy(update={"packages": (package,)})


def test_a_damaged_or_missing_package_is_seen(pool: tuple[Path, Lock]) -> None:
    folder, lock = pool
    assert broken(lock, folder) == []
    file = folder / "tiny.deb"
    whole = file.read_bytes()
    for content in (whole[:-1], whole[:100] + b"!" + whole[101:]):
        file.write_bytes(content)
        assert [package.name for package in broken(lock, folder)] == ["tiny"]
    file.unlink()
    assert [package.name for package in broken(lock, folder)] == ["tiny"]


def test_the_index_is_what_apt_reads_and_names_the_locked_digest(pool: tuple[Path, Lock]) -> None:
    folder, lock = pool
    assert control(folder / "tiny.deb")["Description"] == "short\n long\n .\n text"
    text = index(lock, folder)
    assert "Package: tiny\nVersion: 1:2-3\n" in text
    assert f"SHA256: {lock.packages[0].sha256}\n" in text
    assert "Filename: pool/tiny.deb\n" in text
    (folder / "no.deb").write_bytes(b"")
    with pytest.raises(ImageError, match="no Debian package"):
        control(folder / "no.deb")


# --- the recipe -------------------------------------------------------------------------------------------------------


def test_the_key_follows_from_everything_that_shapes_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    key, disk = planned(LOCK)
    assert planned(LOCK) == (key, disk)
    assert planned(_lock(("bash", "6")))[0] != key
    monkeypatch.setattr(recipe, "INITRAMFS", "COMPRESS=gzip\n")
    assert planned(LOCK)[0] != key


def test_the_base_holds_no_identity() -> None:
    text = "".join(content for content, _ in recipe.files(planned(LOCK)[1]).values()) + recipe.script()
    assert "PRIVATE KEY" not in text
    assert "rm -f /etc/ssh/ssh_host_*" in text


def test_idle_programs_are_taken_away_again() -> None:
    script = recipe.idle("3.13")
    assert script.count("--add") == script.count("--remove") == 6
    assert python_version(_lock(("python3.13-minimal", "3.13.5-2"))) == "3.13"
    with pytest.raises(ImageError, match="python3"):
        python_version(LOCK)


def test_what_dpkg_would_make_twice_is_made_once_at_the_end() -> None:
    for path in recipe._MADE_AT_THE_END:
        assert f"--add {path}\n" in recipe.idle("3.13")
        assert sum(line.split()[:1] == [Path(path).name] for line in recipe.script().splitlines()) == 1
    # where dpkg's triggers no longer run them, the files that they read are there: both are after the files of the recipe
    build = recipe.build_script()
    assert build.index("/idle back") < build.index("/script")


def test_nothing_but_a_seed_makes_a_host_key() -> None:
    masked = next(line for line in recipe.script().splitlines() if line.startswith("systemctl mask"))
    assert "sshd-keygen.service" in masked


def test_progress_is_read_from_what_dpkg_says() -> None:
    said = "I: installing\nUnpacking bash (5) ...\nSetting up bash (5) ...\nUnpacking zstd (1) ...\nUnpacking bash (5) over (5) ...\n"
    assert debian.progress(said, 183) == "2 of 183 packages unpacked, 1 ready"
    assert (
        debian.progress(f"{said}update-initramfs: Generating /boot/initrd.img-6\n", 183)
        == "1 of 183 packages ready; makes the initramfs"
    )
    assert debian.progress("", 183) == "0 of 183 packages unpacked, 0 ready"


def test_a_kept_root_counts_only_whole(tmp_path: Path) -> None:
    made, kept = tmp_path / "root.tar", tmp_path / ".root-1.tar"
    made.write_bytes(b"root")
    assert not debian._kept(kept)
    debian._keep(made, kept)
    assert debian._kept(kept)
    kept.write_bytes(b"roo")
    assert not debian._kept(kept)
    debian._forget(tmp_path)
    assert list(tmp_path.iterdir()) == []
