"""Where the program's facts come from: the site file for what the site is, the stack's configuration for where its services are."""

from __future__ import annotations

from importlib.metadata import version

import pulumi

from pinion.plan import Plan, plan
from pinion.plan.handed_over import still_held
from pinion.site.find import site_file
from pinion.site.loader import SiteErrors, load, not_applied
from pinion.site.model import ClusterOwner


def planned_site() -> Plan:
    """The plan of the site that the stack is named after. All problems of its file are one error of the run, and nothing is touched.

    What the file states and nothing obeys yet is a warning of the run.
    """
    path = site_file(pulumi.get_stack())
    try:
        planned = plan(load(path))
    except SiteErrors as errors:
        raise pulumi.RunError(str(errors)) from None
    unobeyed = not_applied(path)
    if unobeyed:
        pulumi.log.warn("\n".join(map(str, unobeyed)))
    return planned


def kubeconfig() -> str:
    """The kubeconfig of the site's cluster: a path, or its text."""
    return pulumi.Config("kubernetes").require("kubeconfig")


def kubernetes_plugin() -> str | None:
    """The version of the Kubernetes plugin that the stack asks for; None for Pulumi's own, as its library has it.

    The lab's stand-in has a version of its own, which only `Pulumi.yaml` knows where to find.
    """
    stated = pulumi.Config("pinion").get("kubernetesPlugin") or "official"
    if stated not in ("official", "stand-in"):
        raise pulumi.RunError(
            f"pinion:kubernetesPlugin is {stated!r}; it is official (the default) or, in the lab, stand-in"
        )
    return f"{version('pulumi-kubernetes')}-stand-in" if stated == "stand-in" else None


def refuse_to_delete_what_others_own(owner: ClusterOwner) -> None:
    """Raise `pulumi.RunError` when the stack's state has what is *owner*'s: this run does not declare it, so the engine would delete it."""
    site = pulumi.get_stack()
    known = pulumi.runtime.invoke("pulumi:pulumi:readStackResourceOutputs", {"stackName": site})
    if held := still_held((known.value or {}).get("outputs") or {}):
        raise pulumi.RunError(
            f"{owner} owns the cluster (kubernetes.owner), and this stack still has {', '.join(held)}, which an update would delete. "
            f"Nothing was touched. Have the stack forget them first: pinion stack hand-over {site}"
        )


def adopts() -> bool:
    """Whether the stack takes over what exists and is nobody's of Pinion's."""
    return pulumi.Config("pinion").get_bool("adopt") or False
