"""Claims about a cluster that Flux or Argo CD owns."""

from __future__ import annotations

from functools import cache

import pytest
from gitops.built import planned, site

from pinion.checks.claims import checks
from pinion.checks.model import Check, ClusterProbe, ReleaseProbe
from pinion.checks.probers.cluster import fact

_CLUSTER = planned(site("lab")).cluster
assert _CLUSTER is not None
#: What the lab runs.
RELEASES = [release.name for release in _CLUSTER.releases]


@cache
def claims(owner: str) -> dict[str, Check]:
    """All claims of the lab's cluster when *owner* has it."""
    return {check.id: check for check in checks(planned(site("lab", owner=owner)))}


@pytest.mark.parametrize("owner", ["flux", "argocd"])
def test_whoever_owns_the_cluster_the_same_is_asked_of_it(owner: str) -> None:
    of_stack, of_owner = claims("pulumi"), claims(owner)
    missing = of_stack.keys() - of_owner.keys()
    of_helm = {name for name, check in of_stack.items() if isinstance(check.probe, ReleaseProbe)}
    assert of_helm
    assert missing == (set() if owner == "flux" else of_helm), "helm's records are Flux's and not Argo CD's"
    assert "cluster.namespace.edge-services.edge-services" in of_owner
    assert {of_owner[name].expected for name in of_stack.keys() & of_owner.keys()} == {
        of_stack[name].expected for name in of_stack.keys() & of_owner.keys()
    }


@pytest.mark.parametrize(
    ("owner", "namespace", "wanted"),
    [
        (
            "flux",
            "flux-system",
            {
                ("Kustomization", "pinion.lab", "ready", "True"),
                ("Kustomization", "pinion.lab.objects", "ready", "True"),
                ("Kustomization", "pinion.lab.releases", "ready", "True"),
                *(("HelmRelease", name, "ready", "True") for name in RELEASES),
            },
        ),
        (
            "argocd",
            "argocd",
            {
                (kind, name, *facts)
                for kind, name in (
                    ("Application", "pinion.lab"),
                    ("Application", "pinion.lab.objects"),
                    *(("Application", name) for name in RELEASES),
                )
                for facts in (("synced", "Synced"), ("health", "Healthy"))
            },
        ),
    ],
)
def test_the_owners_own_objects_are_asked_what_they_say(
    owner: str, namespace: str, wanted: set[tuple[str, str, str, str]]
) -> None:
    found = {
        (check.probe.object, check.probe.name, check.probe.fact, check.expected)
        for name, check in claims(owner).items()
        if name not in claims("pulumi") and isinstance(check.probe, ClusterProbe) and check.probe.namespace == namespace
    }
    assert found == wanted


@pytest.mark.parametrize("owner", ["flux", "argocd"])
def test_what_to_do_about_it_is_never_to_run_pulumi(owner: str) -> None:
    for name, check in claims(owner).items():
        of_owner = isinstance(check.probe, ReleaseProbe) or (
            isinstance(check.probe, ClusterProbe) and check.probe.object != "Node"
        )
        if of_owner and name.startswith(("cluster.", "services.")):
            assert "pulumi" not in check.remedy, name


def test_what_an_application_says_of_itself() -> None:
    held = {"metadata": {}, "status": {"sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"}}}
    assert (fact(held, "synced"), fact(held, "health")) == ("OutOfSync", "Degraded")
    assert (fact({"metadata": {}}, "synced"), fact(None, "health")) == ("absent", "absent")
