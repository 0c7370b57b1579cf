"""Objects of the API server, listed and then watched, over HTTPS with a client certificate."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

#: Seconds after which the API server ends a watch; the next goes on from there.
_WATCH_SECONDS = 240
#: Seconds without a byte, a little longer than any answer may take.
_SILENCE = _WATCH_SECONDS + 30
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0


class RefusedError(Exception):
    """The API server answered with another status than 200."""


@dataclass(frozen=True)
class Server:
    """An API server and who we are to it. The files are read again at every connection, so they may be renewed."""

    url: str
    ca: str
    certificate: str
    key: str

    def open(self, path: str, timeout: float) -> http.client.HTTPResponse:
        """The answer to a GET, its body unread. Raises `RefusedError`, or OSError and `http.client.HTTPException`."""
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.certificate, self.key)
        where = urlsplit(self.url)
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context, timeout=timeout)
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise RefusedError(f"{self.url}{path}: {response.status} {response.read(500).decode(errors='replace')}")
        return response


class Watched:
    """All objects of one collection, kept up to date by a thread. *path*: ``/api/v1/nodes``."""

    def __init__(self, server: Server, path: str, changed: Callable[[], None], say: Callable[[str], None]) -> None:
        self._server, self._path, self._changed, self._say = server, path, changed, say
        self._guard = threading.Lock()
        self._objects: dict[str, dict[str, Any]] = {}
        self.listed = threading.Event()
        threading.Thread(target=self._run, name=path, daemon=True).start()

    def objects(self) -> list[dict[str, Any]]:
        """What was known last."""
        with self._guard:
            return list(self._objects.values())

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        waiting = threading.Event()
        while True:
            try:
                version: str | None = self._list()
                pause = _FIRST_PAUSE
                while version is not None:
                    version = self._watch(version)
            except (OSError, http.client.HTTPException, RefusedError, ValueError) as error:
                self._say(f"{self._path}: {error}; again in {pause:.0f} s")
            waiting.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _list(self) -> str:
        with self._server.open(self._path, 30.0) as response:
            answer = json.load(response)
        with self._guard:
            self._objects = {item["metadata"]["uid"]: item for item in answer["items"]}
        self.listed.set()
        self._changed()
        version: str = answer["metadata"]["resourceVersion"]
        return version

    def _watch(self, version: str) -> str | None:
        """Follow changes from *version*; the version to go on from, None when a new list is needed."""
        query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_SECONDS}&resourceVersion={version}"
        with self._server.open(f"{self._path}?{query}", _SILENCE) as response:
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return None
                item = event["object"]
                version = item["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                with self._guard:
                    if event["type"] == "DELETED":
                        self._objects.pop(item["metadata"]["uid"], None)
                    else:
                        self._objects[item["metadata"]["uid"]] = item
                self._changed()
        return version
