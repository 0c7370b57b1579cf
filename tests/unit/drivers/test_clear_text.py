"""A NetBox token crosses no network in clear text, unless the stack says in words that it may."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from pinion.bringup import access
from pinion.bringup.stack_environment import StackError
from pinion.drivers.clear_text import is_in_clear
from pinion.drivers.netbox import NetBoxDriver, RefusedError
from pinion.provider.settings import Settings, check_settings

AWAY = (
    "http://netbox.example.net", "http://192.168.1.2:8000", "http://[2001:db8::1]", "http://localhost.example.net", "http://127.0.0.1.example.net",
    "http://0.0.0.0", "HTTP://netbox", "ftp://netbox", "http://[bad",
)  # fmt: skip
HERE = (
    "https://netbox.example.net",
    "HTTPS://netbox",
    "http://127.0.0.1:8000",
    "http://127.8.9.1",
    "http://[::1]:80",
    "http://localhost:1",
)


@pytest.mark.parametrize(("url", "clear"), [*((url, True) for url in AWAY), *((url, False) for url in HERE)])
def test_only_this_machine_is_spoken_to_without_tls(url: str, clear: bool) -> None:
    assert is_in_clear(url) is clear


def test_the_driver_refuses_before_it_sends_anything() -> None:
    with pytest.raises(RefusedError, match=r"clear text.*https.*allowPlainHttp") as refused:
        NetBoxDriver("http://192.0.2.1", "nbt_0.0")
    assert "nbt_0" not in str(refused.value)
    NetBoxDriver("http://192.0.2.1", "nbt_0.0", allow_plain_http=True).close()


def test_the_stack_hears_of_it_by_its_own_key_and_may_allow_it() -> None:
    (failure,) = check_settings({"netboxUrl": "http://netbox.example.net"}).failures
    assert failure.path == "netbox:url"
    assert "pulumi config set netbox:allowPlainHttp true" in failure.reason
    assert not check_settings({"netboxUrl": "http://netbox.example.net", "netboxAllowPlainHttp": "true"}).failures
    assert not check_settings({"netboxUrl": "http://127.0.0.1:8000"}).failures
    with pytest.raises(ValidationError, match="clear text"):
        Settings(netbox_url="http://netbox.example.net")


@pytest.mark.parametrize("allowed", [False, True])
def test_verify_heeds_the_same_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allowed: bool) -> None:
    held = {"netbox:url": {"value": "http://netbox.example.net"}, "netbox:token": {"value": "nbt_0.0"}}
    if allowed:
        held["netbox:allowPlainHttp"] = {"value": "true"}
    done = subprocess.CompletedProcess([], 0, json.dumps(held), "")
    monkeypatch.setattr(access, "environment", lambda _root: {})
    monkeypatch.setattr(access.subprocess, "run", lambda *_args, **_more: done)
    if allowed:
        assert access.access_of(tmp_path, "my-rack", {}).netbox_allow_plain_http
        return
    with pytest.raises(StackError, match=r"netbox:url http://netbox.example.net: .*allowPlainHttp"):
        access.access_of(tmp_path, "my-rack", {})
