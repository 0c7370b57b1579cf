"""A real NetBox for the tests of this folder: one for the whole run, with an empty database, on loopback.

Needs root and the lab's cached layers (built when missing). `PINION_TEST_NETBOX=URL,TOKEN-FILE` points at a running one instead, of
any release that the driver supports, and leaves it as it was; `PINION_TEST_NETBOX_ADMIN=FILE`, with the password of its user `admin`, adds
the tests in which another hand does what Pinion's user may not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from netbox_contract.others import Administrator
from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy
from pydantic import JsonValue
from thoroughness import FULL

from pinion.drivers.netbox import NetBoxDriver
from pinion.drivers.netbox.kinds.values import Body, identity
from pinion.drivers.netbox.server.http_store import HttpStore
from pinion.lab.netbox.standalone import standalone


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the part of the contract in which the server has no say, unless CI_FULL=1 or a NetBox was named."""
    if FULL or "PINION_TEST_NETBOX" in os.environ:
        return
    for item in items:
        rules = getattr(getattr(item, "module", None), "SERVERS_RULES", None)
        if rules is not None and getattr(item, "originalname", item.name) not in rules:
            item.add_marker(
                pytest.mark.skip(reason="the driver's own logic, shown in memory: on NetBox with CI_FULL=1")
            )


#: A plugin with kinds of its own, which may hang on ours.
PLUGIN = Path(__file__).parent / "plugin/pinion_gauges"
PLUGIN_KINDS = ("pinion_gauges.gauge", "pinion_gauges.reading")
#: What the tests' objects are described as that a protection rule keeps, and that a validation rule of the plugin's is about.
PROTECTED, LOCKED = "kept by a protection rule", "adopted for good"
SETTINGS: dict[str, JsonValue] = {
    "PROTECTION_RULES": {"dcim.device": [{"description": {"neq": PROTECTED}}]},
    "CUSTOM_VALIDATORS": {"ipam.vlan": ["pinion_gauges.validators.AdoptedStaysAdopted"]},
}


@dataclass(frozen=True, repr=False)
class Server:
    """Where the NetBox under test is."""

    url: str
    token: str
    admin_password: str | None = None


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """A running NetBox."""
    if given := os.environ.get("PINION_TEST_NETBOX"):
        url, _, token = given.partition(",")
        admin = os.environ.get("PINION_TEST_NETBOX_ADMIN")
        yield Server(url, Path(token).read_text().strip(), Path(admin).read_text().strip() if admin else None)
        return
    if os.geteuid() != 0:
        pytest.skip("a NetBox of our own needs root (namespaces, overlay)")
    with standalone(settings=SETTINGS, plugins=[PLUGIN]) as netbox:
        hand = Administrator(netbox.url, netbox.admin_password)
        (user,) = hand.found("users/users", username="pinion")
        for number, content_type in enumerate(PLUGIN_KINDS):  # as the operator of a NetBox with this plugin must
            rights: Body = {"name": f"gauges {number}", "object_types": [content_type], "actions": ["view"]}
            hand.hang("users/permissions", {**rights, "users": [identity(user)]})
        hand.close()
        yield Server(netbox.url, netbox.token, netbox.admin_password)


@pytest.fixture
def store(server: Server) -> Iterator[HttpStore]:
    """The record store on it."""
    one = HttpStore(server.url, server.token, total_time=30.0)
    yield one
    one.close()


@pytest.fixture
def spy(store: HttpStore) -> Spy:
    return Spy(store)


@pytest.fixture
def driver(spy: Spy) -> NetBoxDriver:
    """As the provider uses it: a listing answers for a while."""
    return NetBoxDriver.on(spy, window=0.05, fresh=60.0)


@pytest.fixture
def hand(store: HttpStore, driver: NetBoxDriver) -> Hand:
    return Hand(store, driver.forget)


@pytest.fixture
def others(server: Server) -> Iterator[Administrator]:
    """Another hand that may do all."""
    if server.admin_password is None:
        pytest.skip("needs the administrator's password: PINION_TEST_NETBOX_ADMIN names the file that it is in")
    one = Administrator(server.url, server.admin_password)
    yield one
    one.close()


@pytest.fixture
def rival(server: Server) -> Iterator[NetBoxDriver]:
    """A second driver, as another process would have it."""
    one = NetBoxDriver(server.url, server.token)
    yield one
    one.close()


@pytest.fixture
def sample(server: Server) -> Iterator[Sample]:
    """A site of this test's own. A NetBox that we were given is left as it was; our own is thrown away as a whole."""
    one = Sample.new()
    yield one
    if "PINION_TEST_NETBOX" in os.environ:
        cleaner = NetBoxDriver(server.url, server.token)
        one.clear(cleaner)
        cleaner.close()


@pytest.fixture(scope="package")
def populated(server: Server) -> Sample:
    """A site with a VLAN, a switch and a Pi that all tests may look at and none changes."""
    one = Sample.new()
    maker = NetBoxDriver(server.url, server.token, fresh=60.0)
    one.make(maker, pis=1)
    maker.close()
    return one
