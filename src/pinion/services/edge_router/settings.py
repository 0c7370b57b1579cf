"""What a router is told, by one JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pinion.routing import PiModel, RoutingPolicy


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine at *url* serves *model*, as clients name it, with so many *slots*; *speed* is the model's on this board."""

    url: str
    model: str
    slots: int
    speed: PiModel


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The pool at *url*, which speaks KServe's protocol. *models* have each the context in tokens; *price* is that of 1,000 tokens."""

    url: str
    models: dict[str, int]
    on_site: bool = True
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything.

    Attributes:
        host, port: where clients ask.
        planned: the policy that follows from the site file; it holds until a signed one is given.
        policy: where a signed policy is placed; watched, and taken when it is good and newer than the last.
        kept: where the last good one is kept.
        key: who signs policies: an Ed25519 public key, 32 bytes in base64.
        queue: how many requests may wait for a slot of the engine.
    """

    host: str
    port: int
    engine: EngineSettings
    planned: RoutingPolicy
    policy: Path
    kept: Path
    key: str
    pool: PoolSettings | None = None
    queue: int = 32
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic reads it from the class


class SettingsError(Exception):
    """Why a file of settings cannot be used: the file, the key and what is wrong with it."""


_SETTINGS: TypeAdapter[Settings] = TypeAdapter(Settings)


def read(file: Path) -> Settings:
    """The settings in *file*. Raises `SettingsError`."""
    try:
        return _SETTINGS.validate_json(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from None
    except ValidationError as wrong:
        told = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg']}" for one in wrong.errors(include_url=False)
        )
        raise SettingsError(f"{file}: {told}") from None
