"""NodePatch: labels, annotations and taints of a node that registers itself. We own the fields that we state, and no others.

Labels go by server-side apply under a field manager of the resource's own. Taints are one list for server-side apply, which others
(the node controller) write to as well; so ours are put into the list as it is, by key and effect, guarded by the object's version.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from pinion.drivers.cluster import ClusterClient, ClusterConflictError, Json
from pinion.lab.kubernetes_plugin.comparing import live_inputs
from pinion.lab.kubernetes_plugin.connection import asked, plugin_error
from pinion.lab.kubernetes_plugin.objects import ObjectResource, field_manager
from pinion.provider.plugin import Call, Created, Found, NotFoundError, Properties, Value, mark_like, plain_properties

#: Seconds for a node to register itself, and between two looks.
_JOIN_SECONDS, _LOOK_SECONDS = 300.0, 1.0
#: How often a list of taints is tried again that someone else has changed meanwhile.
_TAINT_TRIES: Final = 10


class NodePatchResource(ObjectResource):
    """Fields of a node."""

    @override
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """See `ResourceKind.create`: waits for the node to join."""
        if preview:
            return Created("", self._previewed(call, news, {}))
        client = self._client(call)
        self._await_node(call, client, news)
        return Created(self._id(news), self._patched(client, news, (), field_manager(call)))

    @override
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """See `ResourceKind.update`."""
        if preview:
            return self._previewed(call, news, olds)
        client = self._client(call)
        self._await_node(call, client, news)
        manager = str(olds.get("__fieldManager") or field_manager(call))
        return self._patched(client, news, _taints(old_inputs), manager)

    @override
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """See `ResourceKind.read`: only the fields that were stated; a node that is gone took them with it."""
        client = self._client(call)
        live = asked(f"Node {resource_id}", lambda: client.get(self._kind, None, resource_id))
        if live is None:
            return None
        manager = str(olds.get("__fieldManager") or field_manager(call))
        seen = _with_only(live, _taints(inputs))
        known = live_inputs(inputs, seen)
        return Found(resource_id, known, self._outputs(known, seen, manager))

    @override
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """See `ResourceKind.delete`: gives up our fields; the node stays."""
        client = self._client(call)
        label = self._label(old_inputs)
        if asked(label, lambda: client.get(self._kind, None, resource_id)) is None:
            return
        manager = str(olds.get("__fieldManager") or field_manager(call))
        nothing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": resource_id}}
        asked(label, lambda: client.apply(self._kind, nothing, manager=manager))
        self._have_taints(client, resource_id, (), _taints(old_inputs), manager, label)

    # --- details ------------------------------------------------------------------------------------------------------

    def _await_node(self, call: Call, client: ClusterClient, news: Properties) -> None:
        label = self._label(news)
        deadline = time.monotonic() + (call.timeout or _JOIN_SECONDS)
        while asked(label, lambda: client.get(self._kind, *self._place(news))) is None:
            if time.monotonic() > deadline:
                raise NotFoundError(f"{label}: has not joined the cluster; look at its kubelet: journalctl -u kubelet")
            call.status("waits for the node to join")
            call.sleep(_LOOK_SECONDS)

    def _manifest(self, inputs: Properties) -> dict[str, Any]:
        """The fields that go by server-side apply: all but the taints."""
        manifest = dict(plain_properties(inputs))
        spec = manifest.get("spec")
        if isinstance(spec, Mapping):
            rest = {key: value for key, value in spec.items() if key != "taints"}
            manifest = {key: value for key, value in manifest.items() if key != "spec"} | (
                {"spec": rest} if rest else {}
            )
        return manifest

    def _patched(
        self, client: ClusterClient, news: Properties, before: Sequence[Json], manager: str
    ) -> dict[str, Value]:
        live = self._applied(client, news, manager)
        wanted = _taints(news)
        if wanted or before:
            live = self._have_taints(client, self._id(news), wanted, before, manager, self._label(news)) or live
        return self._outputs(news, _with_only(live, wanted), manager)

    def _have_taints(
        self, client: ClusterClient, name: str, wanted: Sequence[Json], before: Sequence[Json], manager: str, label: str
    ) -> Json | None:
        """Have *wanted* among the node's taints, and none of *before* that is not wanted; the node, None when it is gone."""
        for attempt in range(_TAINT_TRIES):
            live = asked(label, lambda: client.get(self._kind, None, name))
            if live is None:
                return None
            held = live.get("spec", {}).get("taints") or []
            ours = {_identity(taint) for taint in (*wanted, *before)}
            after = [*wanted, *(taint for taint in held if _identity(taint) not in ours)]
            if _same(held, after):
                return live
            patch = {
                "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]},
                "spec": {"taints": after or None},
            }
            try:
                return client.merge(self._kind, None, name, patch, manager=manager)
            except ClusterConflictError as error:
                if attempt == _TAINT_TRIES - 1:
                    raise plugin_error(label, error) from None
        return None

    def _outputs(self, inputs: Properties, live: Mapping[str, Any], manager: str) -> dict[str, Value]:
        """The stated fields as they are, and who the node is. The rest of a node changes by the minute."""
        metadata = live["metadata"]
        identity = {"name": metadata["name"], "uid": metadata.get("uid")}
        found = live_inputs(inputs, live)
        stated = found.get("metadata")
        found["metadata"] = {**(stated if isinstance(stated, Mapping) else {}), **identity}
        found |= {"__fieldManager": manager, "__initialApiVersion": "v1"}
        return mark_like(found, inputs)


def _taints(inputs: Properties) -> Sequence[Json]:
    """The stated taints."""
    spec = plain_properties(inputs).get("spec")
    taints = spec.get("taints") if isinstance(spec, Mapping) else None
    return [taint for taint in taints if isinstance(taint, Mapping)] if isinstance(taints, list) else []


def _identity(taint: Json) -> tuple[str, str]:
    """Two taints of a node differ in key or effect."""
    return str(taint["key"]), str(taint["effect"])


def _plain(taints: Sequence[Json]) -> list[tuple[str, str, str]]:
    return sorted((*_identity(taint), str(taint.get("value") or "")) for taint in taints)


def _same(left: Sequence[Json], right: Sequence[Json]) -> bool:
    return _plain(left) == _plain(right)


def _with_only(live: Json, stated: Sequence[Json]) -> dict[str, Any]:
    """*live* with only those taints that *stated* names, in its order."""
    spec = dict(live.get("spec") or {})
    held = {_identity(taint): taint for taint in spec.get("taints") or ()}
    spec["taints"] = [held[_identity(taint)] for taint in stated if _identity(taint) in held]
    return {**live, "spec": spec}
