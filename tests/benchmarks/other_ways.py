"""The ways that `netbox_objects` compares with: Pulumi dynamic providers, a bulk script, an engine whose resources do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import requests

from pinion.drivers.netbox import DeviceRecord

T = TypeVar("T")
LIST_SIZE: Final = 100  # longer lists gain no speed
_CLEARED: Final = (
    "dcim/cables", "ipam/ip-addresses", "dcim/devices", "ipam/prefixes", "ipam/ip-ranges", "ipam/vlans", "ipam/vlan-groups",
    "dcim/racks", "dcim/sites", "dcim/regions", "dcim/device-types", "dcim/manufacturers", "dcim/device-roles", "ipam/roles",
)  # fmt: skip

#: One resource an object. Lookups of what is there already are done once, by the program: generous to this way. So is `serialized`:
#: Pulumi's own (3.220) leaves its mark on the pickler each time, and ends in a RecursionError with some 230 resources.
DYNAMIC_PROGRAM: Final = '''
import json
import os
import pickle
from pathlib import Path

import pulumi
import pynetbox
from pulumi.dynamic import CreateResult, Resource, ResourceProvider, dynamic

serialize = dynamic.serialize_provider
untouched = pickle._Pickler._batch_setitems, pickle._Pickler.save_dict


def serialized(provider):
    pickle._Pickler._batch_setitems, pickle._Pickler.save_dict = untouched
    return serialize(provider)


dynamic.serialize_provider = serialized


def connect():
    import os

    import pynetbox

    return pynetbox.api(os.environ["BENCH_NETBOX_URL"], token=os.environ["BENCH_NETBOX_TOKEN"])


class Create(ResourceProvider):
    """POST to *app*.*endpoint*."""

    def create(self, props):
        import json

        ours = ("app", "endpoint", "fixed", "__provider")
        body = json.loads(props["fixed"]) | {k: int(v) for k, v in props.items() if k not in ours and v is not None}
        far = body.pop("far", None)
        near = body.pop("near", None)
        if near is not None:
            body |= {
                "a_terminations": [{"object_type": "dcim.interface", "object_id": near}],
                "b_terminations": [{"object_type": "dcim.interface", "object_id": far}],
            }
        made = getattr(getattr(connect(), props["app"]), props["endpoint"]).create(**body)
        return CreateResult(id_=str(made.id), outs=props)


class Primary(ResourceProvider):
    """PATCH a device's primary address."""

    def create(self, props):
        device = connect().dcim.devices.get(int(props["device"]))
        device.update({"primary_ip4": int(props["address"])})
        return CreateResult(id_=f"primary-{props['device']}", outs=props)


class Thing(Resource):
    def __init__(self, name, app, endpoint, fixed, opts=None, **references):
        super().__init__(Create(), name, {"app": app, "endpoint": endpoint, "fixed": json.dumps(fixed), **references}, opts)


class PrimaryOf(Resource):
    def __init__(self, name, device, address):
        super().__init__(Primary(), name, {"device": device, "address": address})


api = connect()
site = api.dcim.sites.get(slug="bench").id
rack = api.dcim.racks.get(name="r1", site_id=site).id
role = api.dcim.device_roles.get(slug="host").id
kind = api.dcim.device_types.get(slug="host").id
ports = {(port.device.name, port.name): port.id for port in api.dcim.interfaces.filter(name__isw="Ethernet")}
for one in json.loads(Path(__file__).with_name("wishes.json").read_text())["devices"]:
    name, port = one["name"], one["interfaces"][0]
    fixed = {"name": name, "site": site, "rack": rack, "role": role, "device_type": kind, "status": "active"}
    device = Thing(name, "dcim", "devices", fixed)
    interface = Thing(f"{name}-eth0", "dcim", "interfaces", {"name": "eth0", "type": port["type"]}, device=device.id)
    address = Thing(
        f"{name}-address",
        "ipam",
        "ip_addresses",
        {"address": port["addresses"][0], "assigned_object_type": "dcim.interface"},
        assigned_object_id=interface.id,
    )
    far = ports[port["cable"]["device"], port["cable"]["interface"]]
    Thing(f"{name}-cable", "dcim", "cables", {"far": far}, near=interface.id)
    PrimaryOf(f"{name}-primary", device.id, address.id)
'''

NOOP_PROGRAM: Final = """
import json
from pathlib import Path

import pulumi


class Nothing(pulumi.CustomResource):
    def __init__(self, name, properties):
        super().__init__("noop:index:Nothing", name, properties)


for one in json.loads(Path(__file__).with_name("wishes.json").read_text())["devices"]:
    Nothing(one["name"], {"name": one["name"], "interfaces": {"eth0": one["interfaces"][0]}})
"""

NOOP_PROVIDER: Final = """
from pinion.provider.plugin import Checked, Created, Found, Plugin, ResourceKind, serve


class Nothing(ResourceKind):
    def check(self, call, olds, news):
        return Checked(news)

    def create(self, call, news, *, preview):
        return Created(call.name, news)

    def read(self, call, resource_id, inputs, olds):
        return Found(resource_id, inputs, olds)

    def update(self, call, resource_id, old_inputs, olds, news, *, preview):
        return news

    def delete(self, call, resource_id, old_inputs, olds):
        pass


class Noop(Plugin):
    name = "noop"
    version = "1.0.0"

    def kind(self, token):
        return Nothing()


raise SystemExit(serve(Noop()))
"""


class Raw:
    """NetBox's API with lists, without anything of ours."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/api"
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {token}" if token.startswith("nbt_") else f"Token {token}"

    def all(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Every record of a list."""
        found: list[dict[str, Any]] = []
        while True:
            page = self._send("GET", path, params={"limit": "1000", "offset": str(len(found)), "brief": "1", **query})
            found += page["results"]
            if not page["next"]:
                return found

    def send(self, method: str, path: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """POST, PATCH or DELETE in lists of `LIST_SIZE`."""
        return [record for part in _parts(bodies, LIST_SIZE) for record in self._send(method, path, json=part) or []]

    def _send(self, method: str, path: str, **arguments: Any) -> Any:
        answer = self._session.request(method, f"{self._url}/{path}/", timeout=600, **arguments)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def bulk(url: str, token: str, devices: Sequence[DeviceRecord]) -> None:
    """All of *devices* in lists: the floor."""
    raw = Raw(url, token)
    site = raw.all("dcim/sites", slug="bench")[0]["id"]
    rack = raw.all("dcim/racks", name="r1")[0]["id"]
    role = raw.all("dcim/device-roles", slug="host")[0]["id"]
    kind = raw.all("dcim/device-types", slug="host")[0]["id"]
    ports = {(port["device"]["name"], port["name"]): port["id"] for port in raw.all("dcim/interfaces")}
    common = {"site": site, "rack": rack, "role": role, "device_type": kind, "status": "active"}
    made = raw.send("POST", "dcim/devices", [{**common, "name": one.name} for one in devices])
    numbers = [record["id"] for record in made]
    faces = raw.send("POST", "dcim/interfaces", [{"device": n, "name": "eth0", "type": "1000base-t"} for n in numbers])
    assigned = [{"assigned_object_type": "dcim.interface", "assigned_object_id": face["id"]} for face in faces]
    addresses = raw.send(
        "POST",
        "ipam/ip-addresses",
        [{"address": one.interfaces[0].addresses[0], **end} for one, end in zip(devices, assigned, strict=True)],
    )
    cables = []
    for one, face in zip(devices, faces, strict=True):
        far = one.interfaces[0].cable
        assert far is not None
        near = {"object_type": "dcim.interface", "object_id": face["id"]}
        other = {"object_type": "dcim.interface", "object_id": ports[far.device, far.interface]}
        cables.append({"a_terminations": [near], "b_terminations": [other]})
    raw.send("POST", "dcim/cables", cables)
    raw.send(
        "PATCH",
        "dcim/devices",
        [{"id": n, "primary_ip4": address["id"]} for n, address in zip(numbers, addresses, strict=True)],
    )


def clear(url: str, token: str) -> None:
    """Delete everything that any of the ways makes."""
    raw = Raw(url, token)
    for path in _CLEARED:
        raw.send("DELETE", path, [{"id": record["id"]} for record in raw.all(path)])


def _parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
