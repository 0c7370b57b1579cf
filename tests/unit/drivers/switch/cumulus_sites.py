"""The sites that ship with Pinion, and odd ones, as if their switches ran Cumulus Linux."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import yaml
from unit.hosts.sites import DC, LAB, REPOSITORY

from pinion.plan import Plan, plan
from pinion.site.loader import read
from pinion.site.model import Site


def renamed(value: Any) -> Any:
    """*value* with each port's name as Cumulus calls it."""
    if isinstance(value, dict):
        return {key: renamed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner) for inner in value]
    if not isinstance(value, str) or "Ethernet" not in value:
        return value
    return value.replace("/1", "").replace("Ethernet", "swp")


def _cumulus(stated: dict[str, Any], model: str) -> None:
    for switch in stated["switches"].values():
        switch |= {"platform": "nvidia-cumulus", "model": model}


def lab(stated: dict[str, Any]) -> None:
    _cumulus(stated, "SN2201")


def dc_rack_12(stated: dict[str, Any]) -> None:
    _cumulus(stated, "SN3420")


def lossy(stated: dict[str, Any]) -> None:
    dc_rack_12(stated)
    stated["traffic_classes"]["rdma"]["delivery"] = "lossy"


def one_switch(stated: dict[str, Any]) -> None:
    dc_rack_12(stated)
    del stated["switches"]["tor-2"]
    for key in ("pair", "pair_ports"):
        del stated["switches"]["tor-1"][key]
    stated["gpu_servers"]["nv-1"]["rdma"]["ports"] = {"tor-1": "swp49-56"}


def uplinks(stated: dict[str, Any]) -> None:
    dc_rack_12(stated)
    for switch in stated["switches"].values():
        switch["uplinks"] = "swp57-60"


def other_marks(stated: dict[str, Any]) -> None:
    dc_rack_12(stated)
    stated["traffic_classes"] = {
        "control": {"share": "33.4%", "dscp": 10},
        "rdma": {"share": "66.2%", "dscp": 34, "delivery": "lossless"},
        "edge_http": {"share": "0.4%", "dscp": 0},
    }


def no_rdma(stated: dict[str, Any]) -> None:
    one_switch(stated)
    del stated["gpu_servers"]["nv-1"]["rdma"]
    del stated["networks"]["gpu-rdma"]
    stated["traffic_classes"] = {"control": {"share": "70%", "dscp": 16}, "edge_http": {"share": "30%", "dscp": 0}}


def ipv6_only(stated: dict[str, Any]) -> None:
    """Two switches, and no IPv4 but for management."""
    dc_rack_12(stated)
    for network in stated["networks"].values():
        if network["purpose"] != "management":
            network["prefix"] = f"fd00:{network['vid']}::/64"
            network.pop("ranges", None)
    stated["pis"]["pi"].pop("range")


def no_classes(stated: dict[str, Any]) -> None:
    lab(stated)
    del stated["traffic_classes"]


SITES: dict[str, tuple[Any, Callable[[dict[str, Any]], None]]] = {
    "lab": (LAB, lab),
    "dc-rack-12": (DC, dc_rack_12),
    "dc-rack-12, lossy": (DC, lossy),
    "dc-rack-12, one switch": (DC, one_switch),
    "dc-rack-12, uplinks": (DC, uplinks),
    "dc-rack-12, other marks and shares": (DC, other_marks),
    "dc-rack-12, no RDMA": (DC, no_rdma),
    "dc-rack-12, IPv6 only": (DC, ipv6_only),
    "lab, no classes": (LAB, no_classes),
}


@cache
def loaded(name: str) -> tuple[Site, Plan]:
    """The site *name* of `SITES`, and its plan."""
    path, change = SITES[name]
    stated = renamed(yaml.safe_load(path.read_text(encoding="utf-8")))
    change(stated)
    site, problems = read(yaml.safe_dump(stated).encode(), "site.yml", charts=REPOSITORY / "charts")
    assert site is not None, problems
    return site, plan(site)
