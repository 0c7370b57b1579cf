"""NetBox in the rack: it answers over TLS and in the browser, keeps its data over `down` and over kills, and says who may do what."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

import pytest
from lab.small_rack import SmallRack

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a rack in a box needs root"),
]

_MAKE = """
import sys
from pinion.drivers.netbox import NetBoxDriver, SiteRecords
url, token_file, ca_file, name = sys.argv[1:]
driver = NetBoxDriver(url, open(token_file).read().strip(), ca_file=ca_file)
print(driver.check().user, len(driver.sites.apply(SiteRecords(site=name, name=name)).changes))
"""


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRack]:
    made = SmallRack.make(tmp_path_factory.mktemp("netbox"), "t-netbox")
    try:
        made.run("up", "--parts", "netbox")
        yield made
    finally:
        made.run("down", "--purge")


def endpoint(rack: SmallRack) -> dict[str, str]:
    found: dict[str, str] = json.loads((rack.store.root / "endpoints.json").read_text())["netbox"]
    return found


def make(rack: SmallRack, name: str) -> str:
    """Make a site through the driver, from the operator's position; "user changes"."""
    there = endpoint(rack)
    arguments = (sys.executable, "-c", _MAKE, there["url"], there["token_file"], there["ca_file"], name)
    return rack.run("exec", "--", *arguments).stdout.strip()


def test_the_driver_works_over_tls_with_the_labs_authority(rack: SmallRack) -> None:
    assert make(rack, "one") == "pinion 2", "the site and its VLAN group"
    assert make(rack, "one") == "pinion 0"


def test_secrets_are_private(rack: SmallRack) -> None:
    there = endpoint(rack)
    for name in ("token_file", "admin_password_file"):
        assert Path(there[name]).stat().st_mode & 0o777 == 0o600
    token = Path(there["token_file"]).read_text().strip()
    assert re.fullmatch(r"nbt_[A-Za-z0-9]{12}\.[A-Za-z0-9]{40}", token)
    assert token not in (rack.store.root / "endpoints.json").read_text()


def test_the_administrator_logs_in_through_the_browsers_port(rack: SmallRack) -> None:
    there = endpoint(rack)
    jar = CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    url = there["browser_url"]
    page = browser.open(f"{url}login/", timeout=60).read().decode()
    assert browser.open(f"{url}static/netbox.css", timeout=60).status == 200
    secret = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert secret is not None
    password = Path(there["admin_password_file"]).read_text().strip()
    form = urlencode(
        {"csrfmiddlewaretoken": secret.group(1), "username": there["admin_user"], "password": password, "next": "/"}
    )
    home = (
        browser.open(urllib.request.Request(f"{url}login/", form.encode(), {"Referer": url}), timeout=60)
        .read()
        .decode()
    )
    assert "Log Out" in home


def test_data_survives_down_and_up(rack: SmallRack) -> None:
    make(rack, "kept")
    rack.run("down")
    rack.run("up", "--parts", "netbox")
    assert make(rack, "kept") == "pinion 0"


@pytest.mark.variant
def test_data_survives_kill_9_of_the_database(rack: SmallRack) -> None:
    make(rack, "written")
    there = endpoint(rack)
    pid = int(
        rack.machine("mgmt-1").run(["systemctl", "show", "--property=MainPID", "--value", "netbox-postgresql"]).stdout
    )
    rack.machine("mgmt-1").run(["kill", f"-{int(signal.SIGKILL)}", str(pid)])
    deadline = time.monotonic() + 60
    while True:
        try:
            assert make(rack, "written") == "pinion 0"
            return
        except AssertionError:
            assert time.monotonic() < deadline, f"NetBox at {there['url']} does not come back"
            time.sleep(1)
