"""The role's interface is the plan's model, and the module's documentation its parameters."""

from __future__ import annotations

from typing import Any

import yaml
from unit.hosts.sites import REPOSITORY

from pinion.plan.model import Concern

ROLE = REPOSITORY / "roles/os_tuning"


def test_the_argument_spec_is_the_model_of_a_concern() -> None:
    spec: dict[str, Any] = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"][
        "options"
    ]
    assert list(spec) == ["os_tuning_concern"]
    options = spec["os_tuning_concern"]["options"]
    assert list(options) == list(Concern.model_fields)
    for name, field in Concern.model_fields.items():
        assert options[name]["type"] == ("str" if field.annotation is str else "list")
        assert options[name]["required"]
        assert options[name]["description"]


def test_defaults_name_the_plan_and_no_value() -> None:
    assert yaml.safe_load((ROLE / "defaults/main.yml").read_text()) == {
        "os_tuning_concern": "{{ pinion_host.concerns.os_tuning }}"
    }


def test_every_role_has_its_deploy_and_both_are_in_the_site_runs() -> None:
    roles = sorted(path.name for path in (REPOSITORY / "roles").iterdir() if path.is_dir())
    (play,) = yaml.safe_load((REPOSITORY / "playbooks/site.yml").read_text())
    assert roles
    assert [entry["role"] for entry in play["roles"]] == roles
    site = (REPOSITORY / "deploys/site.py").read_text()
    for role in roles:
        assert (REPOSITORY / "deploys" / f"{role}.py").is_file()
        assert f'"{role}.py"' in site
