#!/usr/bin/python3 -I
"""A host's certificate from the site's authority (step-ca): asked for once with a token, then renewed. Standard library and openssl alone.

Usage: ``identity COMMAND [--config FILE]``, where COMMAND is

* ``enrol``: ask for the first certificate, with a one-time token; nothing to do while there is a good one;
* ``renew``: what the timer runs: renew when it is time, enrol when there is a token and no good certificate, write the metrics;
* ``good [NAME…] [--lifetime SECONDS] [--issuer NAME]``: 0 when there is a valid certificate for exactly these names (without any: for
  those of the configuration), made for that life, by that provisioner of the authority;
* ``status``: the certificate as JSON.

There are two places for a token: ``token``, in memory, where a converge run puts one; and ``seed_token``, on the disk, where an image has
brought it. The first is tried first. Both are removed once there is a certificate, and each when the authority refuses it.

Invariants: the private key is made here, 0600, and never leaves; key, certificate, chain and root are one folder, and ``current`` is a
link to it that is replaced by rename, so nobody ever sees a key without its certificate; while there is no new one the old one stays.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import hashlib
import http.client
import ipaddress
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

CONFIG = "/etc/pinion/identity.json"
#: Renewal begins at half of the life and, spread by the serial number, at five eighths at the latest: before two thirds in any case.
RENEW_FROM, RENEW_SPREAD = 1 / 2, 1 / 8
#: Seconds for one answer of the authority, and between two attempts to reach it.
_ANSWER, _AGAIN = 20, 1.0
#: step-ca refuses tokens that are more than a minute from its own clock, and dates certificates back by as much unless told.
_SKEW = 60
#: The most that an authority may date back until its certificates count as made for another life.
_BACKDATED = 300
#: X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED (openssl, x509_vfy.h).
_DATES = {9, 10}

#: 1.3.6.1.4.1.37476.9000.64.1, step-ca's extension that names the provisioner, as DER.
_PROVISIONER = bytes.fromhex("060c2b0601040182a464c6284001")

KEY, CERTIFICATE, CHAIN, ROOT = "key.pem", "cert.pem", "chain.pem", "root.pem"


class ProblemError(Exception):
    """Something is not as it should be; the text says what and what to do."""


class RefusedError(ProblemError):
    """The authority answered, and said no: the token is of no more use."""


class StrangerError(RefusedError):
    """Who answered is not the site's authority; nothing was shown to it."""


class UnreachableError(ProblemError):
    """The authority did not answer."""


class UnprovedError(UnreachableError):
    """Who answered could not prove that it is the site's authority; nothing was shown to it."""


class NotToldError(ProblemError):
    """The authority's configuration does not name this host yet: its token is as good as before."""


@dataclass(frozen=True)
class Config:
    """What the host is told: *authority* is a URL, *root* the SHA-256 of the root certificate in hexadecimal, *names* DNS names and
    addresses, the first of them the subject; *lifetime* and *wait* are seconds; *tokens* are where tokens may be, the best first.
    """

    authority: str
    root: str
    names: tuple[str, ...]
    lifetime: int
    folder: Path
    tokens: tuple[Path, ...]
    metrics: Path
    reload: tuple[str, ...]
    wait: float

    @property
    def current(self) -> Path:
        """The folder with what is in use."""
        return self.folder / "current"


@dataclass(frozen=True)
class Certificate:
    """What a certificate says; times are Unix times."""

    serial: str
    begins: float
    ends: float
    names: tuple[str, ...]

    @property
    def due(self) -> float:
        """When to renew it: spread by its serial number, so that a rack that was born at once does not ask at once."""
        share = int(hashlib.sha256(self.serial.encode()).hexdigest()[:8], 16) / 2**32
        return self.begins + (self.ends - self.begins) * (RENEW_FROM + RENEW_SPREAD * share)


def read_config(path: Path) -> Config:
    """The configuration in *path*. Raises `OSError`, `ValueError` and `KeyError`."""
    data = json.loads(path.read_text())
    return Config(
        authority=data["authority"].rstrip("/"),
        root=data["root"].lower(),
        names=tuple(data["names"]),
        lifetime=int(data["lifetime"]),
        folder=Path(data["folder"]),
        tokens=tuple(Path(data[key]) for key in ("token", "seed_token") if key in data),
        metrics=Path(data["metrics"]),
        reload=tuple(data["reload"]),
        wait=float(data["wait"]),
    )


# --- what is there ----------------------------------------------------------------------------------------------------


def openssl(*arguments: str) -> str:
    """What openssl prints. Raises `ProblemError` with its last words; no secret is ever among *arguments*."""
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise ProblemError(f"openssl {arguments[0]}: {words[-1]}")
    return done.stdout


def read_certificate(path: Path) -> Certificate:
    """The certificate in *path*. Raises `ProblemError`."""
    shown = openssl(
        "x509", "-in", str(path), "-noout", "-serial", "-dates", "-dateopt", "iso_8601", "-ext", "subjectAltName"
    )
    fields = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    names = []
    for entry in shown.splitlines()[-1].strip().split(", "):
        kind, _, name = entry.partition(":")
        if kind == "DNS":
            names.append(name)
        elif kind == "IP Address":
            names.append(str(ipaddress.ip_address(name)))
    return Certificate(fields["serial"], _time(fields["notBefore"]), _time(fields["notAfter"]), tuple(names))


def _time(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()  # noqa: UP017


def wrong(config: Config, names: Sequence[str], now: float, lifetime: int | None = None) -> str | None:
    """Why what is there is not a good certificate for *names*, made to live for *lifetime* seconds where stated; None when it is."""
    folder = config.current
    if not (folder / CERTIFICATE).is_file():
        return "there is no certificate yet"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(folder / CERTIFICATE, folder / KEY)
        found = read_certificate(folder / CERTIFICATE)
        root = fingerprint((folder / ROOT).read_text())
    except (OSError, ValueError, ProblemError) as error:
        return f"what is in {folder} cannot be used: {error}"
    if root != config.root:
        return "the certificate is from another authority than the site's"
    if set(found.names) != set(names):
        return f"the certificate is for {', '.join(found.names)} and not for {', '.join(names)}"
    life = found.ends - found.begins
    if lifetime is not None and not lifetime <= life <= lifetime + _BACKDATED:
        return f"the certificate is made for {life:.0f} seconds and not for {lifetime}"  # a renewal would keep that
    if now >= found.ends:
        return f"the certificate expired on {_day(found.ends)}"
    if now + _SKEW < found.begins:
        return f"the certificate begins on {_day(found.begins)}, which this host's clock has not reached"
    return None


def issuer(pem: str) -> str:
    """The provisioner that had the first certificate of *pem* made; '' where the certificate does not say. Raises `ValueError`."""
    end = "-----END CERTIFICATE-----"
    der = ssl.PEM_cert_to_DER_cert(pem.strip().partition(end)[0] + end + "\n")
    at = der.find(_PROVISIONER)
    if at < 0:
        return ""
    # OCTET STRING { SEQUENCE { INTEGER type, OCTET STRING name, … } } (step-ca, authority/provisioner/sign_options.go)
    whole, _ = _inside(der, at + len(_PROVISIONER), 0x04)
    fields, _ = _inside(whole, 0, 0x30)
    _, after = _inside(fields, 0, 0x02)
    return _inside(fields, after, 0x04)[0].decode(errors="replace")


def _inside(der: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """What the DER value with *tag* at *at* holds, and where the next one begins. Raises `ValueError`."""
    if len(der) < at + 2 or der[at] != tag:
        raise ValueError(f"no value of type {tag:#x} where one belongs")
    size, begins = der[at + 1], at + 2
    if size & 0x80:
        begins += size & 0x7F
        size = int.from_bytes(der[at + 2 : begins], "big")
    if len(der) < begins + size:
        raise ValueError("a value is cut off")
    return der[begins : begins + size], begins + size


def foreign(config: Config, wanted: str) -> str | None:
    """Why the provisioner *wanted* would not renew what is in use; None when it would, and without *wanted*."""
    try:
        found = issuer((config.current / CERTIFICATE).read_text())
    except (OSError, ValueError) as error:
        return f"the certificate does not say which provisioner it is from: {error}"
    return (
        None if wanted in ("", found) else f"the certificate is from the provisioner '{found}' and not from '{wanted}'"
    )


def fingerprint(pem: str) -> str:
    """SHA-256 of the certificate *pem*, as hexadecimal. Raises `ValueError`."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip() + "\n")).hexdigest()


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")  # noqa: UP017


# --- the authority ----------------------------------------------------------------------------------------------------


def ask(
    config: Config, context: ssl.SSLContext, method: str, path: str, body: dict[str, str] | None = None
) -> tuple[dict[str, object], float | None]:
    """The authority's answer to *method* *path*, and its clock.

    Raises `RefusedError`, `UnreachableError`, and `ssl.SSLCertVerificationError` when it shows no certificate that *context* takes.
    """
    url = urlsplit(config.authority)
    connection = http.client.HTTPSConnection(url.hostname or "", url.port or 443, timeout=_ANSWER, context=context)
    try:
        given = None if body is None else json.dumps(body)
        connection.request(method, path, given, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        read, said = answer.read(1 << 20), answer.getheader("Date")
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            f"the authority {config.authority} does not answer: {str(error) or type(error).__name__}"
        ) from error
    finally:
        connection.close()
    try:
        data = json.loads(read or b"{}")
    except ValueError:
        data = {}
    if not isinstance(data, dict):
        data = {}
    if answer.status >= 500:
        # step-ca answers 500 for some refusals too; what it says is kept, and the old certificate with it.
        raise UnreachableError(
            f"the authority {config.authority} cannot: {answer.status} {data.get('message', '')}".strip()
        )
    if answer.status >= 300:
        raise RefusedError(f"the authority refuses: {answer.status} {data.get('message', answer.reason)}")
    return data, _clock(said)


def _clock(said: str | None) -> float | None:
    try:
        return None if said is None else parsedate_to_datetime(said).timestamp()
    except ValueError:
        return None


def unverified() -> ssl.SSLContext:
    """For the one question whose answer proves itself by its digest, and for the authority's clock, which is only ever told to people."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def verified(root: Path) -> ssl.SSLContext:
    """Trusts *root* and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(root)
    return context


def fetch_root(config: Config, now: Callable[[], float]) -> str:
    """The root certificate whose digest the configuration states. Raises `ProblemError`; waits for an authority that is only coming up."""
    answer, theirs = _patiently(config, f"/root/{config.root}")
    told = clock_problem(theirs, now())
    if told is not None:
        raise ProblemError(told)
    pem = str(answer.get("ca", ""))
    try:
        same = fingerprint(pem) == config.root
    except ValueError:
        same = False
    if not same:
        raise StrangerError(
            f"{config.authority} showed a root certificate that has not the fingerprint {config.root}; nothing was sent to it"
        )
    return pem


def _patiently(config: Config, path: str) -> tuple[dict[str, object], float | None]:
    """What is at *path*; an authority that does not answer is asked again until the configuration's time is up."""
    until = time.monotonic() + config.wait
    while True:
        try:
            return ask(config, unverified(), "GET", path)
        except RefusedError as error:
            raise StrangerError(
                f"the authority {config.authority} is not this site's: it has no root certificate with the fingerprint {config.root}"
            ) from error
        except UnreachableError:
            if time.monotonic() >= until:
                raise
        time.sleep(_AGAIN)


def clock_problem(theirs: float | None, ours: float) -> str | None:
    """What is wrong with this host's clock, seen from the authority's; None when it will do."""
    if theirs is None or abs(ours - theirs) <= _SKEW:
        return None
    apart = abs(ours - theirs)
    much = f"{apart / 86400:.0f} days" if apart > 2 * 86400 else f"{apart:.0f} seconds"
    where = "ahead of" if ours > theirs else "behind"
    return (
        f"this host's clock ({_day(ours)}) is {much} {where} the authority's ({_day(theirs)}); "
        "certificates cannot be judged by it: set the clock (chronyc makestep), then run again"
    )


def tell_clock(config: Config, ours: float) -> str | None:
    """`clock_problem`, asked afresh; None when the authority does not answer."""
    try:
        _, theirs = ask(config, unverified(), "GET", "/health")
    except (ProblemError, ssl.SSLError):
        return None
    return clock_problem(theirs, ours)


def trusted(config: Config, context: ssl.SSLContext, path: str, body: dict[str, str], ours: float) -> dict[str, object]:
    """The authority's answer to *body* at *path*, over TLS that *context* has verified. Raises `ProblemError`."""
    try:
        return ask(config, context, "POST", path, body)[0]
    except ssl.SSLCertVerificationError as error:
        told = tell_clock(config, ours) if error.verify_code in _DATES else None
        words = f"{config.authority} cannot prove that it is the site's authority: {error.verify_message}"
        raise UnprovedError(told or words) from error


def issuers(config: Config, context: ssl.SSLContext) -> set[str]:
    """The provisioners that the authority has. Raises `ProblemError`."""
    found: set[str] = set()
    cursor = ""
    while True:
        answer, _ = ask(config, context, "GET", f"/provisioners?limit=100&cursor={quote(cursor)}")
        listed = answer.get("provisioners")
        found |= (
            {str(entry.get("name")) for entry in listed if isinstance(entry, dict)}
            if isinstance(listed, list)
            else set()
        )
        cursor = str(answer.get("nextCursor") or "")
        if not cursor:
            return found


# --- from key to place ------------------------------------------------------------------------------------------------


def make_request(config: Config, folder: Path) -> str:
    """A new key in *folder*, and the request for a certificate for it."""
    # By our own hand: openssl that cannot write all of a key to a full disk ends with 0 all the same.
    key = folder / KEY
    write(key, openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), 0o600)
    alternatives = ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in config.names)
    subject = f"/CN={config.names[0]}"
    return openssl("req", "-new", "-key", str(key), "-subj", subject, "-addext", f"subjectAltName={alternatives}")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def keep(config: Config, folder: Path, answer: dict[str, object], root: str, now: float) -> Certificate:
    """Write what the authority answered into *folder*, and see that it is what was asked for. Raises `ProblemError`."""
    leaf, chain = str(answer.get("crt", "")), str(answer.get("ca", ""))
    for name, text in ((CERTIFICATE, leaf.strip() + "\n" + chain.strip() + "\n"), (CHAIN, chain), (ROOT, root)):
        write(folder / name, text, 0o644)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(folder / CERTIFICATE, folder / KEY)
    except ssl.SSLError as error:
        raise ProblemError("the authority answered with a certificate for another key") from error
    openssl(
        "verify", "-CAfile", str(folder / ROOT), "-untrusted", str(folder / CHAIN), str(folder / CERTIFICATE)
    )  # fmt: skip
    found = read_certificate(folder / CERTIFICATE)
    if set(found.names) != set(config.names):
        raise ProblemError(f"the authority answered with a certificate for {', '.join(found.names)}")
    if not found.begins - _SKEW <= now < found.ends:
        raise ProblemError(f"the authority's certificate is good from {_day(found.begins)} to {_day(found.ends)} only")
    return found


def write(path: Path, text: str, mode: int) -> None:
    """Replace *path* by rename, down to the disk."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def sync(folder: Path) -> None:
    """Have the entries of *folder* on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def place(config: Config, made: Path, serial: str) -> None:
    """Put the whole folder *made* in use, in one rename of the link; the one before it is kept until the next."""
    for name in (KEY, CERTIFICATE, CHAIN, ROOT):
        descriptor = os.open(made / name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    sync(made)
    generation = config.folder / f"certificate-{serial}"
    made.rename(generation)
    sync(config.folder)
    if config.reload:
        write(_pending(config), "", 0o644)
    link = config.folder / ".current.new"
    link.unlink(missing_ok=True)
    link.symlink_to(generation.name)
    link.rename(config.current)
    sync(config.folder)
    tidy(config)


def tidy(config: Config) -> None:
    """Remove what killed runs left half made, and all certificates but the one in use and the last one beside it."""
    for left in config.folder.glob(".new-*"):
        shutil.rmtree(left)
    used = config.current.resolve().name
    others = [path for path in config.folder.glob("certificate-*") if path.name != used]
    for old in sorted(others, key=lambda path: path.stat().st_mtime)[:-1]:
        shutil.rmtree(old)


def _pending(config: Config) -> Path:
    """Is there while services run with an old certificate."""
    return config.folder / "reload-pending"


def reload(config: Config) -> None:
    """Have the services that use the certificate read the new one, also when an earlier run was killed before it. Raises `ProblemError`."""
    if not _pending(config).exists():
        return
    for unit in config.reload:
        done = subprocess.run(["systemctl", "try-reload-or-restart", unit], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProblemError(f"{unit} could not be reloaded with the new certificate: {done.stderr.strip()}")
    _pending(config).unlink()


@contextmanager
def new_folder(config: Config) -> Iterator[Path]:
    """A folder beside what is in use; it goes unless it was placed."""
    made = config.folder / f".new-{os.getpid()}"
    made.mkdir(mode=0o755)
    try:
        yield made
    finally:
        if made.exists():
            shutil.rmtree(made)


@contextmanager
def alone(config: Config) -> Iterator[None]:
    """One run at a time: the timer and a converge run meet here."""
    config.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (config.folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- commands ---------------------------------------------------------------------------------------------------------


def enrol(config: Config, now: Callable[[], float]) -> None:
    """Ask for a certificate with each token that there is, until one is taken. Raises `ProblemError`, the last refusal's."""
    found = [path for path in config.tokens if path.exists()] or list(config.tokens[:1])
    for path in found:
        try:
            enrol_with(path, config, now)
        except StrangerError:
            if path == config.tokens[0]:
                path.unlink(missing_ok=True)  # the next converge brings another; an image brings one only
            raise
        except RefusedError:
            remove(path)  # used, too old, for another name: of no use to anybody
            if path == found[-1]:
                raise
        else:
            spend(config.tokens)
            return


def enrol_with(path: Path, config: Config, now: Callable[[], float]) -> None:
    """Ask for a certificate with the token in *path*. Raises `ProblemError`."""
    token = read_token(path, config)
    with new_folder(config) as made:
        root = fetch_root(config, now)
        write(made / ROOT, root, 0o644)
        asked = {"csr": make_request(config, made), "ott": token, "notAfter": f"{config.lifetime}s"}
        answer = signed(config, verified(made / ROOT), asked, now)
        found = keep(config, made, answer, root, now())
        place(config, made, found.serial)
    print(f"enrolled: certificate {found.serial} for {', '.join(found.names)}, good until {_day(found.ends)}")


def signed(
    config: Config, context: ssl.SSLContext, asked: dict[str, str], now: Callable[[], float]
) -> dict[str, object]:
    """The authority's answer to a token's request. Raises `ProblemError`.

    One that has not been told of this host, or is just starting, is asked again until the configuration's time is up: the same run may be
    telling it.
    """
    until = time.monotonic() + config.wait
    while True:
        try:
            return signed_once(config, context, asked, now)
        except UnprovedError:
            raise
        except (NotToldError, UnreachableError):
            if time.monotonic() >= until:
                raise
        time.sleep(_AGAIN)


def signed_once(
    config: Config, context: ssl.SSLContext, asked: dict[str, str], now: Callable[[], float]
) -> dict[str, object]:
    """The authority's answer. Raises `NotToldError` for a refusal that is for want of this host's provisioner, and `ProblemError`."""
    try:
        return trusted(config, context, "/1.0/sign", asked, now())
    except RefusedError as error:
        mine = str(claims_of(asked["ott"]).get("iss", ""))
        if mine in issuers(config, context):
            raise
        raise NotToldError(
            f"the authority renews for nobody by the name {mine}: bring its own host to what the site file says first, "
            "by `pinion converge` (the token is kept)"
        ) from error


def spend(tokens: Sequence[Path]) -> None:
    """Have none of *tokens* left: there is a certificate."""
    for path in tokens:
        remove(path)


def remove(token: Path) -> None:
    """Remove *token*, down to the disk."""
    if token.exists():
        token.unlink()
        sync(token.parent)


def read_token(path: Path, config: Config) -> str:
    """The token in *path*. Raises `ProblemError` when there is none, `RefusedError` for one that is for another host or is none."""
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        token = ""
    if not token:
        raise ProblemError(
            "a new certificate takes a new enrolment token, and there is none: run `pinion converge`, or put what "
            f"`pinion identity token` prints into {path} (0600) and run this again"
        )
    try:
        claims = claims_of(token)
        names = {str(claims["sub"]), *map(str, claims.get("sans", ()))}
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise RefusedError(f"what is in {path} is no enrolment token") from error
    if names != set(config.names):
        raise RefusedError(f"the token is for {', '.join(sorted(names))}, and this host is {', '.join(config.names)}")
    return token


def claims_of(token: str) -> dict[str, Any]:
    """What *token* says; nobody has verified it. Raises `IndexError`, `TypeError` and `ValueError`."""
    body = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    if not isinstance(claims, dict):
        raise TypeError("a token says things by name")
    return claims


def superseded(config: Config) -> bool:
    """Whether a converge run has brought a token of another provisioner than the certificate is from: that one is not renewed any more."""
    try:
        wanted = claims_of(config.tokens[0].read_text().strip()).get("iss")
        return wanted is not None and wanted != issuer((config.current / CERTIFICATE).read_text())
    except (OSError, IndexError, TypeError, ValueError):
        return False  # no token, or none that says: what there is stays


def renew(config: Config, now: Callable[[], float]) -> None:
    """Renew by what the host has: its certificate proves who asks, and the new one has a new key. Raises `ProblemError`."""
    current = config.current
    with new_folder(config) as made:
        root = (current / ROOT).read_text()
        context = verified(current / ROOT)
        context.load_cert_chain(current / CERTIFICATE, current / KEY)
        answer = trusted(config, context, "/1.0/rekey", {"csr": make_request(config, made)}, now())
        found = keep(config, made, answer, root, now())
        place(config, made, found.serial)
    print(f"renewed: certificate {found.serial}, good until {_day(found.ends)}")


def tend(config: Config, now: Callable[[], float]) -> None:
    """What the timer does. Raises `ProblemError`; the old certificate stays in use as long as it is good."""
    bad = wrong(config, config.names, now())
    if bad is not None:
        try:
            enrol(config, now)
        except ProblemError as error:
            raise ProblemError(f"{bad}; {tell_clock(config, now()) or error}") from error
    elif now() >= read_certificate(config.current / CERTIFICATE).due:
        try:
            renew(config, now)
        except (ProblemError, OSError) as error:
            ends = read_certificate(config.current / CERTIFICATE).ends
            raise ProblemError(f"not renewed, the old certificate is kept, good until {_day(ends)}: {error}") from error
    # Left by a run that was killed once it had its certificate. The token in memory is not this run's: a converge is about to use it.
    spend(config.tokens[1:])
    reload(config)


def metrics(config: Config, *, failed: bool, now: float) -> str:
    """What the node exporter reads. No certificate expires at 0."""
    found = None
    if (config.current / CERTIFICATE).is_file():
        try:
            found = read_certificate(config.current / CERTIFICATE)
        except ProblemError:
            found = None
    values = (
        (
            "expires_seconds",
            "When the host's certificate expires, Unix time; 0 without one.",
            found.ends if found else 0,
        ),
        ("renewal_due_seconds", "When it is to be renewed, Unix time; 0 without one.", found.due if found else 0),
        (
            "good",
            "1 when the certificate is good and for the planned names.",
            float(not wrong(config, config.names, now)),
        ),
        ("failed", "1 when the last run could not do what it was to do.", float(failed)),
        ("checked_seconds", "When this was written, Unix time.", now),
    )
    lines = []
    for name, meaning, value in values:
        full = f"pinion_identity_{name}"
        lines += [f"# HELP {full} {meaning}", f"# TYPE {full} gauge", f"{full} {value:.15g}"]
    return "\n".join(lines) + "\n"


def status(config: Config, now: float) -> dict[str, object]:
    """The certificate for people and programs."""
    bad = wrong(config, config.names, now)
    found: dict[str, object] = {"good": bad is None, "why": bad}
    if (config.current / CERTIFICATE).is_file():
        read = read_certificate(config.current / CERTIFICATE)
        found |= {"serial": read.serial, "names": read.names, "begins": _day(read.begins), "ends": _day(read.ends)}
        found |= {"renewal": _day(read.due)}
    return found


def main(arguments: Sequence[str], now: Callable[[], float] = time.time) -> int:
    """0 when all is as wanted, 1 when it is not, 2 when nothing could be done."""
    parser = argparse.ArgumentParser(prog="identity")
    parser.add_argument("command", choices=["enrol", "renew", "good", "status"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lifetime", type=int)
    parser.add_argument("--issuer", default="")
    parser.add_argument("--config", default=CONFIG)
    given = parser.parse_intermixed_args(arguments)
    try:
        config = read_config(Path(given.config))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{given.config}: {error!r}", file=sys.stderr)
        return 2
    if given.command == "good":
        bad = wrong(config, given.names or config.names, now(), given.lifetime) or foreign(config, given.issuer)
        if bad is not None:
            print(bad)
        return int(bad is not None)
    if given.command == "status":
        print(json.dumps(status(config, now())))
        return 0
    return work(config, now, first=given.command == "enrol")


def work(config: Config, now: Callable[[], float], *, first: bool) -> int:
    """`enrol` (where *first*) or `renew`, alone on this host, then the metrics; 1 when something failed."""
    failed = ""
    try:
        with alone(config):
            tidy(config)
            if first and (wrong(config, config.names, now(), config.lifetime) is not None or superseded(config)):
                enrol(config, now)
            if first:
                spend(config.tokens)
                reload(config)
            else:
                tend(config, now)
    except (ProblemError, OSError) as error:
        failed = str(error)
        print(failed, file=sys.stderr)
    try:
        if config.metrics.parent.is_dir():
            write(config.metrics, metrics(config, failed=bool(failed), now=now()), 0o644)
    except (ProblemError, OSError) as error:
        print(f"{config.metrics}: {error}", file=sys.stderr)
        return 1
    return int(bool(failed))


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
