"""1,000 NetBox objects (200 devices with interface, address, cable, primary address) by the driver, beside one raw bulk script.

    python tests/benchmarks/netbox_bulk.py [--devices 200] [--delay 0 0.02 0.1]

Root needed: it runs a NetBox of its own. Each row is one run against a fresh site; the raw script is the floor: it knows all ids and
checks nothing. Prints seconds, HTTP calls and the ratio to the floor of the same delay.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import requests
from doubles.faults import FaultProxy

from pinion.drivers.netbox import (
    CableTo,
    DeviceRecord,
    DeviceType,
    Interface,
    Named,
    NetBoxDriver,
    Rack,
    SiteRecords,
)
from pinion.drivers.netbox.http_store import HttpStore
from pinion.lab.netbox.standalone import standalone

_sites = itertools.count(1)


class Site:
    """A site with a switch that has a port for each device."""

    def __init__(self, devices: int) -> None:
        number = next(_sites)
        self.name, self.number = f"bench-{number}", number
        self.records = SiteRecords(
            site=self.name, name=self.name, racks=(Rack(name="r1", units=42),), device_roles=(Named(slug="pi", name="Pi"),),
            device_types=(DeviceType(manufacturer="Acme", model="Box", slug="box", units=0),),
        )  # fmt: skip
        ports = tuple(Interface(name=f"Ethernet{n}", type="1000base-t") for n in range(1, devices + 1))
        self.switch = self._device("tor-1", ports)
        self.devices = [self._pi(n) for n in range(1, devices + 1)]

    def _device(self, name: str, interfaces: tuple[Interface, ...], primary: str | None = None) -> DeviceRecord:
        return DeviceRecord(
            site=self.name,
            name=name,
            role="pi",
            manufacturer="acme",
            device_type="box",
            rack="r1",
            interfaces=interfaces,
            primary_address=primary,
        )

    def address(self, n: int) -> str:
        """Address of the n-th device."""
        return f"10.{self.number}.{n // 250}.{n % 250 + 1}/16"

    def _pi(self, n: int) -> DeviceRecord:
        port = Interface(
            name="eth0",
            type="1000base-t",
            addresses=(self.address(n),),
            cable=CableTo(device="tor-1", interface=f"Ethernet{n}"),
        )
        return self._device(f"pi-{n:04d}", (port,), self.address(n))


def calls(driver: NetBoxDriver) -> int:
    """HTTP requests sent so far."""
    assert isinstance(driver.store, HttpStore)
    return driver.store.calls


def clock(work: Callable[[], object]) -> float:
    """Seconds that *work* takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def raw_script(url: str, token: str, site: Site, driver: NetBoxDriver) -> tuple[float, int]:
    """The floor: five bulk writes a hundred at a time, one kept-alive connection, no look-ups."""
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"
    sent = 0

    def send(method: str, path: str, items: list[dict[str, object]]) -> list[dict[str, object]]:
        nonlocal sent
        answers: list[dict[str, object]] = []
        for start in range(0, len(items), 100):
            answer = session.request(method, f"{url}/api/{path}/", json=items[start : start + 100], timeout=300)
            answer.raise_for_status()
            answers += answer.json()
            sent += 1
        return answers

    def ends(number: object) -> list[dict[str, object]]:
        return [{"object_type": "dcim.interface", "object_id": number}]

    observed = driver.devices.read(site.switch.key)
    places = driver.sites.read(site.name)
    assert observed is not None
    assert places is not None
    ids = places.ids
    common = {
        "site": ids["site"],
        "rack": ids["rack r1"],
        "role": ids.get("device role pi"),
        "device_type": ids.get("device type box"),
    }
    if common["role"] is None:  # made by the first site, used by the others
        common |= {"role": {"slug": "pi"}, "device_type": {"manufacturer": {"slug": "acme"}, "slug": "box"}}

    def run() -> None:
        devices = send("POST", "dcim/devices", [{"name": one.name, **common} for one in site.devices])
        ports = send(
            "POST", "dcim/interfaces", [{"device": one["id"], "name": "eth0", "type": "1000base-t"} for one in devices]
        )
        addresses = send(
            "POST", "ipam/ip-addresses",
            [{"address": one.primary_address, "assigned_object_type": "dcim.interface", "assigned_object_id": port["id"]}
             for one, port in zip(site.devices, ports, strict=True)],
        )  # fmt: skip
        send(
            "PATCH",
            "dcim/devices",
            [{"id": one["id"], "primary_ip4": ip["id"]} for one, ip in zip(devices, addresses, strict=True)],
        )
        far = [observed.ids[f"interface Ethernet{n}"] for n in range(1, len(site.devices) + 1)]
        pairs = zip(ports, far, strict=True)
        send(
            "POST",
            "dcim/cables",
            [{"a_terminations": ends(port["id"]), "b_terminations": ends(other)} for port, other in pairs],
        )

    return clock(run), sent


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--delay", type=float, nargs="*", default=[0.0, 0.02, 0.1], help="seconds, each way")
    chosen = parser.parse_args()
    with standalone() as netbox:
        for delay in chosen.delay:
            with FaultProxy(netbox.url, delay=delay) as proxy:
                measure(proxy.url if delay else netbox.url, netbox.token, delay, chosen.devices)


def measure(url: str, token: str, delay: float, devices: int) -> None:
    """All rows for one delay."""
    setup = NetBoxDriver(url, token)
    sites = [Site(devices) for _ in range(3)]
    for site in sites:
        setup.sites.apply(site.records)
        setup.devices.apply(site.switch)
    floor, sent = raw_script(url, token, sites[0], setup)
    print(f"delay {delay * 1000:3.0f} ms  raw bulk script        {floor:7.2f} s  {sent:4d} calls   1.00")

    def row(what: str, seconds: float, requests_sent: int) -> None:
        print(
            f"delay {delay * 1000:3.0f} ms  {what:<21}  {seconds:7.2f} s  {requests_sent:4d} calls  {seconds / floor:5.2f}",
            flush=True,
        )

    def created(site: Site, work: Callable[[NetBoxDriver], object], what: str) -> NetBoxDriver:
        driver = NetBoxDriver(url, token, fresh=60.0)
        seconds = clock(lambda: work(driver))
        row(what, seconds, calls(driver))
        return driver

    def threads(driver: NetBoxDriver, site: Site, count: int) -> None:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(driver.devices.apply, site.devices))

    created(sites[1], lambda driver: driver.devices.lists.apply(sites[1].devices), "create, one list")
    created(sites[2], lambda driver: threads(driver, sites[2], 64), "create, 64 threads")
    fresh = NetBoxDriver(url, token, fresh=60.0)
    row("refresh, 64 threads", clock(lambda: refresh(fresh, sites[2])), calls(fresh))
    before = calls(fresh)
    row("then apply, no change", clock(lambda: threads(fresh, sites[2], 64)), calls(fresh) - before)


def refresh(driver: NetBoxDriver, site: Site) -> None:
    """What the provider does for `pulumi refresh`: read each, and compare it with what is declared."""

    def one(device: DeviceRecord) -> None:
        observed = driver.devices.read(device.key)
        assert observed is not None
        assert observed.record == device
        assert driver.devices.diff(device).empty

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(one, site.devices))


if __name__ == "__main__":
    main()
