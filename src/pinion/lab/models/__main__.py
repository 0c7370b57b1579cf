"""The tiny model at the command line: where it lies, what it is; it is trained when it is not there yet."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pinion.lab.models import artefacts
from pinion.lab.models.corpus import collect

_EXAMPLES = """examples:
  python -m pinion.lab.models               the folder with the model's files; trains it the first time
  python -m pinion.lab.models --json        the same, with size, digests and perplexity
  python -m pinion.lab.models --collect .   what the text to learn from would be if it were pinned today"""


def main(arguments: list[str]) -> int:
    """Run the program; 0 fine, 2 the model cannot be had."""
    parser = argparse.ArgumentParser(
        prog="python -m pinion.lab.models",
        description=(__doc__ or "").splitlines()[0],
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the manifest with the folder")
    parser.add_argument(
        "--collect", type=Path, metavar="REPOSITORY", help="print the text of a repository, and train nothing"
    )
    options = parser.parse_args(arguments)
    if options.collect is not None:
        sys.stdout.write(collect(options.collect))
        return 0
    try:
        found = artefacts.obtain(quiet=False)
    except artefacts.ModelError as error:
        print(f"models: {error}", file=sys.stderr)
        return 2
    manifest = found.manifest
    if options.json:
        print(json.dumps({"folder": str(found.folder)} | manifest, indent=1))
        return 0
    judged = manifest["perplexity"]
    assert isinstance(judged, dict)
    print(f"{found.folder}")
    print(
        f"perplexity {judged['model']} on {judged['tokens']:.0f} held-out tokens "
        f"(token frequencies alone: {judged['unigram']}, chance: {judged['uniform']})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
