"""NVUE text against an opinion that is not ours: NVIDIA's published schema of each release, as the models of `nvueschema`."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from unit.drivers.switch.cumulus_sites import SITES, loaded

from pinion.plan.switch_state import switch_state
from pinion.render.cumulus import cumulus_config

#: From 5.15 on, addresses stand below `ipv4` and `ipv6` instead of `ip`.
RELEASES = ("5_9", "5_10", "5_11", "5_12", "5_13", "5_14")


def validate(release: str, configuration: dict[str, Any]) -> None:
    """Raises `ValidationError` for what this *release* does not know."""
    model = importlib.import_module(f"nvueschema.models.v{release}").NvueConfig
    model.model_validate(configuration, extra="forbid")


def written(name: str) -> list[dict[str, Any]]:
    """The configuration of each switch of the site *name*."""
    return [yaml.safe_load(cumulus_config(switch_state(switch)))[0]["set"] for switch in loaded(name)[1].switches]


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("release", RELEASES)
def test_nvidias_schema_takes_it(name: str, release: str) -> None:
    for configuration in written(name):
        validate(release, configuration)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("qos", "mapping", "pinion-lossy", "trust"), "dscp"),
        (("qos", "egress-scheduler", "pinion-lossy", "traffic-class", "3", "bw-percent"), 101),
        (("interface", "swp1", "link", "mtu"), 9217),
        (("interface", "swp1", "bridge", "domain", "br_default", "access"), 4095),
        (("qos", "pfc-watchdog", "timeout"), 3),
    ],
)
def test_the_opinion_is_one(path: tuple[str, ...], value: object) -> None:
    """A value that NVUE does not take, or a key that it does not have, is refused."""
    configuration = written("dc-rack-12")[0]
    inner = configuration
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ValidationError):
        validate("5_11", configuration)


def test_releases_that_moved_addresses_are_not_claimed() -> None:
    with pytest.raises(ValidationError, match=r"interface\.vlan100\.ip"):
        validate("5_15", written("lab")[0])
