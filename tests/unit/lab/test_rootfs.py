"""Files in a machine's root: never outside it, whatever its links say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.lab import rootfs
from pinion.lab.errors import LabError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "usr/lib").mkdir(parents=True)
    (made / "etc").mkdir()
    return made


def test_plain(root: Path) -> None:
    assert rootfs.write(root, "/etc/new/deep/file", "x", 0o640) is True
    assert rootfs.write(root, "/etc/new/deep/file", "x", 0o640) is False
    assert (root / "etc/new/deep/file").read_text() == "x"
    assert (root / "etc/new/deep/file").stat().st_mode & 0o777 == 0o640


def test_links_are_followed_as_the_machine_would(root: Path) -> None:
    (root / "lib").symlink_to("usr/lib")
    (root / "etc/abs").symlink_to("/usr")
    (root / "etc/up").symlink_to("../../../../usr")
    for path in ("/lib/a", "/etc/abs/lib/b", "/etc/up/lib/c"):
        rootfs.write(root, path, "x")
    assert sorted(entry.name for entry in (root / "usr/lib").iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("target", ["/outside", "../../outside", "/../../outside"])
def test_a_link_out_of_the_root_stays_in(root: Path, target: str) -> None:
    (root / "etc/out").symlink_to(target)
    assert rootfs.inside(root, "/etc/out/file") == root / "outside/file"


def test_dots_stay_in(root: Path) -> None:
    assert rootfs.inside(root, "/../../etc/passwd") == root / "etc/passwd"


def test_a_link_at_the_end_is_replaced_and_not_followed(root: Path) -> None:
    victim = root.parent / "victim"
    victim.write_text("precious")
    (root / "etc/resolv.conf").symlink_to(victim)
    rootfs.write(root, "/etc/resolv.conf", "mine")
    assert victim.read_text() == "precious"
    assert not (root / "etc/resolv.conf").is_symlink()


def test_loops_and_relative_paths_are_refused(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(LabError, match="too many"):
        rootfs.inside(root, "/a/x")
    with pytest.raises(LabError, match="starts with /"):
        rootfs.inside(root, "etc/x")


def test_accounts(root: Path) -> None:
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\npostgres:x:101:103::/var/lib/postgresql:/bin/sh\n")
    assert rootfs.account(root, "postgres") == (101, 103)
    with pytest.raises(LabError, match="no account redis"):
        rootfs.account(root, "redis")
