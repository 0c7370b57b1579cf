"""An API server and nothing else of the lab: etcd, kube-apiserver and the controller manager on loopback, for tests and benchmarks.

Invariants:

* Everything lies in one folder and listens on loopback only; no root is needed.
* The kernel ends all of it with the thread that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.cluster.credentials import ClusterCredentials, referring
from pinion.lab.errors import LabError
from pinion.lab.pki import Credential
from pinion.lab.ports import free_ports
from pinion.lab.state import write_file
from pinion.plan.model import ClusterPlan

#: Seconds from start to the first answer before we give up: 8 on an idle machine with two cores.
START_SECONDS = 120.0


@dataclass(frozen=True)
class StandaloneCluster:
    """A running API server. *kubeconfig* is its administrator's; *credentials* issue others; *log* is a folder."""

    server: str
    kubeconfig: Path
    credentials: ClusterCredentials
    log: Path

    def kubeconfig_of(self, user: str, *groups: str) -> Path:
        """A kubeconfig of another user."""
        path = self.kubeconfig.with_name(f"{user}.kubeconfig")
        write_file(path, referring(self.server, user, self.credentials.user(user, *groups)))
        return path


@contextlib.contextmanager
def standalone(folder: Path, programs: Path) -> Iterator[StandaloneCluster]:
    """Run a cluster without nodes in the empty *folder* until the block ends; *programs* is the folder of the binaries.

    `LabError` when it does not come up, with the end of its logs.
    """
    api, client, peer = free_ports(3)
    server = f"https://127.0.0.1:{api}"
    plan = ClusterPlan(
        server=server,
        control_plane="localhost",
        pod_prefix="10.244.0.0/16",
        service_prefix="10.96.0.0/16",
        nodes=(),
        namespaces=(),
        releases=(),
    )
    keys = ClusterCredentials(folder, plan)
    administrator = keys.administrator()
    kubeconfig = folder / "admin.kubeconfig"
    write_file(kubeconfig, referring(server, "administrator", administrator))
    with contextlib.ExitStack() as running:

        def start(name: str, flags: Sequence[str]) -> subprocess.Popen[bytes]:
            return running.enter_context(_running([str(programs / name), *flags], folder / f"{name}.log"))

        processes = {
            "etcd": start("etcd", _etcd(folder, client, peer)),
            "kube-apiserver": start("kube-apiserver", _api_server(folder, keys, api, client)),
        }
        _await(server, administrator, processes, folder)
        # it gives up after 10 s without an API server
        start("kube-controller-manager", _controller_manager(folder, keys, kubeconfig))
        yield StandaloneCluster(server, kubeconfig, keys, folder)


def _etcd(folder: Path, client: int, peer: int) -> list[str]:
    here, others = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
        f"--listen-peer-urls={others}", f"--initial-advertise-peer-urls={others}", f"--initial-cluster=default={others}",
        "--log-level=warn",
    ]  # fmt: skip


def _api_server(folder: Path, keys: ClusterCredentials, api: int, client: int) -> list[str]:
    serving, signing = keys.api_server(), keys.service_account_key()
    return [
        f"--etcd-servers=http://127.0.0.1:{client}", "--bind-address=127.0.0.1", f"--secure-port={api}", "--advertise-address=127.0.0.1",
        f"--cert-dir={folder / 'run'}", f"--tls-cert-file={serving.certificate}", f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={keys.kubernetes.certificate}", "--anonymous-auth=false", "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth",
        "--enable-admission-plugins=NodeRestriction", f"--service-cluster-ip-range={keys.plan.service_prefix}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={signing.with_suffix('.pub')}", f"--service-account-signing-key-file={signing}",
        "--endpoint-reconciler-type=none", "--shutdown-delay-duration=0s", "--profiling=false",
    ]  # fmt: skip


def _controller_manager(folder: Path, keys: ClusterCredentials, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false",
        f"--cert-dir={folder / 'run'}", f"--root-ca-file={keys.kubernetes.certificate}",
        f"--cluster-signing-cert-file={keys.kubernetes.certificate}", f"--cluster-signing-key-file={keys.kubernetes.key}",
        f"--service-account-private-key-file={keys.service_account_key()}", "--use-service-account-credentials=true",
    ]  # fmt: skip


@contextlib.contextmanager
def _running(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """*argv* as a process that ends with this thread, or with the block."""
    tool = shutil.which("setpriv")
    tied = [tool, "--pdeathsig", "KILL"] if tool else []
    with log.open("ab") as stream:
        process = subprocess.Popen([*tied, *argv], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(server: str, user: Credential, processes: dict[str, subprocess.Popen[bytes]], folder: Path) -> None:
    """Wait until the API server is ready."""
    context = ssl.create_default_context(cafile=str(user.ca))
    context.load_cert_chain(user.certificate, user.key)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), opener.open(f"{server}/readyz", timeout=5) as answer:
            if answer.status == 200:
                return
        ended = [name for name, process in processes.items() if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            name = ended[0] if ended else "kube-apiserver"
            words = (folder / f"{name}.log").read_text(errors="replace").splitlines()[-12:]
            reason = "ended" if ended else f"is not ready after {START_SECONDS:.0f} s"
            raise LabError("\n".join([f"{name} {reason}; the end of its log:", *words]))
        time.sleep(0.1)
