"""Serve a model of ours by ONNX Runtime over HTTP: onnx-model-server --model FILE --host ADDRESS --port PORT."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from aiohttp import web

from pinion.services.onnx_model_server.engine import Engine, ModelFileError
from pinion.services.onnx_model_server.server import Server

_EXAMPLE = "example: onnx-model-server --model /var/lib/pinion/models/assistant/current/model.onnx --host 192.0.2.10 --port 8080"


def main(arguments: list[str]) -> int:
    """Run the program; 2 when the model cannot be served."""
    parser = argparse.ArgumentParser(
        prog="onnx-model-server", description=(__doc__ or "").splitlines()[0], epilog=_EXAMPLE
    )
    parser.add_argument("--model", type=Path, required=True, help="the model's ONNX file")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of one answer (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=1, help="answers at a time (default: %(default)s)")
    parser.add_argument(
        "--queue", type=int, default=32, help="requests that may wait for a slot (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        engine = Engine(options.model, options.threads)
    except ModelFileError as error:
        print(f"onnx-model-server: {error}", file=sys.stderr)
        return 2
    server = Server(engine, options.slots, options.queue)
    print(f"onnx-model-server: {engine.name} on http://{options.host}:{options.port}", flush=True)
    web.run_app(server.application(), host=options.host, port=options.port, print=None, handler_cancellation=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
