"""Which pods the namespaces of the stack take: a real API server, and the labels that the program gives."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pinion.drivers.cluster import ClusterClient, ClusterError, kind_of
from pinion.plan.cluster import security_labels
from pinion.plan.model import NamespacePlan

NAMESPACE, POD = kind_of("Namespace"), kind_of("Pod")
#: Seconds for what takes a moment on a machine that is busy.
LIMIT = 120.0
#: What Pod Security's level "restricted" asks of a container.
TAME = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def guarded(api: ClusterClient, namespace: str) -> str:
    """A namespace as the stack makes it."""
    planned = NamespacePlan(name=namespace, service_account="default")
    labelled = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "labels": security_labels(planned)},
    }
    api.apply(NAMESPACE, labelled, manager="tests")
    account = kind_of("ServiceAccount")
    api.apply(
        account,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}},
        manager="tests",
        force=True,
    )
    deadline = time.monotonic() + LIMIT
    while _taken(api, pod(namespace, {}, hostNetwork=True)):  # the API server hears of its own labels a moment later
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return namespace


def _taken(api: ClusterClient, manifest: dict[str, Any]) -> bool:
    try:
        api.apply(POD, manifest, manager="tests", dry_run=True)
    except ClusterError:
        return False
    return True


def pod(namespace: str, security: dict[str, Any], **spec: Any) -> dict[str, Any]:
    container = {"name": "one", "image": "example.invalid/one", "securityContext": security}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": namespace}}
    return {**head, "spec": {"containers": [container], "automountServiceAccountToken": False, **spec}}


@pytest.mark.parametrize(
    ("security", "spec"),
    [
        ({}, {"hostIPC": True}),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, {}),
        ({}, {"hostNetwork": True}),
        ({}, {"hostPID": True}),
        ({}, {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}),
    ],
)
def test_a_pod_that_wants_something_of_its_node_is_refused(
    api: ClusterClient, guarded: str, security: dict[str, Any], spec: dict[str, Any]
) -> None:
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        api.apply(POD, pod(guarded, security, **spec), manager="tests", dry_run=True)


def test_a_tame_pod_and_a_root_without_privileges_are_taken(api: ClusterClient, guarded: str) -> None:
    for security in (TAME, {}):
        assert api.apply(POD, pod(guarded, security), manager="tests", dry_run=True)
