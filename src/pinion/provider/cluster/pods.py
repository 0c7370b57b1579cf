"""Why the pods of a release are not ready: which one, the reason, its last log lines, and what to change."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pinion.drivers.cluster import ClusterClient, ClusterError, Json, kind_of
from pinion.provider.plugin import Call

#: Lines of a log that are told, and seconds between two looks.
_LINES, _LOOK_SECONDS = 5, 2.0
#: Waiting for its init containers, which say why, and for its image and volumes.
_EARLY: Final = {"PodInitializing", "ContainerCreating"}
#: The reason of the events by which a kubelet tells of probes.
_PROBED: Final = "Unhealthy"
#: What a kubelet says of an image that it cannot have (Kubernetes documentation, Images).
_IMAGE: Final = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_CONFIG: Final = {"CreateContainerConfigError", "CreateContainerError"}


class PodWatch:
    """Looks at the pods of a release while helm waits for them: afterwards, above all after a rollback, nobody can.

    *selector* takes the release's pods; *origin* is what the site file calls the release. `seen` is the last look at what was not ready.
    """

    def __init__(self, call: Call, client: ClusterClient, namespace: str, selector: str, origin: str) -> None:
        self._call, self._client = call, client
        self._namespace, self._selector, self._origin = namespace, selector, origin
        self._next = time.monotonic()
        self.seen: list[str] = []

    def look(self) -> None:
        """Note what the pods wait for."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LOOK_SECONDS
        try:
            pods = self._client.list(kind_of("Pod"), self._namespace, self._selector)
            refused = [] if pods else self._refused()
        except ClusterError:
            return  # helm itself will say so
        waiting = refused or [text for pod in pods for text in self._unready(pod)]
        if waiting:
            self.seen = waiting
            self._call.status(f"waits: {waiting[0].splitlines()[0]}")

    def _refused(self) -> list[str]:
        """What keeps pods from being made at all: a quota, a policy, an account that is not there."""
        deployments = self._client.list(kind_of("Deployment"), self._namespace, self._selector)
        return [
            f"Deployment {deployment['metadata']['name']}: no pod is made: {condition.get('message', '')}"
            for deployment in deployments
            for condition in deployment.get("status", {}).get("conditions") or ()
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
        ]

    def _unready(self, pod: Json) -> list[str]:
        """Why a pod is not ready, in the words of its scheduler and kubelet; empty when it is."""
        if pod["metadata"].get("deletionTimestamp"):
            return []  # a rollback takes it away: what was seen before is why
        status, name = pod.get("status", {}), pod["metadata"]["name"]
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        if conditions.get("Ready", {}).get("status") == "True":
            return []
        if conditions.get("PodScheduled", {}).get("status") == "False":
            why = conditions["PodScheduled"].get("message", "is not scheduled")
            return [f"pod {name}: {why}\n  to change: the node that {self._origin} names, or what its pods ask of one"]
        told = [
            text
            for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
            if (text := self._of_container(name, pod, container)) is not None
        ]
        return told or [f"pod {name}: {conditions.get('Ready', {}).get('message', 'is not ready')}"]

    def _of_container(self, pod_name: str, pod: Json, container: Mapping[str, Any]) -> str | None:
        """What is wrong with a container; None when it runs and is ready, has ended well, or waits for others."""
        state, name = container.get("state", {}), container["name"]
        about = state.get("waiting") or state.get("terminated") or {}
        reason = about.get("reason", "")
        if container.get("ready") or reason in {"Completed", *_EARLY}:
            return None
        if not about and "running" not in state:
            return None
        probed = "" if about else self._probed(pod_name, name)
        why = f"{reason} {about.get('message', '')}" if state.get("waiting") else reason
        label = f"pod {pod_name}: container {name}: {why or probed or 'runs, and is not ready'}".rstrip()
        if reason in _IMAGE:
            image = next((stated["image"] for stated in _stated(pod) if stated["name"] == name), container.get("image"))
            return f"{label}\n  to change: the image {image}, in the values or the chart of {self._origin}"
        if reason in _CONFIG:
            return f"{label}\n  to change: what the pod refers to (a Secret, a ConfigMap, a key) and is not there"
        ended = state.get("terminated") or container.get("lastState", {}).get("terminated") or {}
        lines = self._last_lines(pod_name, name, ended.get("message", ""), again=bool(container.get("restartCount")))
        advice = "what its log complains of" if ended or (lines and not probed) else "its probes, or what it waits for"
        return "\n".join(
            [label, *(f"  | {line}" for line in lines), f"  to change: {advice}; {self._origin} in the site file"]
        )

    def _probed(self, pod: str, container: str) -> str:
        """What the kubelet last said of a probe of *container*; empty when it said nothing."""
        try:
            events = self._client.list(kind_of("Event"), self._namespace)
        except ClusterError:
            return ""
        said = [
            event
            for event in events
            if event.get("reason") == _PROBED
            and event["involvedObject"].get("name") == pod
            and container in event["involvedObject"].get("fieldPath", "")
        ]
        return str(max(said, key=lambda event: event.get("lastTimestamp") or "")["message"]) if said else ""

    def _last_lines(self, pod: str, container: str, left: str, *, again: bool) -> Sequence[str]:
        """The last lines of a log: those that its kubelet has *left* in the pod's status, which outlive the container, else of the log."""
        try:
            text = left or self._client.log(self._namespace, pod, container, lines=_LINES, previous=again)
        except ClusterError:
            return []
        return text.rstrip().splitlines()[-_LINES:]


def _stated(pod: Json) -> Sequence[Mapping[str, Any]]:
    spec = pod.get("spec", {})
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
