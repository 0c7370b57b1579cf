"""Resources that are one whole Kubernetes object: made, changed and read by server-side apply, deleted by uid."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from pinion.drivers.cluster import ClusterClient, ClusterError, ClusterUnreachableError, ObjectKind
from pinion.lab.kubernetes_plugin.comparing import imported_inputs, live_inputs, without_nulls
from pinion.lab.kubernetes_plugin.connection import FORCE_VARIABLE, Connector, asked, plugin_error, told
from pinion.provider.plugin import (
    UNKNOWN,
    Call,
    Checked,
    Created,
    Difference,
    Failure,
    Found,
    PluginError,
    Properties,
    ResourceKind,
    Secret,
    Unknown,
    Value,
    differences,
    has_unknown,
    mark_like,
    plain_properties,
)

FORCE_ANNOTATION: Final = "pulumi.com/patchForce"
_AUTONAMED: Final = "pulumi.com/autonamed"
#: Fields that no update can change; the object is replaced.
_IMMUTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "Secret": ("type", "immutable"),
    "ConfigMap": ("immutable",),
}
#: Seconds for a deletion to end, and between two looks: what the official provider allows.
_DELETE_SECONDS, _LOOK_SECONDS = 600.0, 0.5


class ObjectResource(ResourceKind):
    """Objects of one kind."""

    def __init__(self, kind: ObjectKind, connector: Connector) -> None:
        self._kind = kind
        self._connector = connector

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
            named.setdefault("namespace", self._connector.namespace)
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
        """See `ResourceKind.diff`."""
        replace = ("metadata.name", "metadata.namespace", *_IMMUTABLE.get(self._kind.kind, ()))
        found = differences(old_inputs, news, replace=replace, ignore=ignore)
        same_name = not any(path.startswith(("metadata.name", "metadata.namespace")) for path in found.replaces)
        return Difference(found.changes, delete_before_replace=bool(found.replaces) and same_name)

    # --- doing it -----------------------------------------------------------------------------------------------------

    @override
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """See `ResourceKind.create`: what exists already is taken over, as server-side apply does."""
        if preview:
            return Created("", self._previewed(call, news, {}))
        client = self._client(call)
        before = asked(self._label(news), lambda: client.get(self._kind, *self._place(news)))
        manager = field_manager(call)
        if before is not None and not _managed_by(before, manager):
            call.warn(f"{self._label(news)} exists already; it is taken over, and a destroy of this stack deletes it")
        live = self._applied(client, news, manager)
        return Created(self._id(news), self._outputs(news, live, manager))

    @override
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """See `ResourceKind.update`."""
        if preview:
            return self._previewed(call, news, olds)
        manager = _manager_in(olds) or field_manager(call)
        return self._outputs(news, self._applied(self._client(call), news, manager), manager)

    @override
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """See `ResourceKind.read`."""
        namespace, _, name = resource_id.rpartition("/")
        client = self._client(call)
        live = asked(f"{self._kind.kind} {resource_id}", lambda: client.get(self._kind, namespace or None, name))
        if live is None or (live["metadata"].get("deletionTimestamp") and not inputs):
            return None
        known = live_inputs(inputs, live) if inputs else self._imported(live)
        return Found(resource_id, known, self._outputs(known, live, _manager_in(olds) or field_manager(call)))

    @override
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """See `ResourceKind.delete`: waits until the object is gone."""
        client = self._client(call)
        label = self._label(old_inputs)
        namespace, name = self._place(old_inputs)
        metadata = olds.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, Mapping) else None
        deadline = time.monotonic() + (call.timeout or _DELETE_SECONDS)
        requested = False
        while True:
            live = asked(label, lambda: client.get(self._kind, namespace, name))
            if live is None or (requested and live["metadata"]["uid"] != uid):
                return
            if uid is None:
                uid = live["metadata"]["uid"]
            if live["metadata"]["uid"] != uid:
                call.warn(f"{label} is not the one that this stack made (uid {live['metadata']['uid']}): left alone")
                return
            if not requested:
                ask = functools.partial(client.delete, self._kind, namespace, name, uid=str(uid))
                asked(label, ask)
                requested = True
            if time.monotonic() > deadline:
                raise PluginError(f"{label}: deletion was asked for but has not ended: {_holding(live)}")
            call.status("is being deleted")
            call.sleep(_LOOK_SECONDS)

    # --- details ------------------------------------------------------------------------------------------------------

    def _client(self, call: Call) -> ClusterClient:
        return told(call, self._connector.connection().client)

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

    def _manifest(self, inputs: Properties) -> dict[str, Any]:
        return dict(plain_properties(inputs))

    def _applied(self, client: ClusterClient, news: Properties, manager: str) -> Mapping[str, Any]:
        manifest = self._manifest(news)
        return asked(
            self._label(news), lambda: client.apply(self._kind, manifest, manager=manager, force=forced(manifest))
        )

    def _previewed(self, call: Call, news: Properties, olds: Properties) -> dict[str, Value]:
        """What the object would be: asked of the API server in a dry run where that is possible, else the inputs."""
        if has_unknown(news) or not self._connector.known:
            return dict(news)
        manager = _manager_in(olds) or field_manager(call)
        manifest = self._manifest(news)
        try:
            client = self._client(call)
            live = client.apply(self._kind, manifest, manager=manager, force=forced(manifest), dry_run=True)
        except ClusterUnreachableError as error:
            call.warn(f"{self._label(news)}: not checked against the cluster: {error}")
            return dict(news)
        except ClusterError as error:
            if "not found" in str(error):  # its namespace is made in the same update
                return dict(news)
            raise plugin_error(self._label(news), error) from None
        outputs = self._outputs(news, live, manager)
        metadata = outputs["metadata"]
        if not olds and isinstance(metadata, Mapping):
            outputs["metadata"] = {**metadata, "uid": UNKNOWN, "creationTimestamp": UNKNOWN}
        return outputs

    def _imported(self, live: Mapping[str, Any]) -> dict[str, Value]:
        found = imported_inputs(live)
        return _secret_data(found) if self._kind.kind == "Secret" else found

    def _outputs(self, inputs: Properties, live: Mapping[str, Any], manager: str) -> dict[str, Value]:
        """What the state keeps: all of the object but what changes by itself (status, versions, field managers)."""
        kept = {key: value for key, value in live.items() if key not in {"status", "metadata"}}
        kept["metadata"] = {
            key: value for key, value in live["metadata"].items() if key not in {"managedFields", "resourceVersion", "generation"}
        }  # fmt: skip
        kept |= {"__fieldManager": manager, "__initialApiVersion": self._kind.api_version}
        return _secret_data(mark_like(kept, inputs)) if self._kind.kind == "Secret" else mark_like(kept, inputs)


def field_manager(call: Call) -> str:
    """The field manager of a resource: of the official provider's form, but the same for the same resource after a kill."""
    return f"pulumi-kubernetes-{hashlib.sha256(call.urn.encode()).hexdigest()[:8]}"


def forced(manifest: Mapping[str, Any]) -> bool:
    """Whether fields of other owners are taken over."""
    annotations = manifest.get("metadata", {}).get("annotations") or {}
    return annotations.get(FORCE_ANNOTATION) == "true" or os.environ.get(FORCE_VARIABLE) == "true"


def _manager_in(outputs: Properties) -> str | None:
    manager = outputs.get("__fieldManager")
    return manager if isinstance(manager, str) else None


def _managed_by(live: Mapping[str, Any], manager: str) -> bool:
    return any(entry.get("manager") == manager for entry in live["metadata"].get("managedFields") or ())


def _secret_data(outputs: Mapping[str, Value]) -> dict[str, Value]:
    """*outputs* with the contents of a Secret marked secret."""
    return {
        key: Secret(value) if key in {"data", "stringData"} and not isinstance(value, Secret) else value
        for key, value in outputs.items()
    }


def _holding(live: Mapping[str, Any]) -> str:
    """What keeps an object from going away."""
    conditions = [
        condition["message"]
        for condition in live.get("status", {}).get("conditions") or ()
        if condition.get("status") == "True" and condition.get("message")
    ]
    finalizers = [*(live["metadata"].get("finalizers") or ()), *(live.get("spec", {}).get("finalizers") or ())]
    return "; ".join(conditions) or f"finalizers {', '.join(finalizers) or 'none'}"
