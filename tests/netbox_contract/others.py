"""Another hand, which may do what the driver's user may not: hang things of any kind on our objects, and change what that user may see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import requests
from doubles.netbox_store import MemoryStore
from pydantic import JsonValue

from pinion.drivers.netbox.kinds.values import Body, Record, identity


class Others(Protocol):
    """That hand."""

    def serves(self, path: str) -> bool:
        """Whether the server has the list *path*: a NetBox that was named may lack the plugin of the tests."""

    def hang(self, path: str, body: Body) -> Record:
        """Add a record to the list *path* below `/api/`."""

    def change(self, path: str, record: Record, fields: Body) -> None:
        """Change one."""

    def there(self, path: str, record: Record) -> bool:
        """Whether it is still there."""

    def take(self, path: str, record: Record) -> None:
        """Delete one."""

    @contextmanager
    def hidden(self, content_type: str) -> Iterator[None]:
        """Meanwhile the driver's user may not view records of this kind."""


class InMemory:
    """On the NetBox in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def serves(self, path: str) -> bool:
        return path in {end.path for end in self._store.end_points()}

    def hang(self, path: str, body: Body) -> Record:
        return self._store.hang(path, body)

    def change(self, path: str, record: Record, fields: Body) -> None:
        self._store.change(path, identity(record), fields)

    def there(self, path: str, record: Record) -> bool:
        return any(one["id"] == record["id"] for one in self._store.dependents.rows(path) or ())

    def take(self, path: str, record: Record) -> None:
        self._store.dependents.take(path, identity(record))

    @contextmanager
    def hidden(self, content_type: str) -> Iterator[None]:
        self._store.dependents.hidden.add(content_type)
        try:
            yield
        finally:
            self._store.dependents.hidden.discard(content_type)


class Administrator:
    """On a NetBox server, as its administrator."""

    def __init__(self, url: str, password: str) -> None:
        self._api = f"{url}/api"
        self._session = requests.Session()
        self._session.trust_env = False
        made = self._ask("POST", "users/tokens/provision", {"username": "admin", "password": password})
        assert isinstance(made, dict)
        self._session.headers["Authorization"] = f"Bearer nbt_{made['key']}.{made['token']}"

    def close(self) -> None:
        self._session.close()

    def serves(self, path: str) -> bool:
        return self._session.get(f"{self._api}/{path}/", params={"limit": "1"}, timeout=60).status_code == 200

    def hang(self, path: str, body: Body) -> Record:
        made = self._ask("POST", path, body)
        assert isinstance(made, dict)
        return made

    def change(self, path: str, record: Record, fields: Body) -> None:
        self._ask("PATCH", f"{path}/{identity(record)}", fields)

    def there(self, path: str, record: Record) -> bool:
        answer = self._session.get(f"{self._api}/{path}/{identity(record)}/", timeout=60)
        assert answer.status_code in (200, 404), answer.text
        return answer.status_code == 200

    def take(self, path: str, record: Record) -> None:
        self._ask("DELETE", f"{path}/{identity(record)}")

    def found(self, path: str, **query: str) -> list[Record]:
        """The records of a list."""
        answer = self._session.get(f"{self._api}/{path}/", params={**query, "limit": "1000"}, timeout=60)
        answer.raise_for_status()
        results: list[Record] = answer.json()["results"]
        return results

    def upload(self, path: str, fields: dict[str, str], name: str, content: bytes) -> Record:
        """Add a record that has a file."""
        answer = self._session.post(f"{self._api}/{path}/", data=fields, files={"image": (name, content)}, timeout=60)
        assert answer.status_code == 201, answer.text
        made: Record = answer.json()
        return made

    @contextmanager
    def hidden(self, content_type: str) -> Iterator[None]:
        changed = []
        for one in self.found("users/permissions"):
            types = one["object_types"]
            assert isinstance(types, list)
            if content_type in types:
                changed.append((one, types))
                self.change(
                    "users/permissions", one, {"object_types": [name for name in types if name != content_type]}
                )
        assert changed, f"nobody may view {content_type}"
        try:
            yield
        finally:
            for one, types in changed:
                self.change("users/permissions", one, {"object_types": types})

    def _ask(self, method: str, path: str, body: Body | None = None) -> JsonValue:
        answer = self._session.request(method, f"{self._api}/{path}/", json=body, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:400]}"
        found: JsonValue = answer.json() if answer.content else None
        return found
