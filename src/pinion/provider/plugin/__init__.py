"""Plumbing for a Pulumi provider plugin in Python, with no knowledge of what it provides.

A provider is a `Plugin` with some `ResourceKind`s; `serve` makes a program of it that the engine can start.
"""

from pinion.provider.plugin.differences import Difference, Kind, differences, path_steps, property_path
from pinion.provider.plugin.errors import (
    CancelledError,
    DeniedError,
    InvalidError,
    NotFoundError,
    PartialError,
    PluginError,
    RefusedError,
    UnreachableError,
    UnsupportedError,
)
from pinion.provider.plugin.interface import Call, Checked, Created, Failure, Found, Plugin, ResourceKind
from pinion.provider.plugin.server import serve, start
from pinion.provider.plugin.values import (
    UNKNOWN,
    Properties,
    Secret,
    Unknown,
    Value,
    has_secret,
    has_unknown,
    mark_like,
    plain,
    plain_properties,
)

__all__ = [
    "UNKNOWN",
    "Call",
    "CancelledError",
    "Checked",
    "Created",
    "DeniedError",
    "Difference",
    "Failure",
    "Found",
    "InvalidError",
    "Kind",
    "NotFoundError",
    "PartialError",
    "Plugin",
    "PluginError",
    "Properties",
    "RefusedError",
    "ResourceKind",
    "Secret",
    "Unknown",
    "UnreachableError",
    "UnsupportedError",
    "Value",
    "differences",
    "has_secret",
    "has_unknown",
    "mark_like",
    "path_steps",
    "plain",
    "plain_properties",
    "property_path",
    "serve",
    "start",
]
