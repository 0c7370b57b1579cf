"""The chart triton: lints strictly, refuses bad values, renders what the plan says, and pods that drain, probe and ask for nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from unit.charts.rendering import CHARTS, HELM, helm, planned, rendered

from pinion.plan.pool import LAB_IMAGE

CHART, RELEASE = CHARTS / "triton", "triton-pinion-tiny"

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not there: tools/obtain.py helm")


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    return planned("triton")


@pytest.fixture(scope="module")
def objects(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return rendered("triton", RELEASE, values)


def pod(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = objects[f"Deployment/{RELEASE}"]["spec"]["template"]["spec"]
    return found


def test_lints_strictly(values: dict[str, Any]) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", "-", values=values)
    assert done.returncode == 0, done.stdout


def test_says_what_the_plan_says(values: dict[str, Any], objects: dict[str, dict[str, Any]]) -> None:
    (model,) = (item for name, item in objects.items() if name.startswith("ConfigMap/"))
    assert set(objects) == {
        f"ConfigMap/{model['metadata']['name']}", f"Deployment/{RELEASE}", f"Service/{RELEASE}", f"PodDisruptionBudget/{RELEASE}",
        f"NetworkPolicy/{RELEASE}", f"Pod/{RELEASE}-infers", f"NetworkPolicy/{RELEASE}-infers",
    }  # fmt: skip
    assert model["immutable"] is True
    assert model["data"] == {"config.pbtxt": values["model"]["config"], "settings.json": values["model"]["settings"]}
    spec = pod(objects)
    assert spec["nodeSelector"] == values["nodeSelector"]
    assert spec["tolerations"] == values["tolerations"]
    assert spec["serviceAccountName"] == values["serviceAccount"]
    assert {container["image"] for container in (*spec["initContainers"], *spec["containers"])} == {LAB_IMAGE}
    ports = {port["name"]: port["port"] for port in objects[f"Service/{RELEASE}"]["spec"]["ports"]}
    assert ports == values["ports"] == {"http": 8000, "metrics": 8002}


def test_a_new_pod_is_ready_before_an_old_one_goes_and_that_one_drains(objects: dict[str, dict[str, Any]]) -> None:
    deployment, spec = objects[f"Deployment/{RELEASE}"]["spec"], pod(objects)
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (triton,) = spec["containers"]
    unlisted = triton["lifecycle"]["preStop"]["sleep"]["seconds"]
    (answers,) = (word.partition("=")[2] for word in triton["command"] if word.startswith("--exit-timeout-secs"))
    assert spec["terminationGracePeriodSeconds"] > unlisted + int(answers)
    assert {name: triton[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")} == {
        "startup": "/v2/health/ready",
        "readiness": "/v2/models/pinion-tiny/ready",
        "liveness": "/v2/health/live",
    }


def test_another_model_or_window_makes_another_revision_and_leaves_the_former_its_settings(
    values: dict[str, Any],
) -> None:
    def revision(changed: dict[str, Any]) -> str:
        spec = pod(rendered("triton", RELEASE, changed))
        return str(spec["volumes"][0]["configMap"]["name"])

    other = copy.deepcopy(values)
    other["model"]["config"] = values["model"]["config"].replace("microseconds: 2000", "microseconds: 3000")
    assert other != values
    more = values | {"replicas": 3}
    assert revision(values) == revision(more) != revision(other)


def test_the_policy_lets_in_who_the_flows_name_and_out_to_the_models_source(
    values: dict[str, Any], objects: dict[str, dict[str, Any]]
) -> None:
    spec = objects[f"NetworkPolicy/{RELEASE}"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    ask, fetch = spec["ingress"]
    assert [port["port"] for port in (*ask["ports"], *fetch["ports"])] == [8000, 8002]
    assert {"ipBlock": {"cidr": "10.244.0.0/16"}} in ask["from"]
    assert {"ipBlock": {"cidr": "10.244.0.0/16"}} not in fetch["from"]
    (out,) = spec["egress"]
    assert out == {
        "to": [{"ipBlock": {"cidr": "10.77.100.10/32"}}],
        "ports": [{"port": 8090, "protocol": "TCP"}],
    }
    without = rendered("triton", RELEASE, values | {"networkPolicy": {"enabled": False}})
    assert not any(name.startswith("NetworkPolicy") for name in without)


@pytest.mark.parametrize("name", [f"Deployment/{RELEASE}", f"Pod/{RELEASE}-infers"])
def test_meets_pod_security_restricted(objects: dict[str, dict[str, Any]], name: str) -> None:
    spec = objects[name]["spec"]
    found = spec["template"]["spec"] if "template" in spec else spec
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert found["automountServiceAccountToken"] is False
    assert not any("hostPath" in volume for volume in found.get("volumes", ()))
    for container in (*found.get("initContainers", ()), *found["containers"]):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert set(container["resources"]) == {"requests", "limits"}


def test_triton_only_reads_its_repository(objects: dict[str, dict[str, Any]]) -> None:
    (triton,) = pod(objects)["containers"]
    assert {mount["mountPath"]: mount.get("readOnly", False) for mount in triton["volumeMounts"]} == {
        "/models": True,
        "/dev/shm": False,
        "/tmp": False,
    }


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("replica", 1, "replica"),
        ("replicas", -1, "/replicas"),
        ("image.reference", "registry.example.org/triton", "/image/reference"),
        ("model.config", "name: x", "/model/config"),
        ("model.settings", "{}", "/model/settings"),
        ("model.name", "../etc", "/model/name"),
        ("ports.http", 80, "/ports/http"),
        ("drain.unlistedSeconds", 0, "/drain/unlistedSeconds"),
        ("sharedMemory", "64", "/sharedMemory"),
        ("networkPolicy.ingress", [{"from": [], "ports": [8000]}], "/networkPolicy/ingress/0/from"),
        ("networkPolicy.egress", [{"to": ["any"], "ports": [80], "protocol": "TCP"}], "/networkPolicy/egress/0/to"),
    ],
)
def test_bad_values_are_refused(values: dict[str, Any], path: str, value: object, told: str) -> None:
    bad = copy.deepcopy(values)
    *folders, last = path.split(".")
    inside = bad
    for folder in folders:
        inside = inside[folder]
    inside[last] = value
    done = helm("template", RELEASE, str(CHART), "--kube-version", "1.34.2", values=bad)
    assert done.returncode != 0
    assert told in done.stderr


def test_without_a_model_it_renders_nothing() -> None:
    done = helm("template", RELEASE, str(CHART), "--kube-version", "1.34.2", values={})
    assert done.returncode != 0
    assert "model.config is the model's config.pbtxt" in done.stderr or "model.name is" in done.stderr


def test_settings_name_one_model_by_what_was_signed(values: dict[str, Any]) -> None:
    told = json.loads(values["model"]["settings"])
    ((name, facts),) = told["models"].items()
    assert name == values["model"]["name"] == "pinion-tiny"
    assert facts["format"] == "onnx"
    assert facts["sha256"] in values["model"]["config"]
    assert told["key"].startswith("-----BEGIN PUBLIC KEY-----")
