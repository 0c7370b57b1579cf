"""The wipe on a node: order, overwriting, links, what it never touches, a second run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pinion.services.node_programs import wipe as program


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, ...]:
    return (f"{tmp_path}/",)


def test_a_secret_is_overwritten_before_it_is_removed(tmp_path: Path, places: tuple[str, ...]) -> None:
    folder = tmp_path / "identity"
    (folder / "old").mkdir(parents=True)
    key = folder / "old" / "key.pem"
    key.write_text("SECRET" * 400)
    (folder / "current").symlink_to("old")
    held = os.open(key, os.O_RDONLY)  # whoever held it open sees what is on the medium now
    try:
        answer = program.wipe((), [(str(folder), True)], places)
        assert len(os.pread(held, 4096, 0)) == 2400
        assert b"SECRET" not in os.pread(held, 4096, 0)
    finally:
        os.close(held)
    assert not folder.exists()
    (wiped,) = answer["wiped"]  # type: ignore[misc]  # a list of objects
    assert wiped["overwritten"] is True
    assert wiped["files"] == 2
    assert answer["failed"] == []
    assert answer["media"]


def test_links_are_removed_and_not_followed(tmp_path: Path, places: tuple[str, ...]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "away").symlink_to(outside)
    (folder / "file").symlink_to(outside / "kept")
    program.wipe((), [(str(folder), True)], places)
    assert not folder.exists()
    assert (outside / "kept").read_text() == "kept"


def test_what_is_not_there_is_fine_and_a_second_run_finds_nothing(tmp_path: Path, places: tuple[str, ...]) -> None:
    (tmp_path / "a").write_text("x")
    data = [(str(tmp_path / "a"), True), (str(tmp_path / "none"), False)]
    assert [one["path"] for one in program.look(data, places)["there"]] == [str(tmp_path / "a")]  # type: ignore[attr-defined]
    assert (tmp_path / "a").exists(), "a look changes nothing"
    assert len(program.wipe((), data, places)["wiped"]) == 1  # type: ignore[arg-type]
    assert program.wipe((), data, places)["wiped"] == []


def test_nothing_outside_of_its_places_is_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = tmp_path / "etc"
    victim.mkdir()
    for path in (str(victim), f"/var/lib/../..{victim}", "/var/lib/", "/", "/etc/passwd"):
        request = json.dumps({"units": [], "data": [{"path": path, "secret": True}]})
        assert program.main([request]) == 2
        assert program.main([request, "--check"]) == 2
        assert "not touched" in capsys.readouterr().err
    assert victim.exists()


def test_a_request_that_means_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for request in ("{", "[]", '{"units": []}'):
        assert program.main([request]) == 2
    assert capsys.readouterr().out == ""


def test_what_cannot_be_wiped_is_said_and_the_rest_goes_on(
    tmp_path: Path, places: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_text("x")
    real = program.overwrite

    def refusing(path: Path) -> None:
        if path.name == "first":
            raise OSError(30, "Read-only file system")
        real(path)

    monkeypatch.setattr(program, "overwrite", refusing)
    answer = program.wipe((), [(str(tmp_path / "first"), True), (str(tmp_path / "second"), True)], places)
    assert len(answer["failed"]) == 1  # type: ignore[arg-type]
    assert (tmp_path / "first").exists()
    assert not (tmp_path / "second").exists()


def test_a_unit_that_there_is_not_is_no_failure() -> None:
    assert program.stop(["pinion-no-such-unit.timer"]) == ([], [])
