"""A site's authority on the operator's machine: root and intermediate certificate, and the provisioner that signs enrolment tokens.

Invariants:

* The folder is 0700 and its keys 0600; each file is replaced by rename, a key before its certificate.
* `Authority.make` may be killed anywhere and called again: what is there is kept, what is missing or no longer fits is made.
* The root's key signs intermediates and nothing else, and never leaves the folder; it may be taken away once the intermediate is there.
* The intermediate signs for the site's domain and prefixes alone (RFC 5280, 4.2.1.10), and no further authorities.
"""

from __future__ import annotations

import base64
import datetime as dt
import fcntl
import hashlib
import ipaddress
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pinion.drivers.identity.place import VARIABLE, AuthorityError

#: The operator's own provisioner (claim ``iss`` of its tokens): it revokes. Those of hosts are in `issuers`.
PROVISIONER = "pinion"

_ROOT_LIFE, _INTERMEDIATE_LIFE = dt.timedelta(days=3650), dt.timedelta(days=1825)
#: An intermediate with less than this left is made anew.
_INTERMEDIATE_LEFT = dt.timedelta(days=365)
#: Clocks of hosts that are a little behind.
_BACKDATED = dt.timedelta(minutes=5)
_ROOT, _INTERMEDIATE, _TOKENS = "root", "intermediate", "provisioner"


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class Authority:
    """The authority in *folder*; *clock* gives the time in UTC."""

    def __init__(self, folder: Path, clock: Callable[[], dt.datetime] = _now) -> None:
        self.folder = folder
        self._now = clock

    # --- made by `pinion identity init` -------------------------------------------------------------------------------

    def make(self, site: str, domain: str, prefixes: Sequence[str]) -> bool:
        """Have everything, for hosts in *domain* and *prefixes*; whether something was made.

        Raises `AuthorityError` when an intermediate is needed and the root's key is not here, and `OSError`.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with self.locked():
            made = False
            if not self._certificate(_ROOT).exists():
                self._make_root(site)
                made = True
            if not self.fits(domain, prefixes):
                self._make_intermediate(site, domain, prefixes)
                made = True
            if not self._key_file(_TOKENS).exists():
                write(self._key_file(_TOKENS), _private_pem(ec.generate_private_key(ec.SECP256R1())), 0o600)
                made = True
        return made

    def renew_token_key(self) -> None:
        """Make another key for tokens: what was signed with the former one counts nowhere, once step-ca is told. Raises `OSError`."""
        with self.locked():
            write(self._key_file(_TOKENS), _private_pem(ec.generate_private_key(ec.SECP256R1())), 0o600)

    def fits(self, domain: str, prefixes: Sequence[str]) -> bool:
        """Whether there is an intermediate that lives long enough and signs for exactly *domain* and *prefixes*."""
        if not self._certificate(_INTERMEDIATE).exists() or not self._key_file(_INTERMEDIATE).exists():
            return False
        found = self._read(_INTERMEDIATE)
        if found.public_key() != self._key(_INTERMEDIATE).public_key():
            return False
        if found.not_valid_after_utc - self._now() < _INTERMEDIATE_LEFT:
            return False
        stated = found.extensions.get_extension_for_class(x509.NameConstraints).value
        return stated == _constraints(domain, prefixes)

    def _make_root(self, site: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{site} root {x509.random_serial_number() % 2**32:08x}")
        built = self._builder(name, name, key.public_key(), _ROOT_LIFE)
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        # The key first: a key without a certificate is begun anew, and nobody has trusted it yet.
        write(self._key_file(_ROOT), _private_pem(key), 0o600)
        write(self._certificate(_ROOT), _pem(built.sign(key, hashes.SHA256())), 0o644)

    def _make_intermediate(self, site: str, domain: str, prefixes: Sequence[str]) -> None:
        if not self._key_file(_ROOT).exists():
            raise AuthorityError(
                f"{self._key_file(_ROOT)}: the root's key is needed, because the intermediate is missing, near its end, or signs for "
                "other names than the site's; put it back for this one command: pinion identity init"
            )
        root, root_key = self._read(_ROOT), self._key(_ROOT)
        if root.public_key() != root_key.public_key():
            raise AuthorityError(f"{self.folder}: root.key and root.crt do not belong together; restore them")
        key = ec.generate_private_key(ec.SECP256R1())
        life = min(_INTERMEDIATE_LIFE, root.not_valid_after_utc - self._now())
        built = self._builder(_name(f"{site} hosts"), root.subject, key.public_key(), life)
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        built = built.add_extension(_constraints(domain, prefixes), critical=True)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
        built = built.add_extension(identifier, critical=False)
        certificate = built.sign(root_key, hashes.SHA256())
        # A run that is killed between the two leaves a pair that `fits` refuses, and the next run makes both.
        write(self._key_file(_INTERMEDIATE), _private_pem(key), 0o600)
        write(self._certificate(_INTERMEDIATE), _pem(certificate), 0o644)

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, life: dt.timedelta
    ) -> x509.CertificateBuilder:
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now() - _BACKDATED)
            .not_valid_after(self._now() + life)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )

    # --- read by everybody else ---------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """The root certificate (PEM). Raises `AuthorityError`."""
        return _pem(self._read(_ROOT)).decode()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the root certificate, as 64 hexadecimal digits: what hosts know the authority by. Raises `AuthorityError`."""
        return hashlib.sha256(self._read(_ROOT).public_bytes(serialization.Encoding.DER)).hexdigest()

    @property
    def intermediate(self) -> str:
        """The intermediate certificate (PEM). Raises `AuthorityError`."""
        return _pem(self._read(_INTERMEDIATE)).decode()

    @property
    def intermediate_key(self) -> str:
        """The intermediate's private key (PEM): a secret, for the host that runs the authority. Raises `AuthorityError`."""
        return _private_pem(self._key(_INTERMEDIATE)).decode()

    @property
    def token_key(self) -> ec.EllipticCurvePrivateKey:
        """The key that signs enrolment tokens: a secret that stays on the operator's machine. Raises `AuthorityError`."""
        return self._key(_TOKENS)

    @property
    def provisioner(self) -> dict[str, str]:
        """The public half of `token_key` as a JSON Web Key (RFC 7517), its thumbprint (RFC 7638) as ``kid``."""
        numbers = self.token_key.public_key().public_numbers()
        thumbed = {
            "crv": "P-256",
            "kty": "EC",
            "x": encoded(numbers.x.to_bytes(32, "big")),
            "y": encoded(numbers.y.to_bytes(32, "big")),
        }
        canonical = json.dumps(thumbed, sort_keys=True, separators=(",", ":")).encode()
        return {"use": "sig", "alg": "ES256", **thumbed, "kid": encoded(hashlib.sha256(canonical).digest())}

    # --- files --------------------------------------------------------------------------------------------------------

    def _certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def _key_file(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def _read(self, name: str) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate(self._certificate(name).read_bytes())
        except (OSError, ValueError) as error:
            raise self._missing(self._certificate(name), error) from error

    def _key(self, name: str) -> ec.EllipticCurvePrivateKey:
        try:
            found = serialization.load_pem_private_key(self._key_file(name).read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise self._missing(self._key_file(name), error) from error
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise AuthorityError(f"{self._key_file(name)}: not an EC key")
        return found

    def _missing(self, path: Path, error: Exception) -> AuthorityError:
        reason = error.strerror if isinstance(error, OSError) else "not what Pinion wrote"
        return AuthorityError(
            f"{path}: {reason}. This machine does not hold the site's authority: copy the folder from the machine that does and name "
            f"it with {VARIABLE}, or, for a site that has none yet, make it: pinion identity init {self.folder.name}"
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One change of the folder at a time. Raises `OSError`."""
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def encoded(data: bytes) -> str:
    """Base64 for URLs without padding (RFC 7515, 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _constraints(domain: str, prefixes: Sequence[str]) -> x509.NameConstraints:
    networks = sorted({str(ipaddress.ip_network(prefix)) for prefix in prefixes})
    names: list[x509.GeneralName] = [x509.DNSName(domain)]
    names += [x509.IPAddress(ipaddress.ip_network(prefix)) for prefix in networks]
    return x509.NameConstraints(permitted_subtrees=names, excluded_subtrees=None)


def _name(text: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Pinion"), x509.NameAttribute(NameOID.COMMON_NAME, text)]
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write(path: Path, content: bytes, mode: int) -> None:
    """Replace *path* by rename, down to the disk."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
