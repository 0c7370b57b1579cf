"""An HTTP proxy for apt: only to the machine's own Debian mirrors, with a cache of what never changes (packages, indexes by hash).

Runs in the uplink's process: it listens inside the lab and fetches outside. A request for anything else is refused, so it is no way out.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import posixpath
import shutil
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

#: Headers passed on to the mirror, and back to apt.
_ASKED = ("If-Modified-Since", "If-Range", "Range", "Accept", "Cache-Control")
_ANSWERED = ("Content-Type", "Content-Length", "Content-Range", "Last-Modified", "ETag", "Accept-Ranges")
_CHUNK = 1 << 16
#: Seconds without a byte from the mirror.
_PATIENCE = 60.0


def mirror_map(uris: tuple[str, ...]) -> dict[str, str]:
    """From what a lab machine asks for (``host/path``, spoken as plain HTTP) to where the mirror really is."""
    return {f"{urlsplit(uri).netloc.rpartition('@')[2]}{urlsplit(uri).path}": uri for uri in uris}


def real_address(asked: str, mirrors: Mapping[str, str]) -> str | None:
    """The mirror's URL for *asked* (absolute-form request target), or None when it is not in a mirror."""
    parts = urlsplit(asked)
    if parts.scheme != "http" or posixpath.normpath(unquote(parts.path)) != unquote(parts.path):
        return None
    plain = f"{parts.netloc}{parts.path}"
    for prefix, uri in mirrors.items():
        if plain.startswith(f"{prefix}/"):
            return uri + plain.removeprefix(prefix)
    return None


def without_login(url: str) -> tuple[str, dict[str, str]]:
    """*url* without user and password, and the header that carries them instead (RFC 7617)."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    if not login:
        return url, {}
    encoded = base64.b64encode(unquote(login).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {encoded}"}


def unchanging(url: str) -> bool:
    """Whether what lies at *url* can never change: a package (its version is in its name) or an index named by its hash."""
    return url.endswith((".deb", ".udeb")) or "/by-hash/" in url


class PackageProxy(ThreadingHTTPServer):
    """The proxy on an already listening socket. *mirrors*: see `mirror_map`; *upstream*: proxies by scheme, as apt has them."""

    daemon_threads = True

    def __init__(
        self, listening: socket.socket, mirrors: Mapping[str, str], cache: Path, upstream: Mapping[str, str]
    ) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "package-proxy", 0
        self.mirrors = mirrors
        self.cache = cache
        # without proxies of its own, urllib would take them from the environment
        self.opener = (
            urllib.request.build_opener(urllib.request.ProxyHandler(dict(upstream)))
            if upstream
            else urllib.request.build_opener()
        )

    def cached(self, url: str) -> Path:
        """Where the answer for *url* is kept."""
        digest = hashlib.sha256(url.encode()).hexdigest()
        return self.cache / digest[:2] / f"{digest[2:34]}-{posixpath.basename(url)[-80:]}"


class _Handler(BaseHTTPRequestHandler):
    """One connection from apt, kept open over many requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: a small one would wait 40 ms for an acknowledgement
    timeout = 120.0
    server: PackageProxy

    def do_GET(self) -> None:
        url = real_address(self.path, self.server.mirrors)
        if url is None:
            self.send_error(HTTPStatus.FORBIDDEN, "only the Debian mirrors of this lab's machine")
            return
        try:
            kept = self.server.cached(url).open("rb") if unchanging(url) else None
        except OSError:
            kept = None
        if kept is not None:
            with kept:
                self._answer_from(kept)
            return
        passed = {name: self.headers[name] for name in _ASKED if name in self.headers}
        address, login = without_login(url)
        asked = urllib.request.Request(address, headers=passed | login)
        try:
            with self.server.opener.open(asked, timeout=_PATIENCE) as response:
                self._pass_on(url, response)
        except urllib.error.HTTPError as refused:
            with refused:
                body = refused.read()
            self.send_response(refused.code)
            self.send_header("Content-Length", str(0 if refused.code == HTTPStatus.NOT_MODIFIED else len(body)))
            self.end_headers()
            if refused.code != HTTPStatus.NOT_MODIFIED:
                self.wfile.write(body)
        except OSError as error:
            self.send_error(HTTPStatus.BAD_GATEWAY, f"mirror not reached: {type(error).__name__}")

    def _answer_from(self, kept: BinaryIO) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(os.fstat(kept.fileno()).st_size))
        self.end_headers()
        shutil.copyfileobj(kept, self.wfile, _CHUNK)

    def _pass_on(self, url: str, response: HTTPResponse) -> None:
        """Send the mirror's answer on while it comes in; keep it when it can never change and came in whole."""
        self.send_response(response.status)
        for name in _ANSWERED:
            if (value := response.headers.get(name)) is not None:
                self.send_header(name, value)
        length = response.headers.get("Content-Length")
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        keep = unchanging(url) and response.status == HTTPStatus.OK and length is not None
        target = self.server.cached(url)
        with contextlib.ExitStack() as stack:
            copy: BinaryIO | None = None
            name = ""
            if keep:
                target.parent.mkdir(parents=True, exist_ok=True)
                handle, name = tempfile.mkstemp(dir=target.parent, prefix=".part-")
                stack.callback(lambda: Path(name).unlink(missing_ok=True))
                copy = stack.enter_context(os.fdopen(handle, "wb"))
            received = 0
            while chunk := response.read(_CHUNK):
                received += len(chunk)
                if copy is not None:
                    copy.write(chunk)
                self.wfile.write(chunk)
            if length is not None and received != int(length):
                # apt must see a cut connection, not a short file
                self.close_connection = True
            elif copy is not None:
                copy.flush()
                Path(name).replace(target)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Only errors are worth a line."""

    def log_error(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        print(f"package proxy: {self.path if hasattr(self, 'path') else ''} {format % args}", flush=True)
