"""The session under pynetbox: time limits, repetitions, the versions that a write names, and errors in words.

Invariants:

* A read is repeated when it fails in a way that may pass; a write is repeated here only when it surely did not happen (no
  connection, 429). Any other failed write raises, and the caller looks at NetBox before it decides again.
* pynetbox walks pages by id (`start`), so that rows neither repeat nor get lost when others write meanwhile, for as long as `next` says
  that there is more: a server may make every page shorter than asked for (`MAX_PAGE_SIZE`). Where `next` points is not followed, since
  a proxy's or another's would get the token.
* The token is in the session's header and nowhere else; redirects, which would carry it to another address, are refused.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict

import requests
import urllib3.exceptions
from pydantic import JsonValue
from requests.adapters import HTTPAdapter

from pinion.drivers.clear_text import PLAIN_HTTP, is_in_clear
from pinion.drivers.netbox.errors import NetBoxError, RefusedError, UnreachableError
from pinion.drivers.netbox.server.answers import plain_error, write_error
from pinion.drivers.netbox.server.retry import Budget, retry_after

#: How often a plain 500 is asked again: it seldom passes, unlike those of a server that is starting or full.
_ERRORS_OF_THE_APPLICATION = 4
_PASSING = frozenset({429, 500, 502, 503, 504})
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")

#: Parameters of a read; a list is a parameter that is named several times.
Query: TypeAlias = Mapping[str, str | int | Sequence[str]]


class Settings(TypedDict, total=False):
    """How to reach a NetBox.

    *ca_file*: a PEM bundle, None for the system's. Seconds: *connect_timeout* (5), *read_timeout* (between two pieces of an answer, 60),
    *total_time* (one request with its repetitions, 120). *allow_plain_http*: take http:// to another machine, though the token goes there
    in clear; without it that is a `RefusedError`.
    """

    ca_file: str | None
    connect_timeout: float
    read_timeout: float
    total_time: float
    allow_plain_http: bool


class Session:
    """Connections to one NetBox. *calls*: HTTP requests sent, for figures and tests."""

    def __init__(
        self, url: str, token: str, *, ca_file: str | None = None, connect_timeout: float = 5.0, read_timeout: float = 60.0,
        total_time: float = 120.0, allow_plain_http: bool = False,
    ) -> None:  # fmt: skip
        if is_in_clear(url) and not allow_plain_http:
            raise RefusedError("NetBox", PLAIN_HTTP, url)
        self.total_time = total_time
        self.calls = 0
        self._timeouts = (connect_timeout, read_timeout)
        self._lock = threading.Lock()
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy or a .netrc of the user's must not see the token
        # The machine's own bundle of authorities; the library would take one that it ships.
        bundles = (os.environ.get("SSL_CERT_FILE"), *_BUNDLES)
        self._session.verify = ca_file or next((one for one in bundles if one and Path(one).exists()), True)
        self._session.headers["Authorization"] = f"{'Bearer' if token.startswith('nbt_') else 'Token'} {token}"
        self._session.headers["Accept"] = "application/json"
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=8, max_retries=0))

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def send(
        self, method: str, url: str, *, params: Query | None = None, json: JsonValue = None,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response:  # fmt: skip
        """One request. Raises `requests.RequestException`, and `RefusedError` for a redirect."""
        with self._lock:
            self.calls += 1
        try:
            answer = self._session.request(
                method, url, params=params, json=json, headers=headers, timeout=self._timeouts, allow_redirects=False
            )
        except requests.RequestException:
            raise
        except OSError as error:  # the bundle of authorities is not there
            raise RefusedError("NetBox", str(error), url) from None
        if answer.is_redirect:
            target = answer.headers.get("Location", "elsewhere")
            raise RefusedError("NetBox", f"redirects to {target}; state the address it points to", url)
        return answer


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer, as pynetbox reads it."""

    body: JsonValue
    status_code: int = 200
    ok: bool = True

    def json(self) -> JsonValue:
        """The parsed body."""
        return self.body


class Call:
    """What pynetbox sees as its session, for one call of ours at *url*: all answers that it gets are good ones.

    *what* names the call in errors. A write states the versions *etags* of its records, and their *ids*, by which errors name them.
    """

    def __init__(
        self, session: Session, what: str, url: str, *, etags: Sequence[str] = (), ids: Sequence[int] = ()
    ) -> None:
        self._session = session
        self._what = what
        self._url = url
        self._headers = {"If-Match": ", ".join(etags)} if etags else {}
        self._ids = ids
        self._query: Query = {}
        self._start = 0

    # --- reads ----------------------------------------------------------------------------------------------------------

    def get(self, _: str, *, params: Query, **__: object) -> Answer:
        """A page of a list: the first, and, with no *params*, the one after the last that there was."""
        self._query = params or {**self._query, "start": self._start}
        body = self.read(self._query)
        records = body.get("results")
        if not isinstance(records, list) or "next" not in body:
            raise RefusedError(self._what, "the answer is not a NetBox list", self._url)
        numbers = [number for one in records if isinstance(one, dict) and isinstance(number := one.get("id"), int)]
        if len(numbers) < len(records):
            raise RefusedError(
                self._what, "holds records without a number for their id: it could not be read whole", self._url
            )
        if body["next"] is not None and records:
            if numbers != sorted(numbers) or numbers[0] < self._start:
                reason = "NetBox gives this list in pages that are not in order of ids: it could not be read whole"
                raise RefusedError(self._what, reason, self._url)
            self._start = numbers[-1] + 1
        return Answer({"count": None, **body, "next": body["next"] if records else None})

    def read(self, query: Query) -> dict[str, JsonValue]:
        """An object of JSON."""
        body = self._answered("GET", params=query)
        if not isinstance(body, dict):
            raise RefusedError(self._what, "the answer is not JSON of a NetBox", self._url)
        return body

    # --- writes ---------------------------------------------------------------------------------------------------------

    def post(self, _: str, *, json: JsonValue, **__: object) -> Answer:
        """Create a list of records."""
        return Answer(self._answered("POST", json=json))

    def patch(self, _: str, *, json: JsonValue, **__: object) -> Answer:
        """Change a list of records."""
        return Answer(self._answered("PATCH", json=json))

    def delete(self, _: str, *, json: JsonValue, **__: object) -> Answer:
        """Delete a list of records."""
        return Answer(self._answered("DELETE", json=json))

    # --- both -----------------------------------------------------------------------------------------------------------

    def _answered(self, method: str, *, params: Query | None = None, json: JsonValue = None) -> JsonValue:
        """The body of a good answer. Asks again while that may help, and after a write only when it surely did not happen."""
        budget = Budget(self._session.total_time)
        is_read = method == "GET"
        while True:
            asked: float | None = None
            failure: NetBoxError
            try:
                answer = self._session.send(method, self._url, params=params, json=json, headers=self._headers)
            except requests.RequestException as error:
                was_sent = not _never_sent(error)
                failure = UnreachableError(
                    self._what, _reason(error), self._url, maybe_applied=was_sent and not is_read
                )
                again = not (_hopeless(error) if is_read else was_sent)
            else:
                status, body = answer.status_code, _json(answer)
                if status in (200, 201, 204):
                    return body
                asked = retry_after(answer.headers.get("Retry-After"))
                if is_read:
                    failure = plain_error(status, body, self._what, self._url)
                    again = status in _PASSING and not (status == 500 and budget.attempts >= _ERRORS_OF_THE_APPLICATION)
                else:
                    failure = write_error(status, body, self._what, self._url, self._ids)
                    again = status == 429
                    if status == 503 and asked is not None:
                        budget.pause(asked)  # the server said how long; then it is the caller's turn to look first
            if again and budget.pause(asked):
                continue
            if again:
                limit = f"{self._session.total_time:.0f} s at most"
                failure.reason += f"; gave up after {budget.attempts} tries in {limit}"
            raise failure


def _json(answer: requests.Response) -> JsonValue:
    """The parsed body; text that is no JSON as a short text (pages of proxies are HTML)."""
    if not answer.content:
        return None
    try:
        parsed: JsonValue = answer.json()
    except ValueError:
        is_page = "html" in answer.headers.get("Content-Type", "")
        return f"{answer.reason} (a web page, not the API)" if is_page else answer.text[:200]
    return parsed


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what is wrapped in it."""
    seen: set[int] = set()
    queue: list[BaseException] = [error]
    while queue:
        one = queue.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            inside = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
            queue += [item for item in inside if isinstance(item, BaseException)]


def _never_sent(error: requests.RequestException) -> bool:
    """Whether the request surely did not reach the server: the connection was never made."""
    not_made = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    is_tls = isinstance(error, requests.exceptions.SSLError)
    return not is_tls and any(isinstance(one, not_made) for one in _causes(error))


def _hopeless(error: requests.RequestException) -> bool:
    """Whether trying again can't help: a certificate or an address that is wrong."""
    wrong = (requests.exceptions.SSLError, requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema)
    return isinstance(error, wrong)


def _reason(error: requests.RequestException) -> str:
    causes = list(_causes(error))
    if isinstance(error, requests.exceptions.SSLError):
        refused = next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None)
        return f"the server's certificate is not accepted: {refused.verify_message}" if refused else "TLS failed"
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection within the time allowed"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer within the time allowed"
    if any(isinstance(one, ConnectionRefusedError) for one in causes):
        return "connection refused: is NetBox running there?"
    if any(isinstance(one, (ConnectionResetError, urllib3.exceptions.ProtocolError)) for one in causes):
        return "the connection broke off before the answer was complete"
    return f"no answer ({type(error).__name__})"
