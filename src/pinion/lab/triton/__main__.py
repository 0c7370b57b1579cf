"""Serve the small model by Triton on loopback, until Ctrl-C; the layer and the model are made when they are not there yet."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
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
    for name, default, most, meaning in (
        ("port", 8000, 65535, "port on loopback"),
        ("instances", 1, 64, "answers at a time"),
        ("threads", 1, 256, "threads of one answer"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            choices=range(1, most + 1),
            metavar="N",
            default=default,
            help=f"{meaning} (default: %(default)s)",
        )
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write the model repository there, and serve nothing"
    )
    only.add_argument("--obtain", action="store_true", help="obtain Triton, and serve nothing")
    options = parser.parse_args(arguments)
    try:
        if options.write is None:
            layers = LayerStore(say=lambda name, text: print(f"layer {name}: {text}", file=sys.stderr)).ensure(TRITON)
        if options.obtain:
            print(layers[0])
            return 0
        model = artefacts.obtain(quiet=False)
        if options.write is not None:
            print(write_repository(options.write, model, instances=options.instances, threads=options.threads))
            return 0
        with tempfile.TemporaryDirectory(prefix="pinion-models-") as folder:
            placed = write_repository(
                Path(folder, "models"), model, instances=options.instances, threads=options.threads
            )
            with standalone(placed.parent, port=options.port, layers=layers) as triton:
                print(f"triton: {placed.name} on {triton.url}, log in {triton.log}", flush=True)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                with contextlib.suppress(KeyboardInterrupt):
                    raise LabError(f"Triton ended by itself ({triton.process.wait()})")
    except (LabError, artefacts.ModelError) as error:
        print(f"triton: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
