"""A thief with a host's whole disk, against the real step-ca: he copies, renews and rekeys, and after one command it is over."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from pinion.bringup.refusing import refuse
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.programs import ProgramError
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.issuers import issuer
from pinion.drivers.identity.place import AuthorityError
from pinion.drivers.identity.revoking import issuers_at, revoke
from pinion.plan.model import AuthorityPlan

from .conftest import DOMAIN, LIFETIME, NETWORKS, Host, StepCa

HOSTS = ("pi-01", "pi-02")


@pytest.fixture
def ca(tmp_path: Path, step_ca_program: Path) -> Iterator[StepCa]:
    """An authority of this test's own, for its provisioners change."""
    del step_ca_program
    authority = Authority(tmp_path / "authority" / "rack")
    authority.make("rack", DOMAIN, NETWORKS)
    found = StepCa(tmp_path / "ca", authority, hosts=HOSTS)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def host(ca: StepCa, tmp_path: Path) -> Host:
    found = Host(tmp_path / "pi-01", ca)
    found.enrolled()
    return found


@pytest.fixture
def other(ca: StepCa, tmp_path: Path) -> Host:
    found = Host(tmp_path / "pi-02", ca, "pi-02")
    found.enrolled()
    return found


class Thief:
    """Has a copy of all that lies on *host*, and each certificate that the authority gave him for it since."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.folder = host, folder
        shutil.copytree(host.data, folder, symlinks=True)
        self.pairs = [(folder / "current" / "cert.pem", folder / "current" / "key.pem")]

    def ask(self, path: str, body: str, pair: tuple[Path, Path]) -> tuple[int, dict[str, str]]:
        """The authority's answer to who has *pair*."""
        context = ssl.create_default_context(cadata=self.host.ca.authority.root)
        context.load_cert_chain(*pair)
        connection = http.client.HTTPSConnection("127.0.0.1", self.host.ca.port, context=context, timeout=20)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def renews(self, pair: tuple[Path, Path]) -> int:
        """The same key, another certificate."""
        code, said = self.ask("/1.0/renew", "{}", pair)
        if code == 201:
            self._keep(said, pair[1])
        return code

    def rekeys(self, pair: tuple[Path, Path]) -> int:
        """A key of his own."""
        key = self.folder / f"own-{len(self.pairs)}.key"
        make = [
            "openssl",
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=x",
        ]
        made = subprocess.run([*make, "-keyout", key], check=True, capture_output=True, text=True)
        code, said = self.ask("/1.0/rekey", json.dumps({"csr": made.stdout}), pair)
        if code == 201:
            self._keep(said, key)
        return code

    def _keep(self, said: Mapping[str, str], key: Path) -> None:
        path = self.folder / f"own-{len(self.pairs)}.crt"
        path.write_text(said["crt"] + said["ca"])
        self.pairs.append((path, key))

    def ends(self) -> datetime:
        """When the last of all that he has is over."""
        return max(x509.load_pem_x509_certificate(pair[0].read_bytes()).not_valid_after_utc for pair in self.pairs)


def stated(ca: StepCa, host: str | None = "mgmt-1") -> AuthorityPlan:
    return AuthorityPlan(url=ca.url, host=host, domain=DOMAIN, networks=NETWORKS, lifetime=LIFETIME)


def converging(ca: StepCa, *hosts: str) -> Callable[[str], Mapping[str, HostResult]]:
    """A converge run of the authority's host, with *hosts* in the site file."""

    def converge(name: str) -> Mapping[str, HostResult]:
        ca.serves(*hosts)
        ca.stop()
        ca.start()
        return {name: HostResult()}

    return converge


def test_what_a_thief_has_is_over_within_one_life_of_a_certificate(
    ca: StepCa, host: Host, other: Host, tmp_path: Path
) -> None:
    thief = Thief(host, tmp_path / "thief")
    assert thief.renews(thief.pairs[0]) == 201
    assert thief.rekeys(thief.pairs[0]) == 201
    assert thief.rekeys(thief.pairs[-1]) == 201
    # What the command was before: the number that the host shows is revoked, and the thief goes on by another.
    assert revoke(ca.authority, ca.url, int(host.status()["serial"], 16), "stolen")
    assert thief.renews(thief.pairs[0]) == 401
    assert thief.rekeys(thief.pairs[-1]) == 201

    done = refuse(ca.authority, stated(ca), host.names[0], converging(ca, "pi-02"))
    assert done is not None
    assert len(thief.pairs) == 5
    for pair in list(thief.pairs):
        assert thief.renews(pair) == 401
        assert thief.rekeys(pair) == 401
    assert len(thief.pairs) == 5
    assert thief.ends() <= done.ends, "the bound that the command states"
    assert done.ends - datetime.now(UTC) <= timedelta(seconds=LIFETIME)
    assert Thief(other, tmp_path / "unharmed").renews((other.current / "cert.pem", other.current / "key.pem")) == 201


def test_who_takes_the_place_is_not_the_thief(ca: StepCa, host: Host, tmp_path: Path) -> None:
    thief = Thief(host, tmp_path / "thief")
    old_token = host.token()
    refuse(ca.authority, stated(ca), host.names[0], converging(ca, "pi-02"))
    # The site file has a new pi-01, on another card.
    converging(ca, *HOSTS)("mgmt-1")
    assert thief.rekeys(thief.pairs[0]) == 401
    shutil.rmtree(host.data)
    host.give(old_token)
    assert host.run("enrol").returncode == 1, "nor does a token of before make anybody pi-01"
    host.enrolled()
    heir = Thief(host, tmp_path / "heir")
    assert heir.rekeys(heir.pairs[0]) == 201
    assert thief.rekeys(thief.pairs[0]) == 401


def test_a_host_that_stays_gets_another_certificate_with_its_next_converge_run(
    ca: StepCa, host: Host, tmp_path: Path
) -> None:
    thief = Thief(host, tmp_path / "thief")
    before = host.status()["serial"]
    former = issuer(ca.authority, host.names[0])
    assert host.run("good", "--issuer", former, *host.names).returncode == 0
    refuse(ca.authority, stated(ca), host.names[0], converging(ca, *HOSTS))
    mine = issuer(ca.authority, host.names[0])
    assert host.run("good", "--issuer", mine, *host.names).returncode == 1, "so a converge run brings a token"
    host.enrolled()
    assert host.status()["serial"] != before
    assert host.run("good", "--issuer", mine, *host.names).returncode == 0
    own = Thief(host, tmp_path / "own")
    assert own.rekeys(own.pairs[0]) == 201
    assert thief.rekeys(thief.pairs[0]) == 401
    assert host.run("enrol").returncode == 0
    assert len(list(host.data.glob("certificate-*"))) == 2, "and no more than once"


def test_an_authority_that_lost_its_database_renews_for_no_thief(
    ca: StepCa, host: Host, other: Host, tmp_path: Path
) -> None:
    thief, unharmed = Thief(host, tmp_path / "thief"), Thief(other, tmp_path / "unharmed")
    assert thief.rekeys(thief.pairs[0]) == 201
    refuse(ca.authority, stated(ca), host.names[0], converging(ca, "pi-02"))
    ca.stop()
    shutil.rmtree(ca.folder / "data" / "db")
    ca.start()
    assert [thief.renews(pair) for pair in list(thief.pairs)] == [401, 401]
    assert unharmed.renews(unharmed.pairs[0]) == 201


def test_killed_before_the_authority_was_told_any_later_converge_run_tells_it(
    ca: StepCa, host: Host, tmp_path: Path
) -> None:
    thief = Thief(host, tmp_path / "thief")

    def unreached(name: str) -> Mapping[str, HostResult]:
        raise ProgramError(f"no way to {name}")

    with pytest.raises(AuthorityError, match="mgmt-1, the authority's host, could not be told: no way to mgmt-1"):
        refuse(ca.authority, stated(ca), host.names[0], unreached)
    with pytest.raises(AuthorityError, match="could not be told: full"):
        refuse(ca.authority, stated(ca), host.names[0], lambda name: {name: HostResult(errors=["full"])})
    converging(ca, *HOSTS)("mgmt-1")
    assert thief.rekeys(thief.pairs[0]) == 401


def test_what_the_authority_still_renews_is_not_reported_as_refused(ca: StepCa, host: Host, tmp_path: Path) -> None:
    def lies(name: str) -> Mapping[str, HostResult]:
        return {name: HostResult()}

    with pytest.raises(AuthorityError, match=r"still renews for pi-01\.rack\.internal"):
        refuse(ca.authority, stated(ca), host.names[0], lies, seconds=0)
    thief = Thief(host, tmp_path / "thief")
    assert thief.renews(thief.pairs[0]) == 201
    assert refuse(ca.authority, stated(ca, None), host.names[0], lies) is None, "others run it"


def test_all_of_many_provisioners_are_read(ca: StepCa) -> None:
    ca.serves(*(f"pi-{number:03}" for number in range(230)))
    ca.stop()
    ca.start()
    assert len(issuers_at(ca.authority, ca.url)) == 231
