"""Who may log in."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.lab.switch.nos.users import Users, document, hashed, matches


def test_a_hash_knows_its_password_and_no_other() -> None:
    known = hashed("right")
    assert matches("right", known)
    assert not matches("wrong", known)
    assert hashed("right") != known, "salted"
    assert "right" not in known


@pytest.mark.parametrize(
    "known", ["", "right", "scrypt$1$2", "scrypt$16384$8$1$!$!", "md5$16384$8$1$AAAA$AAAA", "scrypt$3$8$1$AAAA$AAAA"]
)
def test_a_broken_hash_admits_nobody(known: str) -> None:
    assert not matches("right", known)


def test_the_file_is_refused_when_others_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(document({"ops": "right"}))
    path.chmod(0o644)
    with pytest.raises(ValueError, match="mode 0644 lets others read it"):
        Users.read(path)
    path.chmod(0o600)
    users = Users.read(path)
    assert users.admits("ops", "right")
    assert not users.admits("ops", "wrong")
    assert not users.admits("root", "right")
    assert users.may_enable(None)


def test_an_enable_password(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.touch(mode=0o600)
    path.write_text(document({"ops": "right"}, "deeper"))
    users = Users.read(path)
    assert not users.may_enable(None)
    assert not users.may_enable("right")
    assert users.may_enable("deeper")
    assert "deeper" not in path.read_text()
