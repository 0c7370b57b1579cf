"""Both versions of NetBox's API tokens over HTTP; that the official NetBox takes both is in tests/netbox/test_tokens.py."""

from __future__ import annotations

import pytest
from engine.netbox_server import TOKEN, serving

from pinion.drivers.netbox import NetBoxDriver, NetBoxError

V1 = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(("token", "other"), [(TOKEN, V1), (V1, TOKEN)])
def test_a_token_of_either_version_is_shown_as_netbox_takes_it(token: str, other: str) -> None:
    with serving() as server:
        server.token = token
        good, bad = NetBoxDriver(server.url, token), NetBoxDriver(server.url, other)
        assert good.check().user == "pinion"
        assert good.sites.read("nothing") is None
        with pytest.raises(NetBoxError, match="token"):
            bad.check()
        good.close()
        bad.close()
