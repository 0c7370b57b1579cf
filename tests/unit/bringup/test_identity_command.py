"""`pinion identity revoke`, `backup` and `restore`: what is refused, what is said, and with which exit code."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pinion.bringup.host_shell import UnreachedError
from pinion.bringup.refusing import Refused
from pinion.cli import identity as command
from pinion.cli import main
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.backup import read
from pinion.drivers.identity.place import VARIABLE

LAB = Path(__file__).parents[3] / "inventories/lab/site.yml"
PASSPHRASE = b"correct horse battery staple"
AT = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "site.yml"
    shutil.copy(LAB, found)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "authority"))
    return found


@pytest.fixture
def passphrase(tmp_path: Path) -> str:
    """The option for a file with `PASSPHRASE`."""
    path = tmp_path / "passphrase"
    path.touch(mode=0o600)
    path.write_bytes(PASSPHRASE + b"\n")
    return f"--passphrase-file={path}"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["identity", *words])


def elsewhere(site: Path) -> None:
    stated = yaml.safe_load(site.read_text())
    del stated["concerns"]["site_ca"]
    stated["concerns"]["identity"] = {"authority": "https://ca.example.net"}
    site.write_text(yaml.safe_dump(stated))


def test_a_host_is_revoked_by_name_and_the_bound_is_said(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(authority: Authority, stated: object, subject: str, converge: object) -> Refused:
        del authority, stated, converge
        asked.append(subject)
        return Refused(AT, AT + timedelta(days=7))

    monkeypatch.setattr(command, "refuse", refuse)
    result = run("revoke", str(site), "pi-03")
    assert result.exit_code == 0
    assert "nothing that it has now is renewed any more; all of it is over by 2026-12-01 12:00 UTC" in result.output
    said = json.loads(run("revoke", str(site), "pi-99", "--json").stdout)
    assert said == {
        "node": "pi-99",
        "refused": "2026-11-24T12:00:00+00:00",
        "worthless_by": "2026-12-01T12:00:00+00:00",
    }
    assert asked == ["pi-03.lab.internal", "pi-99.lab.internal"], "one that has left the site file too"


def test_of_an_authority_that_is_run_elsewhere_a_number_alone_can_be_revoked(site: Path, passphrase: str) -> None:
    elsewhere(site)
    result = run("revoke", str(site), "pi-03")
    assert result.exit_code == 1
    assert "have it refuse pi-03 by name there, or give --serial" in result.output
    for words in (("backup", str(site), "there", passphrase), ("restore", str(site), "there", passphrase)):
        result = run(*words)
        assert result.exit_code == 1
        assert "is run elsewhere, and so is its backup" in result.output


def test_a_bad_number_and_a_machine_without_the_authority(site: Path) -> None:
    assert run("revoke", str(site), "pi-03", "--serial", "xyz").exit_code == 2
    result = run("revoke", str(site), "pi-03")
    assert result.exit_code == 2
    assert "pinion identity init lab" in result.output


def test_a_backup_is_one_file_that_its_passphrase_opens(
    site: Path, tmp_path: Path, passphrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("init", str(site)).exit_code == 0
    monkeypatch.setattr(command, "fetch_database", lambda host, _: b"database of " + host.name.encode())
    file = tmp_path / "kept"
    said = json.loads(run("backup", str(site), str(file), passphrase, "--json").stdout)
    assert (said["site"], said["file"]) == ("lab", str(file))
    found = read(file, "lab", PASSPHRASE)
    assert found.database == b"database of mgmt-1"
    assert {"root.key", "intermediate.key", "provisioner.key", "root.crt"} <= set(found.files)
    assert "PRIVATE" not in json.dumps(said)


def test_an_authoritys_host_that_is_not_reached_and_a_file_that_is_no_backup(
    site: Path, tmp_path: Path, passphrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("init", str(site)).exit_code == 0

    def unreached(*_: Any) -> bytes:
        raise UnreachedError("mgmt-1 (10.77.99.10): no route to host")

    monkeypatch.setattr(command, "fetch_database", unreached)
    result = run("backup", str(site), str(tmp_path / "kept"), passphrase)
    assert result.exit_code == 2
    assert "no route to host" in result.output
    assert not (tmp_path / "kept").exists()
    (tmp_path / "kept").write_text("half")
    key = (tmp_path / "authority" / "lab" / "provisioner.key").read_text()
    result = run("restore", str(site), str(tmp_path / "kept"), passphrase)
    assert result.exit_code == 2
    assert "kept cannot be opened: it is no sealed file" in result.output
    assert (tmp_path / "authority" / "lab" / "provisioner.key").read_text() == key, "nothing was touched"


@pytest.mark.parametrize("word", ["backup", "restore"])
def test_a_passphrase_is_wanted_before_anything_is_touched(
    site: Path, tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("init", str(site)).exit_code == 0
    key = (tmp_path / "authority" / "lab" / "provisioner.key").read_text()

    def asked(*_: Any) -> bytes:
        raise AssertionError("the host is asked for something")

    monkeypatch.setattr(command, "fetch_database", asked)
    monkeypatch.setattr(command, "place_database", asked)
    short = tmp_path / "short"
    short.touch(mode=0o600)
    result = run(word, str(site), str(tmp_path / "kept"), f"--passphrase-file={short}")
    assert result.exit_code == 2
    assert "a passphrase of 0 characters, and 15 are the least" in result.output
    assert "Missing option '--passphrase-file'" in run(word, str(site), str(tmp_path / "kept")).output
    assert (tmp_path / "authority" / "lab" / "provisioner.key").read_text() == key


@pytest.mark.parametrize("word", ["revoke", "backup", "restore"])
def test_help_has_an_example(word: str) -> None:
    result = run(word, "--help")
    assert result.exit_code == 0
    assert f"pinion identity {word} dc-rack-12" in result.output
