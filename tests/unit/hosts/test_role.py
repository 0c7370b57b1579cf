"""The roles and deploys of concerns are all alike, and the site runs take the concerns from the plan."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from unit.hosts.sites import LAB, REPOSITORY, plan_of_file

from pinion.drivers.hosts.concern_files import concern_files
from pinion.drivers.hosts.inventory import Login, ansible_variables, pyinfra_data
from pinion.drivers.hosts.requests import UnknownConcernError, selection, task
from pinion.plan.hosts import CONCERNS, concern_names

#: The role that all others are made of.
CONVERGE = REPOSITORY / "roles/converge"


def test_every_concern_has_its_role_and_deploy_and_there_are_no_others() -> None:
    for name in concern_names():
        for path, text in concern_files(name).items():
            assert (REPOSITORY / path).read_text() == text, "python -m pinion.drivers.hosts.concern_files"
    roles = {path.name for path in (REPOSITORY / "roles").iterdir() if path.is_dir()}
    deploys = {path.stem for path in (REPOSITORY / "deploys").glob("*.py")}
    assert roles == {*concern_names(), "converge"}
    assert deploys == {*concern_names(), "site"}


def test_a_concern_has_the_name_of_its_function() -> None:
    hosts = plan_of_file(LAB).hosts
    assert len({concern.__name__ for concern in CONCERNS}) == len(CONCERNS)
    assert {name for host in hosts for name in host.concerns} <= set(concern_names())
    assert all(name == concern.name for host in hosts for name, concern in host.concerns.items())


def test_the_site_run_is_one_task() -> None:
    (play,) = yaml.safe_load((REPOSITORY / "playbooks/site.yml").read_text())
    role: list[dict[str, Any]] = yaml.safe_load((CONVERGE / "tasks/main.yml").read_text())
    for tasks in (play["tasks"], role):
        assert [list(task) for task in tasks] == [["name", "pinion_host", "tags"]]
        assert tasks[0]["tags"] == "always"
    assert "roles" not in play


def test_the_role_s_arguments_are_its_defaults() -> None:
    spec = yaml.safe_load((CONVERGE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((CONVERGE / "defaults/main.yml").read_text())
    assert {name: option["default"] for name, option in spec.items()} == defaults


def test_ansible_and_pyinfra_ask_the_same() -> None:
    for host in plan_of_file(LAB).hosts:
        access = Login(None, None)
        by_ansible, by_pyinfra = ansible_variables(host, access), pyinfra_data(host, access)
        asked = [selection(data["pinion_host"], data["pinion_concerns"]) for data in (by_ansible, by_pyinfra)]  # type: ignore[arg-type]
        assert asked[0] == asked[1]
        assert asked[0]["whole"]
        assert [concern["name"] for concern in asked[0]["concerns"]] == list(host.concerns)
        assert not any("claims" in concern for request in asked for concern in request["concerns"])


def test_some_concerns_alone_leave_the_others() -> None:
    user = {
        "name": "x",
        "system": True,
        "comment": "",
        "home": "/",
        "create_home": False,
        "shell": "/bin/sh",
        "groups": [],
    }
    host = {"concerns": {"a": {"name": "a", "users": [user]}, "b": {"name": "b", "files": []}}}
    known = ("a", "b", "c")
    chosen = selection(host, known, ["b"])
    assert (chosen["concerns"], chosen["whole"]) == ([{"name": "b", "files": []}], False)
    assert chosen["others"] == {"a": (("users", "x"),)}
    assert selection(host, known, ["c"])["concerns"] == [{"name": "c"}]  # taken back
    with pytest.raises(UnknownConcernError, match="there is no concern 'd'; there are a, b, c"):
        selection(host, known, ["d"])


def test_a_run_has_its_name_from_the_environment() -> None:
    assert task({}) == {"action": "apply", "run": ""}
    assert task({"PINION_RUN": "r2"}) == {"action": "apply", "run": "r2"}
    assert task({"PINION_RUN": "r2", "PINION_UNDO": "r1"}) == {"action": "back", "of": "r1", "run": "r2"}
