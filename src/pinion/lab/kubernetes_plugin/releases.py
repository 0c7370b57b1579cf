"""kubernetes:helm.sh/v3:Release: one Helm release of a chart on this machine.

Invariants:

* One release of a name, whatever happened before: create and update are the same ``helm upgrade --install``, and what a killed helm left
  pending is put aside first (`settle`), without touching the objects that it made.
* Values go to helm on standard input.
* A refresh finds a release that is gone or failed, values that someone changed, and objects that are no longer as the chart says; the last
  are told under the input `drift`, which no program states, so the next update repairs them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from pinion.drivers.cluster import ClusterClient, ClusterError, kind_of
from pinion.lab.kubernetes_plugin import charts
from pinion.lab.kubernetes_plugin.comparing import as_live, without_nulls
from pinion.lab.kubernetes_plugin.connection import Connector, asked, told
from pinion.lab.kubernetes_plugin.drift import drift
from pinion.lab.kubernetes_plugin.helm import Helm, HelmFailedError, unreachable
from pinion.provider.plugin import (
    UNKNOWN,
    Call,
    Checked,
    Created,
    Difference,
    Failure,
    Found,
    PartialError,
    PluginError,
    Properties,
    RefusedError,
    ResourceKind,
    UnreachableError,
    Value,
    differences,
    has_unknown,
    mark_like,
    plain,
    plain_properties,
)

#: Seconds that helm waits for pods, as the official provider's default.
_TIMEOUT: Final = 300
#: Inputs that change how helm is called, with the flag of each that is on.
_FLAGS: Final = {
    "atomic": "--atomic",
    "cleanupOnFail": "--cleanup-on-fail",
    "createNamespace": "--create-namespace",
    "disableOpenapiValidation": "--disable-openapi-validation",
    "disableWebhooks": "--no-hooks",
    "forceUpdate": "--force",
    "skipCrds": "--skip-crds",
    "waitForJobs": "--wait-for-jobs",
}
_STATED: Final = {"chart", "name", "namespace", "values", "timeout", "skipAwait", "maxHistory", "description", *_FLAGS}
#: What the program's library sends of itself, what we put in, and what belongs to remote charts and does nothing for one on this machine.
_OWN: Final = {"compat", "checksum", "drift", "resourceNames", "status", "manifest"}
_HARMLESS: Final = {
    "version",
    "devel",
    "lint",
    "renderSubchartNotes",
    "allowNullValues",
    "repositoryOpts",
    "dependencyUpdate",
}
_PENDING: Final = {"pending-install", "pending-upgrade", "pending-rollback"}
_DEPLOYED: Final = "deployed"
#: Kubernetes' Secrets in which helm keeps revisions.
_SECRET: Final = kind_of("Secret")


class ReleaseResource(ResourceKind):
    """Helm releases. *home* is a folder for helm's caches."""

    def __init__(self, connector: Connector, home: Path) -> None:
        self._connector = connector
        self._home = home

    # --- what is wanted -----------------------------------------------------------------------------------------------

    @override
    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:
        """See `ResourceKind.check`: fills in defaults and the chart's checksum."""
        stated = without_nulls(news)
        inputs = dict(stated) if isinstance(stated, Mapping) else {}
        inputs.pop("drift", None)
        failures = [
            Failure(
                key,
                "is not known to the stand-in for pulumi-kubernetes: it takes charts on this machine and plain values",
            )
            for key, value in inputs.items()
            if key not in _STATED | _OWN | _HARMLESS and value not in (False, "", 0, [], {})
        ]
        inputs.setdefault("namespace", self._connector.namespace)
        inputs.setdefault("name", call.name)
        inputs.setdefault("timeout", _TIMEOUT)
        chart = inputs.get("chart")
        if isinstance(chart, str):
            try:
                if not charts.is_chart(Path(chart)):
                    failures.append(Failure("chart", f"{chart} is no chart: no Chart.yaml in it"))
                else:
                    inputs["checksum"] = charts.checksum(Path(chart))
            except OSError as error:
                failures.append(Failure("chart", f"{chart} cannot be read: {error.strerror}"))
        elif chart is not UNKNOWN:
            failures.append(Failure("chart", "is missing: the path of a chart on this machine"))
        return Checked(inputs, failures)

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
        """See `ResourceKind.diff`: where a chart lies is no difference, what it holds is."""
        same = old_inputs.get("checksum") == news.get("checksum") and old_inputs.get("checksum") is not None
        found = differences(
            old_inputs,
            news,
            replace=("name", "namespace"),
            ignore=[*ignore, *(["chart"] if same else []), "resourceNames", "compat"],
        )
        return Difference(found.changes, delete_before_replace=False)

    # --- doing it -----------------------------------------------------------------------------------------------------

    @override
    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        """See `ResourceKind.create`: what exists already is upgraded."""
        if preview:
            return Created("", self._previewed(call, news))
        return Created(_id(news), self._upgraded(call, news))

    @override
    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        """See `ResourceKind.update`."""
        return self._previewed(call, news) if preview else self._upgraded(call, news)

    @override
    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        """See `ResourceKind.read`."""
        namespace, _, name = resource_id.rpartition("/")
        stated: Properties = inputs or {"name": name, "namespace": namespace or self._connector.namespace}
        held = self._helm().json(call, "status", name, "--namespace", str(stated["namespace"]))
        if held is None:
            return None
        found = {key: value for key, value in stated.items() if key != "drift"}
        found["values"] = _changed_values(stated.get("values"), held.get("config") or {})
        if not found["values"] and not stated.get("values"):
            del found["values"]
        status = held["info"]["status"]
        said = [f"release {resource_id} is {status}"] if status != _DEPLOYED else self._drift(call, held)
        if said:
            found["drift"] = said
        return Found(resource_id, found, self._outputs(call, found, held))

    @override
    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        """See `ResourceKind.delete`."""
        inputs = plain_properties(old_inputs)
        name, namespace = str(inputs["name"]), str(inputs["namespace"])
        seconds = str(int(call.timeout or _number(inputs.get("timeout"), _TIMEOUT)))
        call.status("uninstalls")
        arguments = (
            "uninstall",
            name,
            "--namespace",
            namespace,
            "--ignore-not-found",
            "--wait",
            "--timeout",
            f"{seconds}s",
        )
        try:
            self._helm().run(call, *arguments)
        except HelmFailedError as error:
            raise _refused(f"Release {resource_id}: helm uninstall", str(error)) from None

    # --- details ------------------------------------------------------------------------------------------------------

    def _helm(self) -> Helm:
        connection = self._connector.connection()
        return Helm(connection.kubeconfig, connection.context, self._home)

    def _client(self, call: Call) -> ClusterClient:
        return told(call, self._connector.connection().client)

    def _upgraded(self, call: Call, news: Properties) -> dict[str, Value]:
        """Install or upgrade; the outputs. A release that is there but not as wanted stays in the state (`PartialError`)."""
        inputs = plain_properties(news)
        label = f"Release {_id(news)} (chart {Path(str(inputs['chart'])).name})"
        helm, client = self._helm(), self._client(call)
        asked(label, lambda: settle(call, client, helm, str(inputs["namespace"]), str(inputs["name"])))
        watch = _Watch(call, client, str(inputs["namespace"]), str(inputs["name"]))
        call.status("installs")
        try:
            helm.run(
                call,
                *_arguments(inputs, call.timeout),
                given=json.dumps(inputs.get("values") or {}),
                meanwhile=watch.look,
            )
        except HelmFailedError as error:
            reason = "\n".join([f"{label}: helm upgrade at {client.server}: {error}", *watch.seen])
            held = (
                None
                if unreachable(str(error))
                else helm.json(call, "status", str(inputs["name"]), "--namespace", str(inputs["namespace"]))
            )
            if held is None:
                raise _refused(label, reason) from None
            if held["info"]["status"] == _DEPLOYED:  # --atomic went back to the revision before
                raise RefusedError(reason) from None
            broken = {**news, "drift": [f"release is {held['info']['status']}"]}
            raise PartialError(_id(news), self._outputs(call, broken, held), [reason], broken) from None
        held = helm.json(call, "status", str(inputs["name"]), "--namespace", str(inputs["namespace"]))
        if held is None:
            raise PluginError(f"{label}: is gone right after helm had installed it; someone uninstalls it")
        return self._outputs(call, news, held)

    def _previewed(self, call: Call, news: Properties) -> dict[str, Value]:
        """The inputs, after helm has rendered the chart with them: bad values are an error of the preview."""
        if has_unknown(news) or not self._connector.known:
            return dict(news)
        inputs = plain_properties(news)
        label = f"Release {_id(news)} (chart {Path(str(inputs['chart'])).name})"
        arguments = [
            word for word in _arguments(inputs, call.timeout) if word not in {"--atomic", "--wait", "--wait-for-jobs"}
        ]
        try:
            self._helm().run(
                call, *arguments, "--dry-run=server", "--hide-secret", given=json.dumps(inputs.get("values") or {})
            )
        except HelmFailedError as error:
            if not unreachable(str(error)):
                if "another operation" in str(error):  # left by a killed run; the update settles it
                    return dict(news)
                raise _refused(f"{label}: helm upgrade --dry-run", str(error)) from None
            call.warn(f"{label}: not checked against the cluster: {error}")
        return {**news, "status": UNKNOWN}

    def _drift(self, call: Call, held: Mapping[str, Any]) -> list[str]:
        label = f"Release {held['namespace']}/{held['name']}"
        return asked(label, lambda: drift(self._client(call), held.get("manifest") or "", held["namespace"]))

    def _outputs(self, call: Call, inputs: Properties, held: Mapping[str, Any]) -> dict[str, Value]:
        about = self._helm().json(call, "get", "metadata", held["name"], "--namespace", held["namespace"]) or {}
        status = {
            "appVersion": about.get("appVersion"),
            "chart": about.get("chart"),
            "name": held["name"],
            "namespace": held["namespace"],
            "revision": held["version"],
            "status": held["info"]["status"],
            "version": about.get("version"),
        }
        names: dict[str, list[str]] = {}
        for item in charts.objects(held.get("manifest") or "", held["namespace"]):
            metadata = item["metadata"]
            names.setdefault(f"{item['kind']}/{item['apiVersion']}", []).append(
                f"{metadata['namespace']}/{metadata['name']}"
            )
        outputs: dict[str, Value] = {
            **inputs,
            "status": status,
            "resourceNames": {kind: sorted(held) for kind, held in names.items()},
        }
        return mark_like(outputs, inputs)


def settle(call: Call, client: ClusterClient, helm: Helm, namespace: str, name: str) -> None:
    """Put aside what a killed helm left of release *name*, so that helm will work on it again.

    helm refuses a release whose latest revision is pending. Whoever wrote that revision is dead: helm ends with the plugin that started it,
    and the engine runs one update of a stack at a time. Its record is deleted, and not the objects that it made: the next install adopts
    them, as they carry the release's name. A half-done uninstall is finished. Raises `ClusterError`.
    """
    selector = f"owner=helm,name={name}"
    for record in client.list(_SECRET, namespace, selector):
        metadata = record["metadata"]
        status = (metadata.get("labels") or {}).get("status")
        if status in _PENDING:
            revision = metadata["labels"].get("version")
            call.info(
                f"release {namespace}/{name}: revision {revision} was left {status} by a killed run; goes on from there"
            )
            client.delete(_SECRET, namespace, metadata["name"], uid=metadata["uid"])
        elif status == "uninstalling":
            call.info(f"release {namespace}/{name}: was left half uninstalled by a killed run; finishing that first")
            try:
                helm.run(call, "uninstall", name, "--namespace", namespace, "--ignore-not-found", "--wait")
            except HelmFailedError as error:
                raise _refused(f"Release {namespace}/{name}: helm uninstall", str(error)) from None


class _Watch:
    """Looks at the pods of a release while helm waits for them: afterwards, above all after a rollback, nobody can."""

    def __init__(self, call: Call, client: ClusterClient, namespace: str, name: str) -> None:
        self._call, self._client = call, client
        self._namespace, self._selector = namespace, f"app.kubernetes.io/instance={name}"
        self._next = time.monotonic()
        self.seen: list[str] = []

    def look(self) -> None:
        """Note what the pods wait for."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 2.0
        try:
            pods = self._client.list(kind_of("Pod"), self._namespace, self._selector)
        except ClusterError:
            return  # helm itself will say so
        waiting = [text for pod in pods for text in _unready(pod)]
        if waiting:
            self.seen = waiting
            self._call.status(f"waits: {waiting[0]}")


def _unready(pod: Mapping[str, Any]) -> list[str]:
    """Why a pod is not ready, in the words of its scheduler and kubelet; empty when it is."""
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True":
        return []
    if conditions.get("PodScheduled", {}).get("status") == "False":
        return [f"pod {name}: {conditions['PodScheduled'].get('message', 'is not scheduled')}"]
    told_by_containers = []
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state", {})
        about = state.get("waiting") or state.get("terminated")
        if about:
            told_by_containers.append(
                f"pod {name}: {container['name']}: {about.get('reason', '')} {about.get('message', '')}".rstrip()
            )
    return told_by_containers or [f"pod {name}: {conditions.get('Ready', {}).get('message', 'is not ready')}"]


def _arguments(inputs: Mapping[str, Value], allowed: float | None) -> list[str]:
    """helm's command line for *inputs* (plain); *allowed* seconds by the engine bound it."""
    seconds = _number(inputs.get("timeout"), _TIMEOUT)
    seconds = min(seconds, int(allowed)) if allowed else seconds
    arguments = [
        "upgrade",
        str(inputs["name"]),
        str(inputs["chart"]),
        "--install",
        "--namespace",
        str(inputs["namespace"]),
    ]
    arguments += [
        "--values",
        "-",
        "--timeout",
        f"{seconds}s",
        "--history-max",
        str(_number(inputs.get("maxHistory"), 10)),
    ]
    arguments += [] if inputs.get("skipAwait") else ["--wait"]
    arguments += ["--description", str(inputs["description"])] if inputs.get("description") else []
    return arguments + [flag for key, flag in _FLAGS.items() if inputs.get(key)]


def _changed_values(stated: Value, held: Value) -> Value:
    """The values of the live release, secret where ours are: the stated ones when they are the same."""
    if plain(stated) == held or (not stated and not held):
        return stated if stated is not None else {}
    live = as_live(stated, held) if stated is not None else {}
    extra = (
        {key: value for key, value in held.items() if not isinstance(stated, Mapping) or key not in stated}
        if isinstance(held, Mapping)
        else {}
    )
    return {**live, **extra} if isinstance(live, Mapping) else live


def _refused(label: str, reason: str) -> PluginError:
    text = reason if reason.startswith(label) else f"{label}: {reason}"
    return UnreachableError(text) if unreachable(reason) else RefusedError(text)


def _id(inputs: Properties) -> str:
    held = plain_properties(inputs)
    return f"{held['namespace']}/{held['name']}"


def _number(value: Value, default: int) -> int:
    return int(value) if isinstance(value, int | float) and value else default
