"""The server's schema: what is read of it, what is kept of it, and that nothing is deleted without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.netbox_schema import object_types, openapi
from engine.netbox_server import TOKEN, Server, serving
from netbox_contract.samples import Sample

from pinion.drivers.netbox import NetBoxDriver, NetBoxError
from pinion.drivers.netbox.server.http_store import HttpStore
from pinion.drivers.netbox.server.schema import EndPoint, Reference, read


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("PINION_CACHE", str(tmp_path / "cache"))
    with serving() as one:
        yield one


@pytest.fixture
def driver(server: Server) -> Iterator[NetBoxDriver]:
    one = NetBoxDriver(server.url, TOKEN, total_time=1.0)
    yield one
    one.close()


def _end_points(server: Server) -> tuple[EndPoint, ...]:
    store = HttpStore(server.url, TOKEN)
    try:
        return store.end_points()
    finally:
        store.close()


def test_what_is_read_is_what_the_server_has(server: Server) -> None:
    assert sorted(_end_points(server), key=_path) == sorted(server.store.end_points(), key=_path)


def _path(end: EndPoint) -> str:
    return end.path


def test_the_document_is_read_once_for_a_release_and_its_plugins(server: Server, tmp_path: Path) -> None:
    first = _end_points(server)
    assert _end_points(server) == first
    assert server.asked["schema"] == 1
    (file,) = (tmp_path / "cache").iterdir()
    file.write_text("[{")  # a full disk, say
    assert _end_points(server) == first
    assert server.asked["schema"] == 2
    server.instead["status"] = (200, {"netbox-version": "4.7.3", "plugins": {"gauges": "2.0"}})
    _end_points(server)
    assert server.asked["schema"] == 3, "another plugin may have other kinds"


def test_without_a_folder_to_keep_it_in_it_is_read_each_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PINION_CACHE", str(tmp_path / "file"))
    assert _end_points(server) == _end_points(server)
    assert server.asked["schema"] == 2


@pytest.mark.parametrize(
    ("path", "status", "body", "told"),
    [
        ("schema", 500, {"detail": "broken plugin"}, "broken plugin"),
        ("schema", 404, {"detail": "Not found."}, "no such page"),
        ("schema", 200, {"openapi": "3.0.3", "paths": {}}, "says nothing of"),
        ("core/object-types", 403, {"detail": "You do not have permission"}, "lacks the permission"),
    ],
)
def test_a_schema_that_can_not_be_read_is_told_and_nothing_is_deleted(
    driver: NetBoxDriver, server: Server, path: str, status: int, body: object, told: str
) -> None:
    sample = Sample.new()
    sample.make(driver, pis=1)
    server.instead[path] = (status, body)
    before = server.calls["DELETE"]
    with pytest.raises(NetBoxError, match=told):
        driver.devices.delete(sample.pi().key)
    assert server.calls["DELETE"] == before
    server.instead.clear()
    assert driver.devices.delete(sample.pi().key).left == ()


def test_a_field_that_names_something_unknown_may_name_anything(server: Server) -> None:
    """A plugin may show an object in a way of its own; its list is read whole then, and each record looked at."""
    ends = server.store.end_points()
    document = openapi(ends)
    document["components"]["schemas"]["Gauge"]["properties"] = {
        "thing": {"$ref": "#/components/schemas/SomethingOfIts"},
        "device": {"type": "integer"},
        "level": {"type": "integer"},
        "unit": {"$ref": "#/components/schemas/Choice"},
    }
    document["components"]["schemas"] |= {
        "SomethingOfIts": {"properties": {"id": {"type": "integer"}}},
        "Choice": {"properties": {"value": {"type": "string"}}},
    }
    lists = {str(one["rest_api_endpoint"]): one for one in object_types(ends) if one["rest_api_endpoint"]}
    (gauge,) = [one for one in read(document, lists) if one.content_type == "pinion_gauges.gauge"]
    assert set(gauge.references) == {
        Reference("thing", (), False, None, False),
        Reference("device", ("dcim.device",), False, "device_id", False),
    }
