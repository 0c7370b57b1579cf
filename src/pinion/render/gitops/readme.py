"""The page that lies in a tree: what it is, how it begins, and what is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pinion.plan.model import RepositoryPlan
from pinion.site.model import ClusterOwner

_TITLE: Final = {ClusterOwner.FLUX: "Flux", ClusterOwner.ARGOCD: "Argo CD"}

#: What each tool does otherwise than the stack, with the same objects.
_OTHERWISE: Final = {
    ClusterOwner.FLUX: """\
- Flux labels each object with the Kustomization or HelmRelease that made it (labels in `toolkit.fluxcd.io`).
- A release that Flux installs first has no label `pinion/site` on helm's records, by which the stack knows its own. One that the stack
  installed keeps it.
- A release whose pods no node can take yet is tried again without end; the stack places it and does not wait.
- A failed upgrade goes back to the revision before after three more tries, and not after the first.""",
    ClusterOwner.ARGOCD: """\
- Argo CD annotates each object with the Application that made it (`argocd.argoproj.io/tracking-id`, or by a label, as it is told).
- Argo CD renders charts and applies what comes of it: no records of helm, so neither `helm list` nor a rollback by helm. A release that the
  stack installed keeps its last record.
- A failed upgrade stays as it is until the tree is another one; nothing goes back by itself.
- Namespaces are the only objects without a namespace that the AppProject lets through.""",
}


def readme(
    site: str, tool: ClusterOwner, repository: RepositoryPlan, left: Sequence[tuple[str, Sequence[str], str]]
) -> str:
    """The text. *left* is what the stack keeps: what, which objects, and why."""
    title = _TITLE[tool]
    rows = "\n".join(f"| {what} | {', '.join(objects)} | {why} |" for what, objects, why in left)
    kept = f"| what | objects | why |\n|---|---|---|\n{rows}" if left else "Nothing."
    credentials = (
        f"The repository's credentials are the Secret `flux-system/{repository.credentials}`, named here and nowhere in clear.\n"
        if repository.credentials
        else ""
    )
    return f"""# The cluster of site {site}, for {title}

Written by `pinion render {site} --gitops {tool} DIR`; write it again instead of editing it (`--check` tells whether it is the current one).
{title} follows branch `{repository.branch}` of `{repository.url}`, folder `{repository.folder}`. It begins with

```
kubectl apply --server-side -k {repository.folder}
```

where {title} is installed, and keeps itself current from then on. Let the site file say `kubernetes: {{owner: {tool}}}`, so that
`pulumi up` leaves what is here alone; `docs/gitops.md` of Pinion says how the cluster changes hands.

No secret is in these files.
{credentials}
## What is not here and stays with `pulumi up`

{kept}

## What {title} does otherwise

{_OTHERWISE[tool]}
"""
