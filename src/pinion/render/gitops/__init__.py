"""A site's cluster as a folder of files, from which Flux or Argo CD makes what `pulumi up` would make. Pure, but for `folder`."""

from __future__ import annotations

from pinion.render.gitops.tree import Charts, Left, NoTreeError, Tree, tree

__all__ = ["Charts", "Left", "NoTreeError", "Tree", "tree"]
