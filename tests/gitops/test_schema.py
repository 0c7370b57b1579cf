"""Each object of a tree is one that Flux's or Argo CD's own definitions take, with no field that they do not know."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gitops.built import MISSING, built, planned, rendered
from gitops.crds import definitions, missing
from gitops.test_equal import TOOLS, lab
from pinion.site.model import ClusterOwner

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not there: make tools"),
    pytest.mark.usefixtures("fetched"),
]


@pytest.fixture(scope="module")
def fetched() -> None:
    """The definitions are there, or these tests say why they cannot be had."""
    if (why := missing()) is not None:
        pytest.skip(why)


def strict(schema: Any) -> Any:
    """*schema* so that it refuses what it does not name, as the API server does where it is asked to be strict."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    closed = isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields")
    if closed and schema.get("type") == "object" and "additionalProperties" not in schema:
        found["additionalProperties"] = False
    return found


def problems(item: dict[str, Any]) -> list[str]:
    """What *item*'s definition has against it."""
    group, _, version = item["apiVersion"].partition("/")
    (schema,) = (
        known["schema"]["openAPIV3Schema"]
        for definition in definitions()
        if (definition["spec"]["group"], definition["spec"]["names"]["kind"]) == (group, item["kind"])
        for known in definition["spec"]["versions"]
        if known["name"] == version and known["served"]
    )
    validator = Draft202012Validator({**strict(schema), "additionalProperties": False})
    bare = {**item, "metadata": {}}
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(bare)]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_object_of_the_tools_own_fits_its_definition(tool: ClusterOwner, tmp_path: Path) -> None:
    stated = lab()
    stated["kubernetes"]["repository"] = {**stated["kubernetes"]["repository"], "credentials": "racks"}
    rendered(planned(stated), tool, tmp_path)
    own = built(tmp_path, tool).own
    kinds = {item["kind"] for item in own}
    flux = {"GitRepository", "Kustomization", "HelmRelease"}
    assert kinds == (flux if tool is ClusterOwner.FLUX else {"AppProject", "Application"})
    assert [problem for item in own for problem in problems(item)] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_field_that_is_misspelt_or_of_another_type_does_not(tool: ClusterOwner, tmp_path: Path) -> None:
    rendered(planned(lab()), tool, tmp_path)
    for item in built(tmp_path, tool).own:
        assert problems({**item, "spec": {**item["spec"], "misspelt": 1}}), item["kind"]
        for key in item["spec"].keys() - {"values"}:  # a chart's, of which its definition says nothing
            wrong = copy.deepcopy(item)
            wrong["spec"][key] = 5.5
            assert problems(wrong), f"{item['kind']} {key}"
