"""The record store over HTTP: pynetbox's session, with time-outs, bounded retries, ETags and errors by object.

Invariants:

* A read is repeated when it fails in a way that may pass; a write is repeated here only when it surely did not happen (no
  connection, 429). Any other failed write raises, and the caller looks at NetBox before it decides again.
* `fields` is sent with reads only: NetBox applies it to writes too and drops the rest of the body in silence.
* Names of fields and filters are checked against the table before they are sent.
* Pages are walked by id (`start`), so that rows neither repeat nor get lost when others write meanwhile. Only `next` says whether there
  is more: a server may make every page shorter than asked for (`MAX_PAGE_SIZE`). Where that address points is not followed, since a
  proxy's or another's would get the token.
* The token is in the session's header and nowhere else; redirects, which would carry it to another address, are refused.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pynetbox
import requests
import urllib3.exceptions
from pydantic import JsonValue
from requests.adapters import HTTPAdapter

from pinion.drivers.clear_text import PLAIN_HTTP, is_in_clear
from pinion.drivers.netbox import schema
from pinion.drivers.netbox.answers import plain_error, write_error
from pinion.drivers.netbox.errors import NetBoxError, RefusedError, UnreachableError
from pinion.drivers.netbox.kinds import MARK, SUPPORTED, Kind, check_fields, check_filters
from pinion.drivers.netbox.plain import mark_of
from pinion.drivers.netbox.results import ServerFacts
from pinion.drivers.netbox.retry import Budget, retry_after
from pinion.drivers.netbox.schema import EndPoint
from pinion.drivers.netbox.store import Body, Record, identity

#: Records asked for in one answer: NetBox's own default for the most that it gives.
PAGE = 1000
#: gunicorn refuses a request line over 4,094 bytes; the rest of the line needs some.
_LONGEST_QUERY = 3600
_UNKNOWN_CHOICE = re.compile(r"(\w+): Select a valid choice\. (\S+) is not one of the available choices")
#: How often a plain 500 is asked again: it seldom passes, unlike those of a server that is starting or full.
_ERRORS_OF_THE_APPLICATION = 4
_PASSING = frozenset({429, 500, 502, 503, 504})


class HttpStore:
    """A `RecordStore` on a NetBox server.

    *url*: without `/api`; http:// to another machine only with *allow_plain_http* (`RefusedError`): the token would go there in clear.
    *token*: v1 or v2. *ca_file*: a PEM bundle, None for the system's. Time-outs in seconds: *connect_timeout*,
    *read_timeout* (between two pieces of an answer), *total_time* (one call with its repetitions). *page*: records in one answer.
    """

    def __init__(
        self, url: str, token: str, *, ca_file: str | None = None,
        connect_timeout: float = 5.0, read_timeout: float = 60.0, total_time: float = 120.0, connections: int = 8,
        page: int = PAGE, allow_plain_http: bool = False,
    ) -> None:  # fmt: skip
        if is_in_clear(url) and not allow_plain_http:
            raise RefusedError("NetBox", PLAIN_HTTP, url)
        self._url = url.rstrip("/")
        self._timeouts = (connect_timeout, read_timeout)
        self._total_time = total_time
        self._page = page
        self._api = pynetbox.api(self._url, token=token)
        session = requests.Session()
        session.trust_env = False  # a proxy or a .netrc of the user's must not see the token
        session.verify = ca_file or _system_authorities()
        session.headers["Authorization"] = f"Bearer {token}" if token.startswith("nbt_") else f"Token {token}"
        session.headers["Accept"] = "application/json"
        adapter = HTTPAdapter(pool_connections=1, pool_maxsize=connections, max_retries=0)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        self._api.http_session = session
        self._session = session
        self._facts: ServerFacts | None = None
        self._end_points: tuple[EndPoint, ...] | None = None
        self._asking = threading.Lock()
        self._lock = threading.Lock()
        self.calls = 0  # HTTP requests sent, for figures and tests

    def __repr__(self) -> str:
        return f"HttpStore({self._url!r})"

    @property
    def url(self) -> str:
        """The server's address, without `/api`."""
        return self._url

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    # --- who answers ----------------------------------------------------------------------------------------------------

    def facts(self) -> ServerFacts:
        """Version and user. Raises `RefusedError` for a release that this driver does not know."""
        with self._lock:
            if self._facts is not None:
                return self._facts
        where = f"{self._api.base_url}/status/"
        status = self._get("NetBox", where, ())
        release = str(status.get("netbox-version", ""))
        version = tuple(int(part) for part in release.split(".")[:2] if part.isdigit())
        if version not in SUPPORTED:
            known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
            raise RefusedError("NetBox", f"release {release or 'unknown'} is not supported (known: {known})", self._url)
        user = self._get("NetBox", f"{self._api.base_url}/authentication-check/", ())
        found = ServerFacts((version[0], version[1]), release, self._url, str(user.get("username", "")))
        with self._lock:
            self._facts = found
        return found

    # --- reading --------------------------------------------------------------------------------------------------------

    def find(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None = None, values: Sequence[str] = ()
    ) -> list[Record]:
        """See `RecordStore.find`."""
        check_filters(kind, [*fixed, *([name] if name else [])])
        found: dict[int, Record] = {}
        for query in _queries(kind, fixed, name, values):
            for record in self._known(f"{kind.name} list", self._endpoint(kind), query):
                found[identity(record)] = record
        return [found[key] for key in sorted(found)]

    def end_points(self) -> tuple[EndPoint, ...]:
        """See `RecordStore.end_points`. Asks once."""
        with self._asking:
            if self._end_points is None:
                self._end_points = schema.end_points(self)
            return self._end_points

    def listing(self, path: str, query: Sequence[tuple[str, str]]) -> list[Record]:
        """See `RecordStore.listing`."""
        return self._known(f"{path} list", f"{self._api.base_url}/{path}/", list(query))

    def document(self, path: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, JsonValue]:
        """One object of JSON below `/api/`."""
        return self._get(f"api/{path}", f"{self._api.base_url}/{path}", query)

    def _known(self, what: str, url: str, query: list[tuple[str, str]]) -> list[Record]:
        """The records for a query, less the ids in it that are gone: NetBox refuses a whole query for one of them."""
        while True:
            try:
                return list(self._pages(what, url, query))
            except RefusedError as error:
                gone = _UNKNOWN_CHOICE.search(error.reason)
                rest = [pair for pair in query if not gone or pair != gone.groups()]
                if len(rest) == len(query):
                    raise
                dropped = {name for name, _ in query} - {name for name, _ in rest}
                if dropped:  # nothing is left of a filter: then nothing can match
                    return []
                query = rest

    def _pages(self, what: str, url: str, query: Sequence[tuple[str, str]]) -> Iterator[Record]:
        start = 0
        while True:
            body = self._get(what, url, [*query, ("limit", str(self._page)), ("start", str(start))])
            results = body.get("results")
            if not isinstance(results, list) or "next" not in body:
                raise RefusedError(what, "the answer is not a NetBox list", url)
            records = [record for record in results if isinstance(record, dict)]
            yield from records
            if body["next"] is None or not records:
                return
            numbers = [number for record in records if isinstance(number := record.get("id"), int)]
            if len(numbers) < len(results):
                raise RefusedError(what, "holds records without a number for their id: it could not be read whole", url)
            if numbers != sorted(numbers) or numbers[0] < start:
                raise RefusedError(
                    what,
                    "NetBox gives this list in pages that are not in order of ids: it could not be read whole",
                    url,
                )
            start = numbers[-1] + 1

    # --- writing --------------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        """See `RecordStore.create`."""
        check_fields(kind, {name for body in bodies for name in body})
        made = self._write("POST", kind, list(bodies), None, ())
        if not isinstance(made, list) or len(made) != len(bodies):
            raise UnreachableError(
                f"{kind.name} list",
                "NetBox's answer to a create is incomplete",
                self._endpoint(kind),
                maybe_applied=True,
            )
        return _as_sent(bodies, [record for record in made if isinstance(record, dict)])

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        """See `RecordStore.update`."""
        check_fields(kind, {name for patch in patches for name in patch})
        changed = self._write("PATCH", kind, list(patches), etags, [identity(patch) for patch in patches])
        return [record for record in changed if isinstance(record, dict)] if isinstance(changed, list) else []

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        """See `RecordStore.delete`."""
        items: list[JsonValue] = [{"id": number} for number in ids]
        self._write("DELETE", kind, items, etags, ids)

    def _write(
        self, method: str, kind: Kind, items: list[JsonValue], etags: Sequence[str] | None, ids: Sequence[int]
    ) -> JsonValue:
        url = self._endpoint(kind)
        what = f"{kind.name} list"
        headers = {"If-Match": ", ".join(etags)} if etags else {}
        budget = Budget(self._total_time)
        while True:
            try:
                answer = self._send(method, url, json=items, headers=headers)
            except requests.RequestException as error:
                maybe = not _never_sent(error)
                if not maybe and budget.pause():
                    continue
                raise UnreachableError(what, _reason(error), url, maybe_applied=maybe) from None
            body = _json(answer)
            if answer.status_code in (200, 201, 204):
                return body
            if answer.status_code == 429 and budget.pause(retry_after(answer.headers.get("Retry-After"))):
                continue
            if answer.status_code == 503:  # the server said how long; then it is the caller's turn to look first
                asked = retry_after(answer.headers.get("Retry-After"))
                if asked is not None:
                    budget.pause(asked)
            raise write_error(answer.status_code, body, what, url, ids)

    # --- one request ----------------------------------------------------------------------------------------------------

    def _get(self, what: str, url: str, query: Sequence[tuple[str, str]]) -> dict[str, JsonValue]:
        budget = Budget(self._total_time)
        while True:
            failure: NetBoxError
            asked: float | None = None
            try:
                answer = self._send("GET", url, params=list(query))
            except requests.RequestException as error:
                failure = UnreachableError(what, _reason(error), url)
                if _hopeless(error):
                    raise failure from None
            else:
                body = _json(answer)
                if answer.status_code == 200 and isinstance(body, dict):
                    return body
                if answer.status_code == 200:
                    raise RefusedError(what, "the answer is not JSON of a NetBox", url)
                failure = plain_error(answer.status_code, body, what, url)
                if answer.status_code not in _PASSING or (
                    answer.status_code == 500 and budget.attempts >= _ERRORS_OF_THE_APPLICATION
                ):
                    raise failure
                asked = retry_after(answer.headers.get("Retry-After"))
            if not budget.pause(asked):
                failure.reason = (
                    f"{failure.reason}; gave up after {budget.attempts} tries in {self._total_time:.0f} s at most"
                )
                raise failure

    def _send(
        self,
        method: str,
        url: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        json: JsonValue = None,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response:
        with self._lock:
            self.calls += 1
        try:
            answer = self._session.request(
                method,
                url,
                params=list(params),
                json=json,
                headers=dict(headers or {}),
                timeout=self._timeouts,
                allow_redirects=False,
            )
        except requests.RequestException:
            raise
        except OSError as error:  # the bundle of authorities is not there
            raise RefusedError("NetBox", str(error), url) from None
        if answer.is_redirect:
            raise RefusedError(
                "NetBox",
                f"redirects to {answer.headers.get('Location', 'elsewhere')}; state the address it points to",
                url,
            )
        return answer

    def _endpoint(self, kind: Kind) -> str:
        app, name = kind.path.split("/")
        endpoint = getattr(getattr(self._api, app), name.replace("-", "_"))
        return f"{endpoint.url}/"


def _system_authorities() -> str | bool:
    """The machine's own bundle of authorities; the library would take one that it ships."""
    for found in (
        os.environ.get("SSL_CERT_FILE"),
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
    ):
        if found and Path(found).exists():
            return found
    return True


def _as_sent(bodies: Sequence[Body], made: list[Record]) -> list[Record]:
    """New records in the order of *bodies*: by their marks where all have one, since only those say which is which."""
    marks = [fields.get(MARK) if isinstance(fields := body.get("custom_fields"), dict) else None for body in bodies]
    by_mark = {mark_of(record): record for record in made}
    if None in marks or set(by_mark) != set(marks) or len(by_mark) != len(made):
        return made
    return [by_mark[str(mark)] for mark in marks]


def _queries(
    kind: Kind, fixed: Mapping[str, str], name: str | None, values: Sequence[str]
) -> Iterable[list[tuple[str, str]]]:
    """The query in as many pieces as the longest request line asks for."""
    base = [*fixed.items(), ("fields", ",".join(kind.reading))]
    if name is None:
        yield base
        return
    piece: list[tuple[str, str]] = []
    room = _LONGEST_QUERY - len(urlencode(base))
    used = 0
    for value in dict.fromkeys(values):
        pair = (name, value)
        size = len(urlencode([pair])) + 1
        if piece and used + size > room:
            yield [*base, *piece]
            piece, used = [], 0
        piece.append(pair)
        used += size
    if piece:
        yield [*base, *piece]


def _json(answer: requests.Response) -> JsonValue:
    """The parsed body; text that is no JSON as a short text (pages of proxies are HTML)."""
    if not answer.content:
        return None
    try:
        parsed: JsonValue = answer.json()
    except ValueError:
        if "html" in answer.headers.get("Content-Type", ""):
            return f"{answer.reason} (a web page, not the API)"
        return answer.text[:200]
    return parsed


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what is wrapped in it."""
    seen: set[int] = set()
    queue: list[BaseException] = [error]
    while queue:
        one = queue.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        queue += [
            item
            for item in (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
            if isinstance(item, BaseException)
        ]


def _never_sent(error: requests.RequestException) -> bool:
    """Whether the request surely did not reach the server: the connection was never made."""
    if isinstance(error, requests.exceptions.SSLError):
        return False
    return any(
        isinstance(one, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError))
        for one in _causes(error)
    )


def _hopeless(error: requests.RequestException) -> bool:
    """Whether trying again can't help: a certificate or an address that is wrong."""
    return isinstance(
        error, (requests.exceptions.SSLError, requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema)
    )


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        verification = next((one for one in _causes(error) if isinstance(one, ssl.SSLCertVerificationError)), None)
        return (
            f"the server's certificate is not accepted: {verification.verify_message}" if verification else "TLS failed"
        )
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection within the time allowed"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer within the time allowed"
    for one in _causes(error):
        if isinstance(one, ConnectionRefusedError):
            return "connection refused: is NetBox running there?"
        if isinstance(one, (ConnectionResetError, urllib3.exceptions.ProtocolError)):
            return "the connection broke off before the answer was complete"
    return f"no answer ({type(error).__name__})"
