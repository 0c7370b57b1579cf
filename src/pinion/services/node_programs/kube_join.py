#!/usr/bin/python3 -I
"""This host's place in the cluster: kube-join COMMAND. What it must be stands in /etc/pinion/kube-join.json (--config).

* ``good``: 0 when the kubelet has a certificate of the cluster's authority for this node, that has not run out;
* ``joined [--wait SECONDS]``: wait until it has, then remove the token that it asked for it with;
* ``program``: fetch the kubelet where it is not the stated one, by its SHA-256; what is broken off goes on the next time;
* ``--check [--wait SECONDS]``: ask the cluster, as this node, whether the node is Ready with its labels and taints; print what differs;
* ``asks [--wait SECONDS]``: 0 when its kubelet waits for somebody to approve the certificate that it wants to serve with;
* ``stranger [--wait SECONDS]``: print the status that its kubelet, which must show a good certificate, answers whoever shows none.

Exit: 0 all is so, 1 something is not, 2 could not work. Standard library and openssl(1) alone.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG = "/etc/pinion/kube-join.json"
#: Seconds for an answer, and between two looks.
PATIENCE, PAUSE = 10.0, 0.5
_CHUNK = 1 << 20
#: The most that a program may be, in bytes: the kubelet has some 60 MB.
LARGEST = 1 << 30
#: Taints that the cluster itself puts on a node and takes off again.
_PASSING = "node.kubernetes.io/"
#: The kubelet's API (Kubernetes: ports and protocols), and who signs the certificate that it serves with.
PORT, SIGNER = 10250, "kubernetes.io/kubelet-serving"
#: From this part of a certificate's life on the kubelet may ask for the next one (Kubernetes documentation, Certificate Rotation: when
#: between 30 and 10 percent are left).
RENEWED_FROM = 0.7
#: Seconds for which a certificate must be good yet: a week to approve the next one.
LEFT = 7 * 86400


class ProblemError(Exception):
    """Something is not as it must be; the text says what."""


@dataclass(frozen=True)
class Config:
    """What this node must be. *certificate* is a PEM file with certificate and key; *serving* is another, which its kubelet serves with at
    *address*. *source* is URL and SHA-256 of *program*.
    """

    server: str
    node: str
    authority: Path
    certificate: Path
    serving: Path
    address: str
    bootstrap: Path
    labels: dict[str, str]
    taints: list[dict[str, str]]
    program: Path
    source: dict[str, str] | None


def read_config(path: Path) -> Config:
    """The configuration in *path*. Raises `OSError`, `ValueError` and `KeyError`."""
    data = json.loads(path.read_text())
    return Config(
        server=str(data["server"]).rstrip("/"),
        node=str(data["node"]),
        authority=Path(data["authority"]),
        certificate=Path(data["certificate"]),
        serving=Path(data["serving"]),
        address=str(data["address"]),
        bootstrap=Path(data["bootstrap"]),
        labels=dict(data["labels"]),
        taints=list(data["taints"]),
        program=Path(data["program"]),
        source=data["source"],
    )


# --- the certificate --------------------------------------------------------------------------------------------------


def lacking(config: Config) -> str | None:
    """None when the kubelet's certificate is good, else why not."""
    if not config.certificate.exists():
        return f"there is no {config.certificate}"
    done = _verify(config, "sslclient", config.certificate)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        return f"{config.certificate}: {words[-1] if words else 'openssl refuses it'}"
    subject = _openssl("x509", "-noout", "-subject", "-nameopt", "multiline", "-in", str(config.certificate)).stdout
    names = [line.partition("= ")[2].strip() for line in subject.splitlines() if line.strip().startswith("commonName")]
    if names != [f"system:node:{config.node}"]:
        return f"{config.certificate} is made out to {', '.join(names) or 'nobody'}"
    return None


def _verify(config: Config, purpose: str, certificate: Path) -> subprocess.CompletedProcess[str]:
    """What openssl says of *certificate*: whether the cluster's authority has signed it for *purpose*, and it has not run out."""
    return _openssl("verify", "-purpose", purpose, "-CAfile", str(config.authority), str(certificate))


def _openssl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )


def joined(config: Config, wait: float) -> int:
    """Wait for the certificate, then remove the token."""
    deadline = time.monotonic() + wait
    while (why := lacking(config)) is not None:
        if time.monotonic() > deadline:
            raise ProblemError(
                f"{why}, {wait:.0f} s after the start. Is {config.server} reachable from here, does the cluster approve and sign the "
                f"requests of its nodes, and is the token not too old (then run Pinion again)? journalctl -u kubelet says more"
            )
        time.sleep(PAUSE)
    if config.bootstrap.exists():
        config.bootstrap.unlink()
        print(f"{config.node} has a certificate of the cluster; its token is removed", flush=True)
    return 0


# --- the program ------------------------------------------------------------------------------------------------------


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file in hexadecimal, None without one."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def obtain(config: Config) -> int:
    """Have the stated program at its place; nobody ever sees a part of it there."""
    if config.source is None:
        return 0
    url, wanted = config.source["url"], config.source["sha256"]
    if digest_of(config.program) == wanted:
        return 0
    config.program.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    part = config.program.with_name(f"{wanted}.part")
    for other in config.program.parent.glob("*.part"):
        if other != part:
            other.unlink()
    if digest_of(part) != wanted:
        _fetch(url, part)
        found = digest_of(part)
        if found != wanted:
            part.unlink()
            raise ProblemError(f"{url} has SHA-256 {found}, and {wanted} is stated; it is not used")
    part.chmod(0o755)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.rename(config.program)
    print(f"{config.program}: fetched from {url}", flush=True)
    return 0


def _fetch(url: str, part: Path) -> None:
    """Get *url* into *part*, going on where it ends. Raises `ProblemError`."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            goes_on = answer.status == http.client.PARTIAL_CONTENT
            begins = str(answer.headers.get("Content-Range", "")).partition("-")[0]
            if goes_on and begins != f"bytes {have}":
                raise ProblemError(f"{url} was asked for what follows byte {have} and gave something else")
            whole = None if answer.length is None else answer.length + (have if goes_on else 0)
            with part.open("ab" if goes_on else "wb") as file:
                while chunk := answer.read(_CHUNK):
                    if file.tell() + len(chunk) > LARGEST:
                        raise ProblemError(f"{url} is larger than {LARGEST >> 20} MiB")
                    file.write(chunk)
                got = file.tell()
            if whole is not None and got < whole:
                raise ProblemError(
                    f"{url}: the connection ended after {got} of {whole} bytes; the next try goes on from there"
                )
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
        raise ProblemError(f"{url}: HTTP {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ProblemError(f"{url}: {getattr(error, 'reason', error)}; the next try goes on from there") from None


# --- the node ---------------------------------------------------------------------------------------------------------


def differences(config: Config) -> list[str]:
    """What the cluster says of this node that is not as stated. Raises `OSError`."""
    answer = _asked(config, f"/api/v1/nodes/{config.node}")
    metadata, spec = answer.get("metadata", {}), answer.get("spec", {})
    conditions = answer.get("status", {}).get("conditions", [])
    ready = next((entry for entry in conditions if entry.get("type") == "Ready"), {"status": "never said"})
    found = []
    if ready.get("status") != "True":
        found.append(f"not Ready: {ready.get('message') or ready.get('status')}")
    labels = metadata.get("labels") or {}
    for key, value in config.labels.items():
        if labels.get(key) != value:
            found.append(f"label {key} is {labels.get(key) or 'absent'}, planned {value}")
    taints = [taint for taint in spec.get("taints") or [] if not taint["key"].startswith(_PASSING)]
    absent = [taint for taint in config.taints if not any(taint.items() <= there.items() for there in taints)]
    return [*found, *(f"taint {taint['key']}={taint['value']}:{taint['effect']} is absent" for taint in absent)]


def _asked(config: Config, path: str) -> dict[str, Any]:
    """What the API server has at *path*, read with the kubelet's own certificate."""
    context = ssl.create_default_context(cafile=str(config.authority))
    context.load_cert_chain(config.certificate)
    url = urllib.parse.urlsplit(config.server)
    connection = http.client.HTTPSConnection(url.hostname or "", url.port, timeout=PATIENCE, context=context)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise ProblemError(f"{config.server}: the node is answered with HTTP {answer.status}")
        document = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ProblemError(f"{config.server}: {error}") from None
    finally:
        connection.close()
    return dict(document)


def check(config: Config, wait: float) -> int:
    """Print what differs, once it has had *wait* seconds to come true."""
    deadline = time.monotonic() + wait
    while True:
        try:
            why = lacking(config)
            found = [why] if why is not None else differences(config)
        except ProblemError as error:
            found = [str(error)]
        if not found or time.monotonic() > deadline:
            break
        time.sleep(PAUSE)
    for line in found:
        print(line)
    return 1 if found else 0


# --- what the kubelet serves with -------------------------------------------------------------------------------------


def asks(config: Config, wait: float) -> int:
    """0 when somebody is to approve a certificate for the kubelet to serve with. It waits for the request only where there is none yet."""
    if lacking(config) is not None:
        return 1  # who is no node may ask for nothing
    good = _verify(config, "sslserver", config.serving).returncode == 0
    if good and _age(config.serving) < RENEWED_FROM:
        return 1
    deadline = time.monotonic() + (0 if good else wait)
    while not _requests(config):
        if time.monotonic() > deadline:
            return 1
        time.sleep(PAUSE)
    return 0


def _age(certificate: Path) -> float:
    """The part of its life that *certificate* has behind it."""
    said = _openssl("x509", "-noout", "-startdate", "-enddate", "-in", str(certificate)).stdout
    begins, ends = (ssl.cert_time_to_seconds(line.partition("=")[2]) for line in said.splitlines())
    return (time.time() - begins) / (ends - begins)


def _requests(config: Config) -> list[str]:
    """The requests of this node's kubelet that nobody has approved or denied."""
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.signerName%3D{SIGNER}"
    return [
        entry["metadata"]["name"]
        for entry in _asked(config, path)["items"]
        if entry["spec"].get("username") == f"system:node:{config.node}" and not entry["status"]
    ]


def stranger(config: Config, wait: float) -> int:
    """Print what somebody without a certificate is answered, once the kubelet has had *wait* seconds to serve with a good one."""
    deadline = time.monotonic() + wait
    while True:
        try:
            print(_met(config))
            return 0
        except ProblemError:
            if time.monotonic() > deadline:
                raise
        time.sleep(PAUSE)


def _met(config: Config) -> int:
    """The kubelet's answer; its certificate is verified, and must be good for `LEFT` seconds yet."""
    context = ssl.create_default_context(cafile=str(config.authority))
    connection = http.client.HTTPSConnection(config.address, PORT, timeout=PATIENCE, context=context)
    try:
        connection.connect()
        shown = connection.sock.getpeercert() or {}
        left = ssl.cert_time_to_seconds(str(shown["notAfter"])) - time.time()
        if left < LEFT:
            raise ProblemError(
                f"the kubelet's certificate ends in {left / 86400:.1f} days, and nobody has approved the next one"
            )
        connection.request("GET", "/pods")
        return connection.getresponse().status
    except ssl.SSLError as error:
        hint = "if nobody has approved yet what it serves with, run Pinion again"
        raise ProblemError(f"the kubelet at {config.address}: {error}; {hint}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ProblemError(f"the kubelet at {config.address}: {error}") from None
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="kube-join", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", nargs="?", choices=["good", "joined", "program", "asks", "stranger"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--config", type=Path, default=Path(CONFIG))
    options = parser.parse_args(arguments)
    if options.check == (options.command is not None):
        parser.error("say one command, or --check")
    try:
        config = read_config(options.config)
        if options.check:
            return check(config, options.wait)
        if options.command == "joined":
            return joined(config, options.wait)
        if options.command == "program":
            return obtain(config)
        if options.command == "asks":
            return asks(config, options.wait)
        if options.command == "stranger":
            return stranger(config, options.wait)
        why = lacking(config)
    except ProblemError as error:
        print(f"kube-join: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        print(f"kube-join: {error}", file=sys.stderr)
        return 2
    if why is not None:
        print(f"kube-join: {why}", file=sys.stderr)
    return 0 if why is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
