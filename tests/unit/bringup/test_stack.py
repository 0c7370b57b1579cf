"""Stack settings come from endpoints, secrets stay secret, and only the lock of a dead process is removed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinion.bringup.stack import Locks, remove_stale_locks, settings_from_endpoints
from pinion.bringup.stack_environment import StackError, environment
from pinion.cli import main


def test_every_credential_is_marked_secret(tmp_path: Path) -> None:
    for name in ("token", "password"):
        (tmp_path / name).write_text(f"the-{name}\n")
    settings = settings_from_endpoints(
        {
            "netbox": {"url": "https://n", "token_file": str(tmp_path / "token"), "ca_file": "/ca.pem"},
            "switches": {
                "tor-1": {"user": "pinion", "password_file": str(tmp_path / "password"), "known_hosts": "/kh"}
            },
            "kubernetes": {"kubeconfig": "/k"},
        }
    )
    assert {key for key, (_, secret) in settings.values.items() if secret} == {"netbox:token", "switch:password"}
    assert settings.values["netbox:token"] == ("the-token", True)
    assert settings.values["kubernetes:kubeconfig"] == ("/k", False)


def lock(folder: Path, pid: int, host: str) -> Path:
    path = folder / ".pulumi/locks/organization/pinion/lab" / f"{pid}-{host}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, "hostname": host, "username": "root", "timestamp": "2026-01-01T00:00:00Z"}))
    return path


def test_only_the_lock_of_a_dead_process_of_this_machine_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    gone = lock(tmp_path, dead.pid, socket.gethostname())
    alive = lock(tmp_path, os.getpid(), socket.gethostname())
    elsewhere = lock(tmp_path, dead.pid, "another-machine")
    assert remove_stale_locks(tmp_path, "lab") == Locks((f"lock of process {dead.pid}, which is gone",))
    assert not gone.exists()
    assert alive.exists()
    assert elsewhere.exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ('{"pid": 4', "it is no JSON"),
        ("[]", "it names no machine"),
        ('{"pid": 999999999}', "it names no machine"),
        ('{"hostname": "@here@"}', "it names no process"),
        ('{"hostname": "@here@", "pid": "7"}', "it names no process"),
        ('{"hostname": "@here@", "pid": 0}', "it names no process"),
        ('{"hostname": "@here@", "pid": true}', "it names no process"),
    ],
)
def test_a_lock_that_does_not_say_who_holds_it_stays_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    unclear = lock(tmp_path, 1, "x")
    unclear.write_text(text.replace("@here@", socket.gethostname()))
    found = remove_stale_locks(tmp_path, "lab")
    assert found.removed == ()
    assert [why in line and str(unclear) in line for line in found.unclear] == [True]
    assert unclear.exists()
    said = CliRunner().invoke(main, ["stack", "unlock", "lab"])
    assert said.exit_code == 1
    assert f"rm {unclear}" in said.output
    assert unclear.exists()


def test_a_lock_that_may_not_be_read_stays_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    folder = lock(tmp_path, 1, "x")
    folder.unlink()
    folder.mkdir()  # root may read any file, and no folder
    found = remove_stale_locks(tmp_path, "lab")
    assert "Is a directory" in found.unclear[0]
    assert folder.exists()


def test_without_a_backend_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    with pytest.raises(StackError, match="bin/pinion-env"):
        environment(tmp_path)
