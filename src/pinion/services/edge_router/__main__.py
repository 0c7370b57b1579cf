"""Route the requests of a Pi: edge-router SETTINGS."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from aiohttp import web

from pinion.services.edge_router.router import Router
from pinion.services.edge_router.settings import SettingsError, read


def main(arguments: list[str]) -> int:
    """Run the program; 2 when its settings cannot be used."""
    parser = argparse.ArgumentParser(
        prog="edge-router",
        description=(__doc__ or "").splitlines()[0],
        epilog="example: edge-router /etc/pinion/edge-router/settings.json",
    )
    parser.add_argument(
        "settings", type=Path, help="a JSON file; pinion.services.edge_router.settings says what is in it"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        settings = read(options.settings)
    except SettingsError as error:
        print(f"edge-router: {error}", file=sys.stderr)
        return 2
    print(f"edge-router: http://{settings.host}:{settings.port}", flush=True)
    web.run_app(
        Router(settings).application(), host=settings.host, port=settings.port, print=None, handler_cancellation=True
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
