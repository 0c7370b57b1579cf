"""A real NetBox behind a proxy that misbehaves: bounded retries where it is safe, else an error that names URL, object and reason."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from doubles.faults import PASSING_FAULTS, BadCertificate, Fault, FaultProxy, Script, Seeded, too_many
from netbox_contract.samples import Sample
from thoroughness import points

from pinion.drivers.netbox import DeniedError, NetBoxDriver, UnreachableError
from pinion.drivers.netbox.kinds import MARK, PREFIX, SUPPORTED, VLAN

pytestmark = pytest.mark.netbox

#: Seconds that the driver waits for an answer.
PATIENCE = 5


@pytest.fixture
def proxy(server) -> Iterator[FaultProxy]:  # noqa: ANN001 - the fixture of conftest
    with FaultProxy(server.url) as one:
        yield one


@pytest.fixture
def faulty(proxy: FaultProxy, server) -> Iterator[NetBoxDriver]:  # noqa: ANN001
    """A driver that goes through the proxy; as patient as a machine that runs other tests beside this one needs."""
    one = NetBoxDriver(proxy.url, server.token, connect_timeout=5, read_timeout=PATIENCE, total_time=90, fresh=60)
    yield one
    one.close()


def posts_of(kind) -> object:  # noqa: ANN001
    return lambda request: request.method == "POST" and kind.path in request.path


@pytest.mark.parametrize("fault", PASSING_FAULTS, ids=lambda fault: f"{fault.kind}-{fault.status}")
def test_a_read_survives_what_passes(faulty: NetBoxDriver, proxy: FaultProxy, fault: Fault) -> None:
    proxy.set_schedule(Script([fault, fault]))
    assert faulty.check().version in SUPPORTED


def test_retry_after_is_honoured(faulty: NetBoxDriver, proxy: FaultProxy) -> None:
    """A whole number of seconds, as RFC 9110 (10.2.3) has it."""
    proxy.set_schedule(Script([too_many(2)]))
    start = time.monotonic()
    faulty.check()
    assert time.monotonic() - start >= 2


def test_retry_after_beyond_all_patience_fails_at_once(faulty: NetBoxDriver, proxy: FaultProxy) -> None:
    proxy.set_schedule(Script([too_many(3600)]))
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="429"):
        faulty.check()
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.variant) for kind in ("answer-after", "drop-after", "hang-after")] + ["cut"],
)
def test_a_create_whose_answer_was_lost_is_not_repeated(
    faulty: NetBoxDriver, driver: NetBoxDriver, proxy: FaultProxy, sample: Sample, store, kind  # noqa: ANN001
) -> None:  # fmt: skip
    driver.sites.apply(sample.site())
    for what in (VLAN, PREFIX):
        proxy.set_schedule(Script([Fault(kind, 502, seconds=2 * PATIENCE)], posts_of(what)))
        faulty.forget()
        faulty.vlans.apply(sample.vlan())
        assert any(fault for _, fault in proxy.log), "the fault never came"
        proxy.log.clear()
        assert len(store.find(VLAN, {}, f"cf_{MARK}", [f"{sample.name}/vlan/edge"])) == 1
        assert len(store.find(PREFIX, {}, "prefix", [sample.vlan().prefixes[0].prefix])) == 1
        if what is VLAN:
            driver.vlans.delete(sample.vlan().key)


@pytest.mark.parametrize("seed", range(points(1, 4)))
def test_everything_works_through_a_bad_line(
    faulty: NetBoxDriver, proxy: FaultProxy, sample: Sample, seed: int, driver: NetBoxDriver
) -> None:
    proxy.set_schedule(Seeded(seed, rate=0.25))
    sample.make(faulty, pis=2)
    proxy.set_schedule(lambda _: None)
    driver.forget()
    for kind, unit in (
        (driver.sites, sample.site()),
        (driver.vlans, sample.vlan()),
        (driver.devices, sample.pi(1)),
        (driver.devices, sample.pi(2)),
    ):
        assert kind.diff(unit).empty


def test_a_server_that_is_away_is_told_in_words(server, sample: Sample) -> None:  # noqa: ANN001
    away = NetBoxDriver("http://127.0.0.1:9", server.token, total_time=2)
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="connection refused") as error:
        away.vlans.read(f"{sample.name}/edge")
    assert "http://127.0.0.1:9/api/" in str(error.value)
    assert time.monotonic() - start < 30


def test_a_server_that_hangs_is_left_in_time(faulty: NetBoxDriver, proxy: FaultProxy) -> None:
    impatient = NetBoxDriver(proxy.url, "x", read_timeout=0.5, total_time=3)
    proxy.set_schedule(lambda _: Fault("hang", seconds=30))
    start = time.monotonic()
    with pytest.raises(UnreachableError, match="no answer within the time allowed"):
        impatient.check()
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("what", "text"), [("unknown-authority", "self-signed"), ("expired", "expired"), ("other-name", "not valid for")]
)
def test_bad_certificates_are_refused_at_once(server, tmp_path: Path, what: BadCertificate, text: str) -> None:  # noqa: ANN001
    with FaultProxy(server.url, certificate=what) as proxy:
        ca_file = None
        if what != "unknown-authority":
            ca_file = tmp_path / "ca.crt"
            ca_file.write_bytes(proxy.certificate.split(b"-----BEGIN PRIVATE")[0])
        driver = NetBoxDriver(proxy.url, server.token, ca_file=str(ca_file) if ca_file else None)
        start = time.monotonic()
        with pytest.raises(UnreachableError, match=f"certificate is not accepted.*{text}"):
            driver.check()
        assert time.monotonic() - start < 30
        assert proxy.requests == 0, "the token must not have been sent"


@pytest.mark.parametrize("token", ["nbt_aaaaaaaaaaaa." + "b" * 40, "0" * 40, "nonsense"])
def test_a_wrong_token_is_told_and_not_shown(server, token: str) -> None:  # noqa: ANN001
    driver = NetBoxDriver(server.url, token)
    with pytest.raises(DeniedError, match="does not accept the token") as error:
        driver.check()
    assert error.value.token
    assert token not in str(error.value) + repr(error.value) + repr(driver)


def test_only_what_the_driver_needs_is_allowed(server, store) -> None:  # noqa: ANN001
    """The token of the lab is the least-privileged one of the documentation: everything else is refused."""
    import requests

    for path in ("tenancy/tenants", "circuits/circuits", "virtualization/clusters", "users/users", "extras/scripts"):
        answer = requests.get(
            f"{server.url}/api/{path}/", headers={"Authorization": f"Bearer {server.token}"}, timeout=60
        )
        assert answer.status_code == 403 or answer.json().get("count") == 0, path
    assert store.facts().user == "pinion"
    own = requests.get(
        f"{server.url}/api/users/tokens/", headers={"Authorization": f"Bearer {server.token}"}, timeout=60
    )
    assert own.json()["count"] == 1, "NetBox shows every user its own tokens, and no other's"
