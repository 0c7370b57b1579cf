"""Resources that are one whole Kubernetes object, handled as the official plugin 4.30.0 handles them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from pinion.drivers.cluster import (
    ClusterClient,
    ClusterDeniedError,
    ClusterError,
    ClusterUnreachableError,
    ObjectKind,
)
from pinion.plan.cluster import SITE_LABEL
from pinion.provider.cluster.comparing import as_live, imported_inputs, live_inputs, without_nulls
from pinion.provider.cluster.connection import asked, plugin_error, told
from pinion.provider.plugin import (
    UNKNOWN,
    Call,
    Checked,
    Created,
    Difference,
    Failure,
    Found,
    NotFoundError,
    PluginError,
    Properties,
    ResourceKind,
    Secret,
    Unknown,
    Value,
    differences,
    has_unknown,
    mark_like,
    plain,
    plain_properties,
)
from pinion_kubernetes_stand_in.configuration import Configuration

_FORCE: Final = "pulumi.com/patchForce"
_MANAGER: Final = "pulumi.com/patchFieldManager"
_AUTONAMED: Final = "pulumi.com/autonamed"
_INPUTS: Final = "__inputs"
#: The field manager of what is created without upsert.
_CREATOR: Final = "pulumi-kubernetes"
#: Fields that are changed by making another object unless the provider's switch says that they may change.
_MUTABLE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "ConfigMap": ("enableConfigMapMutable", ("data", "binaryData")),
    "Secret": ("enableSecretMutable", ("type", "data", "stringData")),
}
_IMMUTABLE: Final[Mapping[str, tuple[str, ...]]] = {"Secret": ("type",)}
#: Seconds for a deletion to end, and between two looks: what the official provider allows.
_DELETE_SECONDS, _LOOK_SECONDS = 600.0, 0.5
_CONFLICT: Final = (
    f'Someone else set this. Take it over: annotate the resource with {_FORCE}: "true", '
    "or set PULUMI_K8S_ENABLE_PATCH_FORCE=true"
)


class ObjectResource(ResourceKind):
    """Objects of one kind."""

    def __init__(self, kind: ObjectKind, configuration: Configuration) -> None:
        self._kind = kind
        self._configuration = configuration

    # --- what is wanted -----------------------------------------------------------------------------------------------

    @override
    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:
        """See `ResourceKind.check`: names and namespaces are filled in, nothing is asked."""
        stated = without_nulls(news)
        inputs = dict(stated) if isinstance(stated, Mapping) else {}
        failures = []
        for key, expected in (("apiVersion", self._kind.api_version), ("kind", self._kind.kind)):
            if inputs.setdefault(key, expected) not in (expected, UNKNOWN):
                failures.append(Failure(key, f"is {inputs[key]}; for {call.type} it is {expected}"))
        metadata = inputs.get("metadata", {})
        if isinstance(metadata, Unknown):
            return Checked(inputs, failures)
        if not isinstance(metadata, Mapping):
            return Checked(inputs, [*failures, Failure("metadata", "is no object")])
        named = self._named(call, olds, dict(metadata))
        if self._kind.namespaced:
            named.setdefault("namespace", self._configuration.namespace)
        elif "namespace" in named:
            failures.append(Failure("metadata.namespace", f"a {self._kind.kind} is in no namespace"))
        inputs["metadata"] = named
        return Checked(inputs, failures)

    def _named(self, call: Call, olds: Properties, metadata: dict[str, Value]) -> dict[str, Value]:
        """*metadata* with a name: the stated one, the one that was given before, or one that follows from the resource's."""
        if "name" in metadata:
            return metadata
        before = olds.get("metadata")
        annotations = before.get("annotations") if isinstance(before, Mapping) else None
        if isinstance(before, Mapping) and isinstance(annotations, Mapping) and annotations.get(_AUTONAMED) == "true":
            name = before["name"]
        else:
            name = f"{call.name}-{secrets.token_hex(4)}"
        held = metadata.get("annotations")
        return {
            **metadata,
            "name": name,
            "annotations": {**(held if isinstance(held, Mapping) else {}), _AUTONAMED: "true"},
        }

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
        """See `ResourceKind.diff`: what the state says is live, as far as it was stated (`__inputs`), against what is stated now."""
        before = _before(olds)
        if self._kind.namespaced:
            metadata = before.get("metadata")
            before["metadata"] = {"namespace": "default", **(metadata if isinstance(metadata, Mapping) else {})}
        replace = ("metadata.name", "metadata.namespace", *self._replacing())
        found = differences(before, news, replace=replace, ignore=ignore)
        same_name = not any(path.startswith(("metadata.name", "metadata.namespace")) for path in found.replaces)
        return Difference(found.changes, delete_before_replace=bool(found.replaces) and same_name)

    def _replacing(self) -> Sequence[str]:
        switch, fields = _MUTABLE.get(self._kind.kind, ("", ()))
        if switch and not self._configuration.switch(switch):
            return fields
        return _IMMUTABLE.get(self._kind.kind, ())

    # --- doing it -----------------------------------------------------------------------------------------------------

    @override
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """See `ResourceKind.create`: what exists already is an error, unless the provider's `upsertExistingObjects` is on."""
        manager = _manager(news) or f"{_CREATOR}-{secrets.token_hex(4)}"
        if preview:
            return Created("", self._previewed(call, news, manager, new=True))
        client = self._client(call)
        manifest = dict(plain_properties(news))
        if not self._configuration.switch("upsertExistingObjects"):
            live = asked(self._label(news), lambda: client.create(self._kind, manifest, manager=_CREATOR))
            return Created(self._id(news), self._outputs(news, live, manager))
        held = asked(self._label(news), lambda: client.get(self._kind, *self._place(news)))
        if held is not None and (_site_of(held) is None or _site_of(held) != _site_of(manifest)):
            call.warn(f"{self._label(news)} exists already; it is taken over, and a destroy of this stack deletes it")
        return Created(self._id(news), self._outputs(news, self._applied(client, news, manager), manager))

    @override
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """See `ResourceKind.update`: an object that is gone is an error; a refresh takes it out of the state."""
        before = _manager(_before(olds)) or str(olds.get("__fieldManager") or _CREATOR)
        manager = _manager(news) or before
        if preview:
            return self._previewed(call, news, manager, new=False)
        client = self._client(call)
        label = self._label(news)
        if asked(label, lambda: client.get(self._kind, *self._place(news))) is None:
            raise NotFoundError(f"{label}: update failed: not found; a refresh takes it out of the state")
        live = self._applied(client, news, manager)
        if before != manager:
            self._relinquish(client, live, before)
        return self._outputs(news, live, manager)

    @override
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """See `ResourceKind.read`."""
        namespace, _, name = resource_id.rpartition("/")
        client = self._client(call)
        live = asked(f"{self._kind.kind} {resource_id}", lambda: client.get(self._kind, namespace or None, name))
        if live is None or (live["metadata"].get("deletionTimestamp") and not inputs):
            return None
        known = live_inputs(inputs, live) if inputs else self._imported(live)
        manager = _manager(known) or str(olds.get("__fieldManager") or _CREATOR)
        return Found(resource_id, known, self._outputs(known, live, manager))

    @override
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """See `ResourceKind.delete`: whatever has the name by now; waits until it is gone."""
        client = self._client(call)
        label = self._label(old_inputs)
        namespace, name = self._place(old_inputs)
        deadline = time.monotonic() + (call.timeout or _DELETE_SECONDS)
        uid = None
        while True:
            live = asked(label, lambda: client.get(self._kind, namespace, name))
            if live is None or (uid is not None and live["metadata"]["uid"] != uid):
                return
            if uid is None:
                uid = str(live["metadata"]["uid"])
                self._ask_deletion(client, label, namespace, name, uid)
            if time.monotonic() > deadline:
                raise PluginError(f"{label}: deletion was asked for but has not ended: {_holding(live)}")
            call.status("is being deleted")
            call.sleep(_LOOK_SECONDS)

    # --- details ------------------------------------------------------------------------------------------------------

    def _client(self, call: Call) -> ClusterClient:
        return told(call, self._configuration.connection().client)

    def _ask_deletion(self, client: ClusterClient, label: str, namespace: str | None, name: str, uid: str) -> None:
        asked(label, lambda: client.delete(self._kind, namespace, name, uid=uid))

    def _place(self, inputs: Properties) -> tuple[str | None, str]:
        metadata = plain_properties(inputs).get("metadata")
        fields: Mapping[str, Value] = metadata if isinstance(metadata, Mapping) else {}
        namespace = fields.get("namespace")
        return (str(namespace) if self._kind.namespaced else None), str(fields["name"])

    def _id(self, inputs: Properties) -> str:
        namespace, name = self._place(inputs)
        return f"{namespace}/{name}" if namespace else name

    def _label(self, inputs: Properties) -> str:
        return f"{self._kind.kind} {self._id(inputs)}"

    def _forced(self, manifest: Mapping[str, Any]) -> bool:
        annotations = manifest.get("metadata", {}).get("annotations") or {}
        return annotations.get(_FORCE) == "true" or self._configuration.switch("enablePatchForce")

    def _applied(self, client: ClusterClient, news: Properties, manager: str) -> Mapping[str, Any]:
        manifest = dict(plain_properties(news))
        return asked(
            self._label(news),
            lambda: client.apply(self._kind, manifest, manager=manager, force=self._forced(manifest)),
            on_conflict=_CONFLICT,
        )

    def _relinquish(self, client: ClusterClient, live: Mapping[str, Any], manager: str) -> None:
        """Give up what *manager* owns."""
        metadata = {key: live["metadata"][key] for key in ("name", "namespace", "uid") if key in live["metadata"]}
        nothing = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
        asked(f"{self._kind.kind} {metadata['name']}", lambda: client.apply(self._kind, nothing, manager=manager))

    def _previewed(self, call: Call, news: Properties, manager: str, *, new: bool) -> Properties:
        """What the object would be: asked of the API server in a dry run where that is possible, else the inputs."""
        if has_unknown(news) or not self._configuration.known:
            return news
        manifest = dict(plain_properties(news))
        try:
            client = self._client(call)
            if new and not self._configuration.switch("upsertExistingObjects"):
                live = client.create(self._kind, manifest, manager=_CREATOR, dry_run=True)
            else:
                live = client.apply(self._kind, manifest, manager=manager, force=self._forced(manifest), dry_run=True)
        except ClusterUnreachableError as error:
            call.warn(f"{self._label(news)}: not checked against the cluster: {error}")
            return news
        except ClusterDeniedError:
            return news
        except ClusterError as error:
            # its namespace is made in the same update, or it exists: the official plugin's preview sees neither
            if "not found" in str(error) or "already exists" in str(error):
                return news
            raise plugin_error(self._label(news), error, on_conflict=_CONFLICT) from None
        outputs = self._outputs(news, live, manager)
        metadata = outputs["metadata"]
        if new and isinstance(metadata, Mapping):
            outputs["metadata"] = {**metadata, "uid": UNKNOWN, "creationTimestamp": UNKNOWN}
        return outputs

    def _imported(self, live: Mapping[str, Any]) -> dict[str, Value]:
        found = imported_inputs(live)
        return _secret_data(found) if self._kind.kind == "Secret" else found

    def _outputs(self, inputs: Properties, live: Mapping[str, Any], manager: str) -> dict[str, Value]:
        """What the state keeps: the whole object, and the inputs that it was made from."""
        kept = mark_like(dict(live), inputs)
        kept |= {_INPUTS: dict(inputs), "__fieldManager": manager, "__initialApiVersion": self._kind.api_version}
        return _secret_data(kept) if self._kind.kind == "Secret" else kept


def _before(olds: Properties) -> dict[str, Value]:
    """The object in the state, as far as it was stated; its name in any case, as the official plugin has it."""
    stated = plain(olds.get(_INPUTS))
    live = plain_properties(olds)
    pruned = as_live(stated, live) if isinstance(stated, Mapping) else {}
    before = dict(pruned) if isinstance(pruned, Mapping) else {}
    metadata, held = before.get("metadata"), live.get("metadata")
    if isinstance(held, Mapping):
        before["metadata"] = {**(metadata if isinstance(metadata, Mapping) else {}), "name": held.get("name")}
    if isinstance(stated, Mapping) and "stringData" in stated:
        before["stringData"] = stated["stringData"]
    return before


def _manager(inputs: Properties) -> str | None:
    """The field manager that a resource states."""
    metadata = plain_properties(inputs).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    stated = annotations.get(_MANAGER) if isinstance(annotations, Mapping) else None
    return stated if isinstance(stated, str) else None


def _site_of(item: Mapping[str, Any]) -> str | None:
    labels = item.get("metadata", {}).get("labels") or {}
    site: str | None = labels.get(SITE_LABEL)
    return site


def _secret_data(outputs: Mapping[str, Value]) -> dict[str, Value]:
    """*outputs* with the contents of a Secret marked secret."""
    marked = {
        key: Secret(value) if key in {"data", "stringData"} and not isinstance(value, Secret) else value
        for key, value in outputs.items()
    }
    inner = marked.get(_INPUTS)
    return {**marked, _INPUTS: _secret_data(inner)} if isinstance(inner, Mapping) else marked


def _holding(live: Mapping[str, Any]) -> str:
    """What keeps an object from going away."""
    conditions = [
        condition["message"]
        for condition in live.get("status", {}).get("conditions") or ()
        if condition.get("status") == "True" and condition.get("message")
    ]
    finalizers = [*(live["metadata"].get("finalizers") or ()), *(live.get("spec", {}).get("finalizers") or ())]
    return "; ".join(conditions) or f"finalizers {', '.join(finalizers) or 'none'}"
