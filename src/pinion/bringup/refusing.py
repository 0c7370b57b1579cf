"""A site's authority renews nothing for a host any more, whatever was copied from it, renewed or rekeyed.

Invariants: what is noted on the operator's machine comes first, so a run that is killed leaves nothing that a later converge run would take
back; and nothing is reported as refused before the authority itself, asked over TLS, has the host's former provisioner no more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.programs import Program, ProgramError
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.issuers import retire
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.revoking import issuers_at
from pinion.plan.concerns import site_ca
from pinion.plan.model import AuthorityPlan

#: Seconds that step-ca has to start with its new configuration, on a host that is busy with other things too.
_RESTART_SECONDS = 120.0
_AGAIN = 0.5

#: Brings the concern `site_ca` of the authority's host to what the site file states. Raises `ProgramError`.
Converge = Callable[[str], Mapping[str, HostResult]]


@dataclass(frozen=True, slots=True)
class Refused:
    """*at*: from when on nothing of the host is renewed. *ends*: by when each certificate that it, or a thief, has is over."""

    at: datetime
    ends: datetime


def refuse(
    authority: Authority,
    stated: AuthorityPlan,
    subject: str,
    converge: Converge,
    *,
    seconds: float = _RESTART_SECONDS,
) -> Refused | None:
    """Have the authority *stated* renew nothing for the host *subject* that is out there now; None where it is run elsewhere.

    A host that stays gets another certificate with its next converge run. May be run again. Raises `AuthorityError`, `OSError`.
    """
    if stated.host is None:
        return None
    mine = retire(authority, subject)
    _tell(stated.host, converge)
    _until(lambda: _renews(authority, stated.url, subject, mine), seconds)
    at = datetime.now(UTC)
    return Refused(at, at + timedelta(seconds=stated.lifetime))


def telling(root: Path, site: Path) -> Converge:
    """A converge run of the concern `site_ca` alone, of the site file *site*, from the repository *root*, with a log there."""

    def converge(host: str) -> Mapping[str, HostResult]:
        run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        log = root / ".pinion" / "converge" / f"{run}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as output:
            program = Program("ansible", root, site.resolve(), output, run=run, concerns=(site_ca.NAME,))
            return program.converge((host,))

    return converge


def former(names: Iterable[str], subject: str, mine: str) -> list[str]:
    """Of the provisioners *names* those that renew for *subject* and are not *mine*."""
    return sorted(name for name in names if name.partition("#")[0] == subject and name != mine)


def another_token_key(
    authority: Authority, stated: AuthorityPlan, converge: Converge, *, seconds: float = _RESTART_SECONDS
) -> None:
    """Have each token that was made before count nowhere. Certificates are renewed as before. Raises `AuthorityError`, `OSError`."""
    if stated.host is None:
        raise AuthorityError(f"{stated.url} is run elsewhere: its operator has the key that tokens are checked with")
    authority.renew_token_key()
    _tell(stated.host, converge)
    await_key(authority, stated.url, seconds=seconds)


def await_key(authority: Authority, url: str, *, seconds: float = _RESTART_SECONDS) -> None:
    """Wait until step-ca answers and checks tokens with the operator's key alone. Raises `AuthorityError`."""
    mine = authority.provisioner["kid"]

    def wrong() -> str | None:
        strange = {key for key in issuers_at(authority, url).values() if key != mine}
        return f"the authority {url} still takes tokens of another key ({strange.pop()})" if strange else None

    _until(wrong, seconds)


def _tell(host: str, converge: Converge) -> None:
    """Converge *host*. Raises `AuthorityError`."""
    try:
        results = converge(host)
    except ProgramError as error:
        raise AuthorityError(f"{host}, the authority's host, could not be told: {error}") from error
    if errors := [error for result in results.values() for error in result.errors]:
        raise AuthorityError(f"{host}, the authority's host, could not be told: {errors[0]}")


def _renews(authority: Authority, url: str, subject: str, mine: str) -> str | None:
    left = former(issuers_at(authority, url), subject, mine)
    return f"the authority {url} still renews for {subject}, by its provisioner {left[0]}" if left else None


def _until(wrong: Callable[[], str | None], seconds: float) -> None:
    """Wait until nothing is *wrong*, as step-ca starts with what it was told. Raises `AuthorityError` with what is."""
    until = time.monotonic() + seconds
    while True:
        try:
            said = wrong()
        except AuthorityError:
            if time.monotonic() >= until:
                raise
        else:
            if said is None:
                return
            if time.monotonic() >= until:
                raise AuthorityError(said)
        time.sleep(_AGAIN)
