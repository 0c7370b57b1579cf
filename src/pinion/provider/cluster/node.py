"""`pinion:cluster:Node`: labels and taints of a node that registers itself. We own what we state, and nothing else of the node.

Labels go by server-side apply. Taints are one atomic list for server-side apply (whoever applies it owns all of it), and others, like the
node controller, write to it as well; so ours are put into the list as it is, by key and effect, guarded by the object's version.

Invariant: no call here makes a node. Each write names the uid or the version of the node that was read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from pinion.drivers.cluster import ClusterClient, ClusterConflictError, Json, kind_of
from pinion.plan.model import Taint
from pinion.provider.cluster.connection import Connector, asked, plugin_error, told
from pinion.provider.plugin import (
    Call,
    Checked,
    Created,
    Difference,
    Found,
    NotFoundError,
    Properties,
    ResourceKind,
    Value,
    differences,
    mark_like,
    plain_properties,
)
from pinion.provider.shape import ORIGIN, Shape

_NODE: Final = kind_of("Node")
#: The field manager that the API server shows for our labels (``kubectl get node --show-managed-fields``).
FIELD_MANAGER: Final = "pinion-stack"
#: Seconds for a node to register itself, and between two looks.
_JOIN_SECONDS, _LOOK_SECONDS = 300.0, 1.0
#: How often a list of taints is tried again that someone else has changed meanwhile.
_TAINT_TRIES: Final = 10


class NodeMarks(BaseModel):
    """What a stack says of one node, and owns of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


class NodeKind(ResourceKind):
    """Marks of nodes. The id is the node's name."""

    shape: Shape[NodeMarks] = Shape(NodeMarks, {})

    def __init__(self, connector: Callable[[], Connector]) -> None:
        self._connector = connector

    @override
    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:
        """See `ResourceKind.check`."""
        return self.shape.check(news)

    @override
    def diff(
        self,
        call: Call,
        resource_id: str,
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> Difference:
        """See `ResourceKind.diff`."""
        return differences(old_inputs, news, replace=("name",), ignore=[*ignore, ORIGIN])

    @override
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """See `ResourceKind.create`: waits for the node to join."""
        wanted = self.shape.value(news)
        return Created("" if preview else wanted.name, self._marked(call, news, (), preview=preview))

    @override
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """See `ResourceKind.update`."""
        return self._marked(call, news, _taints(old_inputs), preview=preview)

    @override
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """See `ResourceKind.read`: only what was stated; a node that is gone took it with it."""
        client = self._client(call)
        live = asked(f"Node {resource_id}", lambda: client.get(_NODE, None, resource_id))
        if live is None:
            return None
        found = _as_live(inputs or {"name": resource_id}, live)
        return Found(resource_id, found, _outputs(found, live))

    @override
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """See `ResourceKind.delete`: gives up what is ours; the node stays, and one that is gone stays gone."""
        client = self._client(call)
        label = f"Node {resource_id}"
        live = asked(label, lambda: client.get(_NODE, None, resource_id))
        if live is None:
            return
        try:
            client.apply(_NODE, _manifest(live, {}), manager=FIELD_MANAGER)
        except ClusterConflictError:
            return  # another node by now, or none: ours took its marks with it
        self._have_taints(client, resource_id, (), _taints(old_inputs), label)

    # --- details ------------------------------------------------------------------------------------------------------

    def _client(self, call: Call) -> ClusterClient:
        return told(call, self._connector().connection().client)

    def _marked(self, call: Call, news: Properties, before: Sequence[Json], *, preview: bool) -> Mapping[str, Value]:
        """Have the marks of *news* on the node, and none of the taints *before* that is not among them; the outputs."""
        wanted = self.shape.value(news)
        label = f"Node {wanted.name}"
        client = self._client(call)
        live = self._joined(call, client, wanted.name, wait=not preview)
        if live is None:
            return dict(news)
        manifest = _manifest(live, wanted.labels)
        applied = asked(
            label, lambda: client.apply(_NODE, manifest, manager=FIELD_MANAGER, force=True, dry_run=preview)
        )
        taints = _taints(news)
        if not preview and (taints or before):
            applied = self._have_taints(client, wanted.name, taints, before, label) or applied
        return _outputs(news, applied)

    def _joined(self, call: Call, client: ClusterClient, name: str, *, wait: bool) -> Json | None:
        """The node; None when it is not there and nobody waits for it."""
        label = f"Node {name}"
        deadline = time.monotonic() + (call.timeout or _JOIN_SECONDS)
        while True:
            live = asked(label, lambda: client.get(_NODE, None, name))
            if live is not None or not wait:
                return live
            if time.monotonic() > deadline:
                raise NotFoundError(f"{label}: has not joined the cluster; look at its kubelet: journalctl -u kubelet")
            call.status("waits for the node to join")
            call.sleep(_LOOK_SECONDS)

    def _have_taints(
        self, client: ClusterClient, name: str, wanted: Sequence[Json], before: Sequence[Json], label: str
    ) -> Json | None:
        """Have *wanted* among the node's taints, and none of *before* that is not wanted; the node, None when it is gone."""
        for attempt in range(_TAINT_TRIES):
            live = asked(label, lambda: client.get(_NODE, None, name))
            if live is None:
                return None
            held = live.get("spec", {}).get("taints") or []
            ours = {_identity(taint) for taint in (*wanted, *before)}
            after = [*wanted, *(taint for taint in held if _identity(taint) not in ours)]
            if _plain(held) == _plain(after):
                return live
            patch = {
                "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]},
                "spec": {"taints": after or None},
            }
            try:
                return client.merge(_NODE, None, name, patch, manager=FIELD_MANAGER)
            except ClusterConflictError as error:
                if attempt == _TAINT_TRIES - 1:
                    raise plugin_error(label, error) from None
        return None


def _manifest(live: Json, labels: Mapping[str, str]) -> dict[str, Any]:
    """What is applied to the node *live* and to no other: its uid goes with it, so that no node is made."""
    metadata = {"name": live["metadata"]["name"], "uid": live["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**metadata, **({"labels": dict(labels)} if labels else {})},
    }


def _as_live(inputs: Properties, live: Json) -> dict[str, Value]:
    """*inputs* as the node has them: stated labels and taints that it lacks are left out, those of others are not ours."""
    labels = live["metadata"].get("labels") or {}
    held = {_identity(taint): taint for taint in live.get("spec", {}).get("taints") or ()}
    stated = plain_properties(inputs).get("labels")
    found: dict[str, Value] = {key: value for key, value in inputs.items() if key not in {"labels", "taints"}}
    if isinstance(stated, Mapping) and (kept := {key: labels[key] for key in stated if key in labels}):
        found["labels"] = kept
    if taints := [held[_identity(taint)] for taint in _taints(inputs) if _identity(taint) in held]:
        found["taints"] = [{key: taint.get(key, "") for key in ("key", "value", "effect")} for taint in taints]
    return found


def _outputs(inputs: Properties, live: Json) -> Mapping[str, Value]:
    """What is stated, and which node it is. The rest of a node changes by the minute and is not ours."""
    return mark_like({**inputs, "uid": str(live["metadata"].get("uid", ""))}, inputs)


def _taints(inputs: Properties) -> Sequence[Json]:
    """The stated taints."""
    taints = plain_properties(inputs).get("taints")
    return [taint for taint in taints if isinstance(taint, Mapping)] if isinstance(taints, list | tuple) else []


def _identity(taint: Json) -> tuple[str, str]:
    """Two taints of a node differ in key or effect."""
    return str(taint["key"]), str(taint["effect"])


def _plain(taints: Sequence[Json]) -> list[tuple[str, str, str]]:
    return sorted((*_identity(taint), str(taint.get("value") or "")) for taint in taints)
