"""The chart hello: lints strictly, refuses bad values, renders what the plan needs, and nothing that asks for privileges."""

from __future__ import annotations

from typing import Any

import pytest
import unit.charts.rendering
from unit.charts.rendering import CHARTS, HELM, helm, planned

from pinion.lab.images.own import HELLO

CHART = CHARTS / "hello"

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not there: tools/obtain.py helm")


def rendered(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects of the chart with *values*, by kind and name."""
    return unit.charts.rendering.rendered("hello", "hello", values)


def test_lints_strictly() -> None:
    done = helm("lint", "--strict", str(CHART), "--values", "-", values=planned("hello"))
    assert done.returncode == 0, done.stdout


def test_says_what_the_plan_says() -> None:
    values = planned("hello")
    objects = rendered(values)
    assert set(objects) == {
        "Deployment/hello", "Service/hello", "NetworkPolicy/hello", "Pod/hello-answers", "NetworkPolicy/hello-answers",
    }  # fmt: skip
    pod = objects["Deployment/hello"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == values["nodeSelector"]
    assert pod["tolerations"] == values["tolerations"]
    assert pod["serviceAccountName"] == values["serviceAccount"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == values["probePath"]
    assert container["ports"][0]["containerPort"] == values["port"]
    assert objects["Service/hello"]["spec"]["ports"][0]["port"] == values["port"]


def test_runs_the_image_that_we_build() -> None:
    pod = rendered({})["Deployment/hello"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == HELLO


@pytest.mark.parametrize("name", ["Deployment/hello", "Pod/hello-answers"])
def test_meets_pod_security_restricted(name: str) -> None:
    spec = rendered({})[name]["spec"]
    pod = spec["template"]["spec"] if "template" in spec else spec
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert set(container["resources"]) == {"requests", "limits"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replica": 1}, "replica"),
        ({"replicas": -1}, "/replicas"),
        ({"replicas": "1"}, "/replicas"),
        ({"port": 80}, "/port"),
        ({"probePath": "healthz"}, "/probePath"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"tolerations": [{"effect": "Never"}]}, "/tolerations/0"),
        ({"resources": {"limits": None}}, "/resources"),
    ],
)
def test_bad_values_are_refused(values: dict[str, Any], told: str) -> None:
    done = helm("template", "hello", str(CHART), "--kube-version", "1.34.2", values=values)
    assert done.returncode != 0
    assert told in done.stderr


def test_policy_may_be_left_to_others() -> None:
    assert not any(name.startswith("NetworkPolicy") for name in rendered({"networkPolicy": {"enabled": False}}))
