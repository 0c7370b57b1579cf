"""`pinion:cluster:*`: what a plan says of one node of a cluster, and of one Helm release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from pinion.provider.cluster.node import NodeKind, NodeMarks
from pinion.provider.cluster.release import DIGEST, DRIFT, ReleaseKind, ReleaseWish
from pinion.provider.sdk.provider import with_provider
from pinion.provider.shape import ORIGIN


class Node(pulumi.CustomResource):
    """Labels and taints of a node that registers itself. *uid* is the node's."""

    uid: pulumi.Output[str]

    def __init__(self, name: str, marks: NodeMarks, *, origin: str, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {**NodeKind.shape.properties(marks), ORIGIN: origin, "uid": None}
        super().__init__("pinion:cluster:Node", name, inputs, with_provider(opts))


class Release(pulumi.CustomResource):
    """A Helm release. *digest* is of its chart; *status* what helm remembers of it; *resource_names* its objects, by kind."""

    digest: pulumi.Output[str]
    status: pulumi.Output[Mapping[str, object]]
    resource_names: pulumi.Output[Mapping[str, Sequence[str]]]

    def __init__(
        self, name: str, wish: ReleaseWish, *, origin: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        unknown = dict.fromkeys((DIGEST, DRIFT, "status", "resourceNames"))
        inputs = {**ReleaseKind.shape.properties(wish), ORIGIN: origin, **unknown}
        super().__init__("pinion:cluster:Release", name, inputs, with_provider(opts))
