"""Stack settings come from endpoints, secrets stay secret, and only the lock of a dead process is removed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pinion.bringup.stack import remove_stale_locks, settings_from_endpoints
from pinion.bringup.stack_environment import StackError, environment


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
    assert len(remove_stale_locks(tmp_path, "lab")) == 1
    assert not gone.exists()
    assert alive.exists()
    assert elsewhere.exists()


def test_without_a_backend_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    with pytest.raises(StackError, match="bin/pinion-env"):
        environment(tmp_path)
