"""The lab's certificate authorities: one root a purpose, leaf certificates that are renewed before they expire.

Invariants:

* `Authority.issue` is idempotent: the same request gives the same certificate until a third of its life is left, then a new one.
* Private keys are in 0600 files in 0700 folders and never leave them; files are replaced by rename.
* A killed `issue` leaves a pair that does not match at worst; the next call sees that and makes both anew.
* Authorities are separate: a certificate of one is worth nothing to those who trust another.

Whoever asks sees only `Authority` and `Credential`, so that an ACME client of step-ca can stand behind the same two.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pinion.lab.errors import LabError
from pinion.lab.state import lock, write_file

#: Life of a root and of a leaf. A leaf is renewed when less than a third of its life is left, so `up` once a month keeps a lab alive.
_ROOT_LIFE = dt.timedelta(days=3650)
_LEAF_LIFE = dt.timedelta(days=90)
#: Certificates are valid from a little in the past: lab machines share our clock, users' browsers may not.
_BACKDATED = dt.timedelta(minutes=5)
#: Seconds to wait for another thread or process that is making a certificate: each takes milliseconds.
_LOCK_SECONDS = 60.0


class Usage(Enum):
    """What a certificate may be used for (RFC 5280, 4.2.1.12)."""

    SERVER = ExtendedKeyUsageOID.SERVER_AUTH
    CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate (PEM, 0644) with its private key (PEM, PKCS #8, 0600) and the certificate of the authority that vouches for it."""

    certificate: Path
    key: Path
    ca: Path


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def authority(state: Path, name: str = "site", clock: Callable[[], dt.datetime] = _now) -> Authority:
    """The authority *name* of the instance whose state folder is *state*; its root is made at the first call.

    ``site`` vouches for the site's services (NetBox); the cluster has authorities of its own. `LabError` when the files cannot be kept.
    """
    return Authority(state / "pki" / name, f"{state.name} {name}", clock)


class Authority:
    """One root certificate and what it has issued, in *folder*. *title* tells people which one it is."""

    def __init__(self, folder: Path, title: str, clock: Callable[[], dt.datetime] = _now) -> None:
        self._folder = folder
        self._title = title
        self._now = clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kept in (folder.parent, folder):
            kept.chmod(0o700)
        with self._locked():
            self._root = self._made_root()

    @property
    def certificate(self) -> Path:
        """The root certificate (PEM): what clients trust."""
        return self._folder / "ca.crt"

    @property
    def key(self) -> Path:
        """The root's private key, for programs that sign themselves (kubelet certificates by the controller manager)."""
        return self._folder / "ca.key"

    def issue(
        self,
        name: str,
        dns: Sequence[str] = (),
        addresses: Sequence[str] = (),
        usages: Sequence[Usage | str] = (Usage.SERVER,),
        *,
        subject: str | None = None,
        groups: Sequence[str] = (),
    ) -> Credential:
        """A certificate for *name* (also its file name) that is good for *dns* names and IP *addresses*.

        *usages* are `Usage` or their names in lower case. *subject* is the common name when it is not *name*; *groups* become
        organisations, which Kubernetes reads as groups. The same arguments give the same files until renewal is due.
        """
        if "/" in name or name in {"", ".", "..", "ca"}:
            raise LabError(f"certificate {name!r}: not a file name; choose another")
        wanted = _Wanted(
            subject=subject or name,
            groups=tuple(groups),
            dns=tuple(dns),
            addresses=tuple(str(ipaddress.ip_address(address)) for address in addresses),
            usages=tuple(usage if isinstance(usage, Usage) else Usage[usage.upper()] for usage in usages),
        )
        found = Credential(self._folder / f"{name}.crt", self._folder / f"{name}.key", self.certificate)
        with self._locked():
            if not self._good(found, wanted):
                key = ec.generate_private_key(ec.SECP256R1())
                certificate = self._sign(wanted, key.public_key())
                write_file(found.key, _private_pem(key), 0o600)
                write_file(found.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        return found

    def _locked(self) -> contextlib.AbstractContextManager[int]:
        return lock(self._folder / ".lock", timeout=_LOCK_SECONDS)

    # --- the root -----------------------------------------------------------------------------------------------------

    def _made_root(self) -> _Pair:
        pair = _read_pair(self.certificate, self.key)
        if pair is not None and pair.certificate.not_valid_after_utc > self._now() + _LEAF_LIFE:
            return pair
        if pair is None and self.certificate.exists() and self.key.exists():
            raise LabError(
                f"{self._folder}: ca.crt and ca.key do not belong together; restore them, or remove the folder to start anew"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Pinion"),
            # the serial keeps roots of two instances of one name apart in a browser's store
            x509.NameAttribute(NameOID.COMMON_NAME, f"{self._title} CA {x509.random_serial_number() % 2**32:08x}"),
        ])  # fmt: skip
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now() - _BACKDATED)
            .not_valid_after(self._now() + _ROOT_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        # the certificate last: a root without one is begun anew, and nothing has trusted it yet
        self.certificate.unlink(missing_ok=True)
        write_file(self.key, _private_pem(key), 0o600)
        write_file(self.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        return _Pair(certificate, key)

    # --- leaves -------------------------------------------------------------------------------------------------------

    def _good(self, found: Credential, wanted: _Wanted) -> bool:
        """Whether what is on disk is ours, matches its key, says what is wanted and lives long enough."""
        pair = _read_pair(found.certificate, found.key)
        if pair is None:
            return False
        try:
            pair.certificate.verify_directly_issued_by(self._root.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        rest = pair.certificate.not_valid_after_utc - self._now()
        return rest > _LEAF_LIFE / 3 and _Wanted.of(pair.certificate) == wanted

    def _sign(self, wanted: _Wanted, public: ec.EllipticCurvePublicKey) -> x509.Certificate:
        root = self._root.certificate
        builder = (
            x509.CertificateBuilder()
            .subject_name(wanted.name)
            .issuer_name(root.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now() - _BACKDATED)
            .not_valid_after(min(self._now() + _LEAF_LIFE, root.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage.value for usage in wanted.usages]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root.key.public_key()), critical=False
            )
        )
        if names := wanted.alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._root.key, hashes.SHA256())


@dataclass(frozen=True, slots=True)
class _Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a leaf says."""

    subject: str
    groups: tuple[str, ...]
    dns: tuple[str, ...]
    addresses: tuple[str, ...]
    usages: tuple[Usage, ...]

    @property
    def name(self) -> x509.Name:
        return x509.Name([
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in self.groups),
            x509.NameAttribute(NameOID.COMMON_NAME, self.subject),
        ])  # fmt: skip

    @property
    def alternatives(self) -> list[x509.GeneralName]:
        return [
            *(x509.DNSName(name) for name in self.dns),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in self.addresses),
        ]

    @classmethod
    def of(cls, certificate: x509.Certificate) -> _Wanted:
        """What *certificate* says."""

        def texts(oid: x509.ObjectIdentifier) -> tuple[str, ...]:
            return tuple(str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid))

        dns: tuple[str, ...] = ()
        addresses: tuple[str, ...] = ()
        with contextlib.suppress(x509.ExtensionNotFound):
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            dns = tuple(names.get_values_for_type(x509.DNSName))
            addresses = tuple(str(address) for address in names.get_values_for_type(x509.IPAddress))
        usages: tuple[Usage, ...] = ()
        with contextlib.suppress(x509.ExtensionNotFound):
            extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            usages = tuple(Usage(oid) for oid in extended)
        common = texts(NameOID.COMMON_NAME)
        return cls(common[0] if common else "", texts(NameOID.ORGANIZATION_NAME), dns, addresses, usages)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read_pair(certificate: Path, key: Path) -> _Pair | None:
    """Certificate and key when both can be read and belong together, else None."""
    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError):
        return None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or read.public_key() != private.public_key():
        return None
    return _Pair(read, private)
