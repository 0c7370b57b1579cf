"""What the stack's configuration says of a site's services, as the commands beside `pulumi up` use it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pinion.bringup.access import Access, access_of
from pinion.bringup.verification import probers, switch_drivers
from pinion.plan import plan
from pinion.site.find import site_file
from pinion.site.loader import load

KUBECONFIG = "apiVersion: v1\nkind: Config\nusers: [{name: x, user: {token: very-secret}}]\n"
SWITCHES = {"switch:username": "pinion", "switch:password": "one", "switch:knownHosts": "/etc/pinion/known_hosts"}


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a `pulumi` that prints the configuration in its file `config`."""
    program = tmp_path / "pulumi"
    program.write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path / 'config'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    return tmp_path


def stated(folder: Path, values: dict[str, str]) -> Access:
    """The access that a stack with *values* gives."""
    (folder / "config").write_text(json.dumps({key: {"value": value} for key, value in values.items()}))
    return access_of(folder, "lab", {})


def test_a_kubeconfig_that_is_stated_as_text_is_a_file_for_this_process_and_its_children(configured: Path) -> None:
    for text in (KUBECONFIG, json.dumps({"kind": "Config"})):
        found = stated(configured, {"kubernetes:kubeconfig": text}).kubeconfig
        assert found is not None
        assert "secret" not in str(found)
        assert found.read_text() == text, "and again, from its beginning"
        assert subprocess.run(["cat", found], capture_output=True, text=True, check=True).stdout == text
        assert not any("secret" in path.read_text() for path in configured.iterdir() if path.name != "config")


def test_a_kubeconfig_that_is_stated_as_a_path_is_that_file(configured: Path) -> None:
    assert stated(configured, {"kubernetes:kubeconfig": "/etc/k"}).kubeconfig == Path("/etc/k")
    assert stated(configured, {"kubernetes:kubeconfig": "~/k"}).kubeconfig == Path.home() / "k"
    assert stated(configured, {}).kubeconfig is None


def test_who_verifies_logs_in_to_switches_as_who_configures_them(configured: Path) -> None:
    drivers = switch_drivers(stated(configured, SWITCHES | {"switch:enablePassword": "two"}))
    assert drivers is not None
    (switch,) = plan(load(site_file("lab"))).switches
    used = drivers(switch)._access  # type: ignore[attr-defined]
    assert used.enable_password.get_secret_value() == "two"
    assert str(used.known_hosts) == "/etc/pinion/known_hosts"


def test_switches_are_not_probed_while_something_is_unset_without_which_they_are_not_configured(
    configured: Path,
) -> None:
    for key in SWITCHES:
        found = stated(configured, {name: value for name, value in SWITCHES.items() if name != key})
        assert switch_drivers(found) is None
        assert len(probers(found)) == 1, "hosts alone"
