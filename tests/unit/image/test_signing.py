"""Signatures: minisign takes ours, and nothing that was changed passes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pinion.image.errors import ImageError
from pinion.image.signing import Signer, prehash, verify


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Signer, Path, Path]:
    file = tmp_path / "base.img"
    file.write_bytes(b"image" * 1000)
    signer = Signer(tmp_path / "keys" / "signing.pem")
    return signer, file, signer.sign(file)


def test_the_key_is_made_once_for_the_operator_alone(signed: tuple[Signer, Path, Path]) -> None:
    signer, file, first = signed
    key = signer.path.read_bytes()
    assert signer.path.stat().st_mode & 0o777 == 0o600
    assert signer.sign(file).read_text() == first.read_text()
    assert signer.path.read_bytes() == key


def test_a_key_that_others_may_read_is_refused(signed: tuple[Signer, Path, Path]) -> None:
    signer, file, _ = signed
    signer.path.chmod(0o644)
    with pytest.raises(ImageError, match="others may read"):
        signer.sign(file)


@pytest.mark.skipif(shutil.which("minisign") is None, reason="needs minisign (tools/image-packages.txt)")
def test_minisign_takes_our_signature_and_refuses_another_file(signed: tuple[Signer, Path, Path]) -> None:
    signer, file, _ = signed

    def check() -> int:
        return subprocess.run(
            ["minisign", "-V", "-p", signer.public_path, "-m", file], capture_output=True, check=False
        ).returncode

    assert check() == 0
    file.write_bytes(file.read_bytes() + b"!")
    assert check() != 0


def test_ours_refuses_a_changed_file_key_name_and_comment(signed: tuple[Signer, Path, Path], tmp_path: Path) -> None:
    signer, file, signature = signed
    public, text = signer.public_path.read_text(), signature.read_text()
    verify(public, prehash(file), text, "base.img")
    with pytest.raises(ImageError, match="signature is that of"):
        verify(public, prehash(file), text, "other.img")
    with pytest.raises(ImageError, match="does not hold"):
        verify(public, prehash(file), text.replace("file:base.img", "file:other.img"), "other.img")
    with pytest.raises(ImageError, match="minisign's format"):
        verify(public, prehash(file), "nonsense", "base.img")
    other = Signer(tmp_path / "other" / "signing.pem")
    other.key()
    with pytest.raises(ImageError, match="another key"):
        verify(other.public_path.read_text(), prehash(file), text, "base.img")
    file.write_bytes(b"changed")
    with pytest.raises(ImageError, match="does not hold"):
        verify(public, prehash(file), text, "base.img")
