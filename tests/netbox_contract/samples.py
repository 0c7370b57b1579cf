"""Units that the contract's tests make. Each test has a site of its own, so that they may share one NetBox."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

from pinion.drivers.netbox import (
    CableTo,
    DeviceRecord,
    DeviceType,
    Interface,
    IpRange,
    Named,
    NetBoxDriver,
    Prefix,
    Rack,
    SiteRecords,
    VlanRecord,
)

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Sample:
    """A small site: *name* is its slug, *net* the second and third octet of its prefixes."""

    name: str
    net: str

    @classmethod
    def new(cls) -> Sample:
        number = next(_numbers)
        return cls(f"s{os.getpid()}-{number}", f"{20 + number // 200}.{number % 200}")

    def site(self, **changes: object) -> SiteRecords:
        return SiteRecords.model_validate(
            {
                "site": self.name,
                "name": f"Site {self.name}",
                "region": f"region-{self.name}",
                "racks": [Rack(name="r1", units=42)],
                "device_types": [
                    DeviceType(manufacturer=f"Acme {self.name}", model="Box", slug=f"box-{self.name}", units=0),
                    DeviceType(manufacturer=f"Acme {self.name}", model="Switch", slug=f"switch-{self.name}", units=1),
                ],
                "device_roles": [Named(slug=f"pi-{self.name}", name=f"Pi {self.name}")],
                "platforms": [Named(slug=f"os-{self.name}", name=f"OS {self.name}")],
                "vlan_roles": [Named(slug=f"edge-{self.name}", name=f"Edge {self.name}")],
                **changes,
            }
        )

    def vlan(self, name: str = "edge", vid: int = 101, **changes: object) -> VlanRecord:
        network = f"10.{self.net}.0/24" if vid == 101 else f"10.{self.net}.0/24".replace("10.", "11.", 1)
        host = network.removesuffix("0/24")
        return VlanRecord.model_validate(
            {
                "site": self.name,
                "name": name,
                "vid": vid,
                "role": f"edge-{self.name}",
                "description": "edge network",
                "prefixes": [Prefix(prefix=network, description="hosts")],
                "ranges": [IpRange(name="pis", start=f"{host}100/24", end=f"{host}199/24")],
                **changes,
            }
        )

    def switch(self, ports: int = 4, name: str = "tor-1") -> DeviceRecord:
        interfaces = [
            Interface(name=f"Ethernet{n}", type="1000base-t", mode="access", untagged_vlan="edge")
            for n in range(1, ports + 1)
        ]
        return self._device(name, f"switch-{self.name}", interfaces, rack="r1", position=42)

    def pi(self, number: int = 1, **changes: object) -> DeviceRecord:
        address = f"10.{self.net}.{number + 9}/24"
        high, low = map(int, self.net.split("."))
        interface = {
            "name": "eth0", "type": "1000base-t", "mac": f"02:00:{high:02X}:{low:02X}:00:{number:02X}", "mtu": 1500,
            "addresses": [address], "cable": CableTo(device="tor-1", interface=f"Ethernet{number}"), **changes,
        }  # fmt: skip
        primary = address if address in interface["addresses"] else None
        return self._device(
            f"pi-{number:02d}",
            f"box-{self.name}",
            [Interface.model_validate(interface)],
            rack="r1",
            primary_address=primary,
        )

    def _device(self, name: str, kind: str, interfaces: list[Interface], **more: object) -> DeviceRecord:
        return DeviceRecord.model_validate(
            {
                "site": self.name, "name": name, "role": f"pi-{self.name}", "manufacturer": f"acme-{self.name}", "device_type": kind,
                "platform": f"os-{self.name}", "interfaces": interfaces, **more,
            }
        )  # fmt: skip

    def make(self, driver: NetBoxDriver, pis: int = 0) -> None:
        """The site, its VLAN, its switch and some Pis in NetBox."""
        driver.sites.apply(self.site())
        driver.vlans.apply(self.vlan())
        results = driver.devices.lists.apply([self.switch(max(4, pis)), *(self.pi(n) for n in range(1, pis + 1))])
        for result in results:
            if isinstance(result, Exception):
                raise result

    def clear(self, driver: NetBoxDriver) -> None:
        """Everything of the site out of NetBox again."""
        driver.devices.lists.delete([f"{self.name}/tor-1", *(f"{self.name}/pi-{n:02d}" for n in range(1, 9))])
        driver.vlans.lists.delete([f"{self.name}/edge", f"{self.name}/control", f"{self.name}/bad"])
        driver.sites.delete(self.name)
