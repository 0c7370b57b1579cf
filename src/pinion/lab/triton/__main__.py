"""Serve the small model by Triton on loopback, until Ctrl-C; the layer and the model are made when they are not there yet."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.layers import LayerStore
from pinion.lab.models import artefacts
from pinion.lab.triton.recipes import TRITON
from pinion.lab.triton.repository import write_repository
from pinion.lab.triton.standalone import standalone

_EXAMPLES = """examples:
  python -m pinion.lab.triton                          obtain Triton and the model, serve it on port 8000
  python -m pinion.lab.triton --port 9000 --threads 2  elsewhere, with two threads an answer
  python -m pinion.lab.triton --write models           only write the model repository
  python -m pinion.lab.triton --obtain                 only have the layer with Triton"""


def main(arguments: list[str]) -> int:
    """Run the program; 0 fine, 2 it cannot be served."""
    parser = argparse.ArgumentParser(
        prog="python -m pinion.lab.triton",
        description=(__doc__ or "").splitlines()[0],
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    port, few = _up_to(65535), _up_to(64)
    parser.add_argument("--port", type=port, default=8000, help="port on loopback (default: %(default)s)")
    parser.add_argument("--instances", type=few, default=1, help="answers at a time (default: %(default)s)")
    parser.add_argument("--threads", type=few, default=1, help="threads of one answer (default: %(default)s)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write the model repository there, and serve nothing"
    )
    only.add_argument("--obtain", action="store_true", help="obtain Triton, and serve nothing")
    options = parser.parse_args(arguments)
    try:
        if options.write is not None:
            print(_written(options.write, options))
            return 0
        layers = LayerStore(say=lambda name, text: print(f"layer {name}: {text}", file=sys.stderr)).ensure(TRITON)
        if options.obtain:
            print(layers[0])
            return 0
        with tempfile.TemporaryDirectory(prefix="pinion-models-") as folder:
            placed = _written(Path(folder, "models"), options)
            with standalone(placed.parent, port=options.port, layers=layers) as triton:
                print(f"triton: {placed.name} on {triton.url}, log in {triton.log}", flush=True)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                with contextlib.suppress(KeyboardInterrupt):
                    raise LabError(f"Triton ended by itself ({triton.process.wait()})")
    except (LabError, artefacts.ModelError) as error:
        print(f"triton: {error}", file=sys.stderr)
        return 2
    return 0


def _up_to(most: int) -> Callable[[str], int]:
    """What an option takes that is a number from 1 to *most*."""

    def number(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is no number from 1 to {most}")
        return int(text)

    return number


def _written(folder: Path, options: argparse.Namespace) -> Path:
    return write_repository(folder, artefacts.obtain(quiet=False), instances=options.instances, threads=options.threads)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
