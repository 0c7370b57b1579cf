"""A version 1 token, as many a NetBox still has them, is as good to the driver as a version 2 one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from netbox_contract.samples import Sample

from pinion.drivers.netbox import NetBoxDriver, NetBoxError

pytestmark = pytest.mark.netbox


@pytest.fixture
def version_1(server) -> Iterator[str]:  # noqa: ANN001 - the fixture of conftest
    """A further token of the same user, of version 1."""
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {server.token}"
        user = session.get(f"{server.url}/api/authentication-check/", timeout=60).json()
        wish = {"user": user["id"], "version": 1, "write_enabled": True}
        made = session.post(f"{server.url}/api/users/tokens/", json=wish, timeout=60)
        assert made.status_code == 201, made.text
        yield made.json()["token"]
        session.delete(f"{server.url}/api/users/tokens/{made.json()['id']}/", timeout=60).raise_for_status()


def test_netbox_takes_a_version_1_token_for_reads_and_writes(server, version_1: str, sample: Sample) -> None:  # noqa: ANN001
    assert not version_1.startswith("nbt_")
    driver = NetBoxDriver(server.url, version_1)
    assert driver.check().user == "pinion"
    assert driver.sites.apply(sample.site()).observed.record == sample.site()
    driver.close()
    stranger = NetBoxDriver(server.url, version_1[::-1])
    with pytest.raises(NetBoxError, match="token"):
        stranger.check()
    stranger.close()
