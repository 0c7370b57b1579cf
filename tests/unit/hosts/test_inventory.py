"""Ansible, pyinfra and the plan name the same hosts, with the same concerns: there is no second host list."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyinfra.api.exceptions import InventoryError
from unit.hosts.sites import ADMIN, DC, LAB, REPOSITORY, plan_of_file

from pinion.drivers.hosts.inventory import Login, ansible_variables, login, pyinfra_data
from pinion.drivers.hosts.pyinfra_site import SiteConnector


def ansible_inventory(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`ansible-inventory --list` of the site file *path*."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PINION_"))}
    return subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", str(path), "--list", "--export"],
        cwd=REPOSITORY,
        env=kept | {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def plain(value: Any) -> Any:
    """*value* without Ansible's marks of untrusted text."""
    if isinstance(value, dict):
        return (
            value["__ansible_unsafe"] if set(value) == {"__ansible_unsafe"} else {k: plain(v) for k, v in value.items()}
        )
    return [plain(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", [LAB, DC], ids=["lab", "dc-rack-12"])
def test_one_host_list(path: Path) -> None:
    plan = plan_of_file(path)
    listed = json.loads(ansible_inventory(path).stdout)
    ansible = listed["_meta"]["hostvars"]
    pyinfra = {name: (data, groups) for name, data, groups in SiteConnector.make_names_data(str(path))}
    assert list(pyinfra) == [host.name for host in plan.hosts]
    assert set(ansible) == set(pyinfra)
    for host in plan.hosts:
        assert (
            plain(ansible[host.name]["pinion_host"])
            == pyinfra[host.name][0]["pinion_host"]
            == host.model_dump(mode="json")
        )
        assert plain(ansible[host.name]["ansible_host"]) == pyinfra[host.name][0]["ssh_hostname"] == host.address
        assert pyinfra[host.name][1] == list(host.groups)
        for group in host.groups:
            assert host.name in listed[group]["hosts"]


def test_the_login_comes_from_the_environment_and_host_keys_are_checked() -> None:
    host = plan_of_file(LAB).hosts[0]
    assert login({}) == Login(None, None)
    assert login({"PINION_SSH_KEY": "", "PINION_KNOWN_HOSTS": ""}) == Login(None, None)
    access = login({"PINION_SSH_KEY": "/k", "PINION_KNOWN_HOSTS": "/with blank/known"})
    for_ansible, for_pyinfra = ansible_variables(host, access), pyinfra_data(host, access)
    assert for_ansible["ansible_ssh_private_key_file"] == for_pyinfra["ssh_key"] == "/k"
    assert "StrictHostKeyChecking=yes" in str(for_ansible["ansible_ssh_common_args"])
    assert "'UserKnownHostsFile=/with blank/known'" in str(for_ansible["ansible_ssh_common_args"])
    assert for_pyinfra["ssh_strict_host_key_checking"] == "yes"
    assert for_pyinfra["ssh_known_hosts_file"] == "/with blank/known"
    bare = ansible_variables(host, Login(None, None))
    assert "ansible_ssh_private_key_file" not in bare
    assert "StrictHostKeyChecking=yes" in str(bare["ansible_ssh_common_args"])


def test_text_of_the_site_file_is_never_a_template(tmp_path: Path) -> None:
    stated = yaml.safe_load(LAB.read_text())
    stated["access"] = {"admins": [f"{ADMIN} {{{{ 1 + 1 }}}}"]}
    path = tmp_path / "site.yml"
    path.write_text(yaml.safe_dump(stated, sort_keys=False))
    (tmp_path / "charts").symlink_to(REPOSITORY / "charts")
    show = {"ansible.builtin.debug": {"var": "pinion_host.concerns.access.files"}}
    play = [
        {
            "hosts": "pi-01",
            "gather_facts": False,
            "tasks": [show],
        }
    ]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", str(path), str(tmp_path / "play.yml"), "-c", "local"],
        cwd=REPOSITORY,
        env=os.environ | {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ops@example {{ 1 + 1 }}" in done.stdout


def test_a_bad_site_file_ends_ansible_and_pyinfra_with_its_problems(tmp_path: Path) -> None:
    path = tmp_path / "site.yml"
    path.write_text(LAB.read_text().replace("vid: 100", "vid: 4095"))
    done = ansible_inventory(path)
    assert done.returncode != 0
    assert "the site file has problems" in done.stderr
    assert str(path) in done.stderr
    with pytest.raises(InventoryError, match="the site file has problems"):
        list(SiteConnector.make_names_data(str(path)))


def test_an_unknown_site_is_told_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINION_ROOT", str(REPOSITORY))
    with pytest.raises(InventoryError, match=r"no site of that name; known sites: dc-rack-12, lab"):
        list(SiteConnector.make_names_data("nowhere"))
    with pytest.raises(InventoryError, match="name the site"):
        list(SiteConnector.make_names_data(None))


def test_pyinfra_knows_the_connector() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyinfra", "@pinion/lab", "debug-inventory", "--json"],
        cwd=REPOSITORY,
        env=os.environ | {"PINION_ROOT": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "pi-04" in done.stdout
    assert shutil.which("pyinfra", path=str(Path(sys.executable).parent))
