"""The authority: what it issues is good, stays the same, is renewed, and survives being killed half-way."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import ssl
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pinion.lab import pki
from pinion.lab.errors import LabError


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_says_what_was_asked(tmp_path: Path) -> None:
    issued = pki.authority(tmp_path).issue(
        "node-1", ["node-1", "node-1.lab"], ["10.0.0.1", "fd00::1"], ["server", "client"],
        subject="system:node:node-1", groups=["system:nodes"],
    )  # fmt: skip
    read = _certificate(issued.certificate)
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1", "node-1.lab"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_address("fd00::1"),
    ]
    usages = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    assert [attribute.value for attribute in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "system:node:node-1"
    ]
    assert [attribute.value for attribute in read.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "system:nodes"
    ]


def test_keys_are_private(tmp_path: Path) -> None:
    authority = pki.authority(tmp_path)
    issued = authority.issue("web")
    for key in (issued.key, authority.key):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "pki" / "site").stat().st_mode) == 0o700


def test_same_request_same_certificate(tmp_path: Path) -> None:
    first = pki.authority(tmp_path).issue("web", ["web"]).certificate.read_bytes()
    assert pki.authority(tmp_path).issue("web", ["web"]).certificate.read_bytes() == first
    assert pki.authority(tmp_path).issue("web", ["web", "www"]).certificate.read_bytes() != first


@pytest.mark.parametrize(("days", "renewed"), [(59, False), (61, True), (91, True)])
def test_renewed_before_it_expires(tmp_path: Path, days: int, renewed: bool) -> None:
    before = pki.authority(tmp_path).issue("web").certificate.read_bytes()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    after = pki.authority(tmp_path, clock=lambda: later).issue("web").certificate.read_bytes()
    assert (after != before) is renewed


def _lose_key(folder: Path) -> None:
    (folder / "web.key").unlink()


def _cut_certificate(folder: Path) -> None:
    (folder / "web.crt").write_bytes((folder / "web.crt").read_bytes()[:100])


def _foreign_key(folder: Path) -> None:
    (folder / "web.key").write_bytes((folder / "other.key").read_bytes())


@pytest.mark.parametrize("damage", [_lose_key, _cut_certificate, _foreign_key])
def test_half_a_pair_heals(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    authority = pki.authority(tmp_path)
    authority.issue("other")
    issued = authority.issue("web", ["localhost"])
    damage(issued.key.parent)
    healed = authority.issue("web", ["localhost"])
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(healed.certificate, healed.key)


def test_root_begun_and_killed_is_begun_anew(tmp_path: Path) -> None:
    root = pki.authority(tmp_path)
    root.certificate.unlink()  # killed between key and certificate
    assert pki.authority(tmp_path).issue("web").certificate.exists()


def test_mixed_up_root_is_not_replaced_in_silence(tmp_path: Path) -> None:
    first, second = pki.authority(tmp_path, "a"), pki.authority(tmp_path, "b")
    first.key.write_bytes(second.key.read_bytes())
    with pytest.raises(LabError, match="do not belong together"):
        pki.authority(tmp_path, "a")


def test_many_at_once_get_one_certificate(tmp_path: Path) -> None:
    got: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: got.append(pki.authority(tmp_path).issue("web").certificate.read_bytes()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(got)) == 1


def test_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    for name in ("../web", "ca", ""):
        with pytest.raises(LabError, match="not a file name"):
            pki.authority(tmp_path).issue(name)


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """ "" when a client that connects to localhost and the server agree, else the error."""
    here, there = socket.socketpair()
    problems: list[str] = []

    def serve() -> None:
        try:
            with server.wrap_socket(there, server_side=True) as connection:
                connection.recv(1)
        except OSError as error:
            problems.append(str(error))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(here, server_hostname="localhost") as connection:
            connection.send(b"x")
    except OSError as error:
        problems.append(str(error))
        here.close()
    thread.join(10)
    return "; ".join(problems)


def test_tls_works_and_other_authorities_are_not_trusted(tmp_path: Path) -> None:
    issued = pki.authority(tmp_path).issue("web", ["localhost"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(issued.certificate, issued.key)
    strict = ssl.create_default_context(cafile=str(issued.ca))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    assert _handshake(server, strict) == ""
    stranger = pki.authority(tmp_path, "other")
    assert "CERTIFICATE_VERIFY_FAILED" in _handshake(
        server, ssl.create_default_context(cafile=str(stranger.certificate))
    )


def test_server_certificate_is_no_client_certificate(tmp_path: Path) -> None:
    authority = pki.authority(tmp_path)
    web, user = authority.issue("web", ["localhost"]), authority.issue("user", usages=["client"])
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(web.ca))
    server.load_cert_chain(web.certificate, web.key)
    server.verify_mode = ssl.CERT_REQUIRED
    for credential, accepted in ((user, True), (web, False)):
        client = ssl.create_default_context(cafile=str(web.ca))
        client.load_cert_chain(credential.certificate, credential.key)
        assert (_handshake(server, client) == "") is accepted
