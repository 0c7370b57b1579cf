"""What a node says of the certificate that its kubelet serves with. Real TLS on loopback; the API server's half is in tests/cluster."""

from __future__ import annotations

import datetime as dt
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinion.lab.pki import Authority, Credential, authority
from pinion.services.node_programs import kube_join

NODE, HERE = "pi-01", "127.0.0.1"


class _Kubelet(http.server.BaseHTTPRequestHandler):
    """Answers nobody."""

    def do_GET(self) -> None:
        self.send_error(401)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(shown: Credential) -> Iterator[int]:
    """A kubelet that serves with *shown*; its port."""
    server = http.server.ThreadingHTTPServer((HERE, 0), _Kubelet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def told(folder: Path, trusted: Authority, certificate: Path | None = None) -> Path:
    """The program's file, for a node whose kubelet serves with *certificate*."""
    said = dict.fromkeys(("server", "certificate", "bootstrap", "program"), f"{folder}/none")
    said |= {"node": NODE, "authority": str(trusted.certificate), "address": HERE}
    path = folder / "kube-join.json"
    path.write_text(
        json.dumps({**said, "serving": str(certificate or folder / "none"), "labels": {}, "taints": [], "source": None})
    )
    return path


def of_days_ago(folder: Path, days: int) -> Authority:
    """The cluster's authority, as it signed *days* ago."""
    authority(folder, "kubernetes", lambda: dt.datetime.now(dt.UTC) - dt.timedelta(days=100)).certificate.read_bytes()
    return authority(folder, "kubernetes", lambda: dt.datetime.now(dt.UTC) - dt.timedelta(days=days))


def stranger(folder: Path, trusted: Authority, shown: Credential, monkeypatch: pytest.MonkeyPatch) -> int:
    """The program's exit code, for a kubelet that shows *shown*."""
    with serving(shown) as port:
        monkeypatch.setattr(kube_join, "PORT", port)
        return kube_join.main(["stranger", "--config", str(told(folder, trusted))])


def test_a_good_certificate_and_no_word_to_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = authority(tmp_path, "kubernetes")
    assert stranger(tmp_path, trusted, trusted.issue("kubelet", (NODE,), (HERE,)), monkeypatch) == 0
    assert capsys.readouterr().out == "401\n"


@pytest.mark.parametrize(
    ("signer", "address", "days", "said"),
    [
        ("etcd", HERE, 0, "certificate verify failed"),
        ("kubernetes", "127.0.0.2", 0, "IP address mismatch"),
        ("kubernetes", HERE, 84, "ends in 6.0 days, and nobody has approved the next one"),
    ],
)
def test_another_certificate_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    signer: str,
    address: str,
    days: int,
    said: str,
) -> None:
    trusted = of_days_ago(tmp_path, days)
    signs = trusted if signer == "kubernetes" else authority(tmp_path, signer)
    assert stranger(tmp_path, trusted, signs.issue("kubelet", (NODE,), (address,)), monkeypatch) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("days", "old"), [(1, False), (62, False), (64, True), (89, True)])
def test_when_the_next_one_is_to_be_looked_for(tmp_path: Path, days: int, old: bool) -> None:
    shown = of_days_ago(tmp_path, days).issue("kubelet", (NODE,), (HERE,))
    assert (kube_join._age(shown.certificate) >= kube_join.RENEWED_FROM) is old


def test_who_is_no_node_asks_for_nothing(tmp_path: Path) -> None:
    assert kube_join.main(["asks", "--wait", "30", "--config", str(told(tmp_path, authority(tmp_path)))]) == 1
