"""A small rack whose GPU server serves a model by Triton: the site file's statement, what the stack would install of it, and a load."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from lab.cluster_rack import ClusterRack
from lab.small_rack import GPU, SITE

from pinion.drivers.hosts.inventory import plan_of
from pinion.lab.models.artefacts import Artefacts, default_cache, intact, obtain, place
from pinion.lab.state import cache_root
from pinion.plan.cluster import security_labels
from pinion.plan.model import ClusterPlan, Plan, ReleasePlan
from pinion.plan.pool import pool_releases
from pinion.provider.cluster.release import ReleaseWish
from pinion.provider.shape import ORIGIN

MODEL = "pinion-tiny"
#: Where mgmt-1 serves files: pods know no host by name.
SOURCE = "http://10.77.100.10:8090"
#: What the model is trained for where nobody has trained it whole: an answer all the same.
STEPS = 8
#: Asks from many threads for as long as its second argument is there.
ASKING = Path(__file__).with_name("asking.py")


class PoolRack(ClusterRack):
    """The rack, and the operator's half of the key that signs its models."""

    PARTS: ClassVar[str] = "switch,cluster,models"

    def state(self) -> None:
        """Write the site file."""
        public = self.pinion("artefact", "key", str(self.key))["key"]
        signed = self.signed(self.model.onnx, "tiny.onnx")
        stated = {
            "models": {MODEL: {"pool": {**signed, "batching": {"window": "2ms"}}}},
            "objectives": {"site": {"p95": "5s"}},
            "concerns": {"model_store": {"key": public}},
        }
        self.site.write_text(SITE + GPU + yaml.safe_dump(stated, sort_keys=False))

    def signed(self, file: Path, served: str) -> dict[str, Any]:
        """What the site file says of *file*, signed, when mgmt-1 serves it as *served*."""
        url = ("--url", f"{SOURCE}/{served}")
        return self.pinion(
            "artefact", "sign", str(file), "--key", str(self.key), "--name", MODEL, "--format", "onnx", *url
        )

    @property
    def key(self) -> Path:
        """Where the private half of the key lies."""
        return self.folder / "signing.pem"

    def pool(self, **changes: object) -> None:
        """State other values of the model's pool in the site file."""
        stated = yaml.safe_load(self.site.read_text())
        stated["models"][MODEL]["pool"] |= changes
        self.site.write_text(yaml.safe_dump(stated, sort_keys=False))

    @property
    def model(self) -> Artefacts:
        whole = place(default_cache())
        return whole if intact(whole) else obtain(steps=STEPS)

    @staticmethod
    def pinion(*arguments: str) -> dict[str, Any]:
        """What `pinion ... --json` says."""
        command = [sys.executable, "-m", "pinion", *arguments, "--json"]
        answer: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return answer

    @property
    def plan(self) -> Plan:
        return plan_of(self.site)

    @property
    def cluster(self) -> ClusterPlan:
        found = self.plan.cluster
        assert found is not None
        return found

    @property
    def release(self) -> ReleasePlan:
        (found,) = pool_releases(self.cluster)
        return found

    # --- what the stack does ------------------------------------------------------------------------------------------

    def prepare_cluster(self) -> None:
        """Labels, taints, namespaces, accounts and default-deny, as the stack has them."""
        for node in self.cluster.nodes:
            self.kubectl("label", "node", node.name, *(f"{key}={value}" for key, value in node.labels.items()))
            for taint in node.taints:
                self.kubectl("taint", "node", node.name, f"{taint.key}={taint.value}:{taint.effect}")
        for namespace in self.cluster.namespaces:
            labels = security_labels(namespace)
            inside = {"namespace": namespace.name}
            deny = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
            self.apply(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name, "labels": labels}},
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": namespace.service_account, **inside}},
                {
                    "apiVersion": "networking.k8s.io/v1",
                    "kind": "NetworkPolicy",
                    "metadata": {"name": "default-deny", **inside},
                    "spec": deny,
                },
            )  # fmt: skip

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply manifests as the administrator."""
        path = self.folder / "manifests.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
        self.kubectl("apply", "-f", str(path))

    def helm(self, *arguments: str, expect: int | None = 0) -> str:
        """Run helm with the rights of whoever deploys."""
        helm = (str(cache_root() / "bin" / "helm"), "--kubeconfig", self.kubeconfig("kubeconfig"))
        return self.inside(*helm, "--namespace", self.release.namespace, *arguments, expect=expect)

    def bring(self, *, seconds: int = 120, **values: object) -> tuple[str, list[str]]:
        """Bring the release about as it is planned now, by the provider that the stack has: its error, empty when there is none, and what
        was told meanwhile. *values* stand for what the plan could never say.
        """
        release, inputs = self.release, self.folder / "release.json"
        wish = ReleaseWish(
            site=self.plan.site,
            namespace=release.namespace,
            name=release.name,
            chart=f"charts/{release.chart}",
            values={**release.values, **values},
            timeout=seconds,
        )
        inputs.write_text(json.dumps({**wish.model_dump(mode="json"), ORIGIN: release.origin}))
        return self._released(str(inputs))

    def install(self) -> None:
        """`bring`, and all is well."""
        error, _ = self.bring()
        assert error == ""

    def uninstall(self) -> None:
        """Have the release taken away, as a destroy does."""
        error, _ = self._released("-")
        assert error == ""

    def _released(self, inputs: str) -> tuple[str, list[str]]:
        program, state = Path(__file__).with_name("releasing.py"), str(self.folder / "release-state.json")
        path = f"PYTHONPATH={program.parents[1]}"
        command = (sys.executable, str(program), self.kubeconfig("kubeconfig"), inputs, state)
        answer = json.loads(self.inside("env", path, *command))
        return str(answer["error"]), list(answer["said"])

    # --- what became of it --------------------------------------------------------------------------------------------

    def pods(self) -> list[dict[str, Any]]:
        """The release's pods that are not on their way out."""
        found = json.loads(self.kubectl("-n", self.release.namespace, "get", "pods", "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def service_address(self) -> str:
        """The address of the release's service."""
        jsonpath = "jsonpath={.spec.clusterIP}"
        return self.kubectl("-n", self.release.namespace, "get", "service", self.release.name, "-o", jsonpath).strip()

    @contextlib.contextmanager
    def load(self, threads: int = 4, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Ask the service all the while, from nv-1; afterwards the block's value says what came of it, as `asking.py` tells it."""
        machine, flag = self.machine("nv-1"), "/run/asking"
        machine.write("/root/asking.py", ASKING.read_text())
        machine.run(["touch", flag])
        url = f"http://{self.service_address()}:{self.release.port}/v2/models/{MODEL}/infer"
        command = ["python3", "/root/asking.py", url, str(threads), flag, *([str(most)] if most else [])]
        told: dict[str, Any] = {}

        def ask() -> None:
            done = machine.run(command, check=False, timeout=600)
            told.update(json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr})

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            # some of the load lies before what is done under it, and some after
            time.sleep(2)
            yield told
            time.sleep(2)
        finally:
            if most is None:
                machine.run(["rm", "-f", flag], check=False)
            asking.join()
            machine.run(["rm", "-f", flag], check=False)

    def reaches(self, source: str, address: str, port: int) -> bool:
        """Whether host *source* can open a connection there."""
        code = f"import socket; socket.create_connection(('{address}', {port}), 3)"
        return self.machine(source).run(["python3", "-c", code], check=False).returncode == 0

    def pod_reaches(self, pod: str, address: str, port: int) -> bool:
        """Whether *pod* of the release can open a connection there."""
        code = f"import socket; socket.create_connection(('{address}', {port}), 3); print('reached')"
        ask = ("exec", pod, "-c", "triton", "--", "python3.11", "-c", code)
        return "reached" in self.kubectl("-n", self.release.namespace, *ask, expect=None)
