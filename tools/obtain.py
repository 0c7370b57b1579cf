#!/usr/bin/env python3
"""Obtain the outside programs that Pinion runs, and the Debian packages that the host needs.

For each tool of tools.toml: a program on PATH at the right version, else the vendor's release file with its recorded checksum, else
files out of a Debian package, else a Go build pinned by go.sum. What was obtained lies in $PINION_CACHE (default /var/cache/pinion),
outside the repository; $PINION_CACHE/bin has a link to every program and is what goes on PATH. Every file is checked against its
SHA-256 on each run; what is broken or half written is obtained again. Several runs may work at the same time: asking for one tool
waits for that tool only.

Exit status: 0 all fine, 1 --verify found something missing or broken, 2 something could not be had.

Examples:
  tools/obtain.py                 all tools
  tools/obtain.py kubelet etcd    these two; waits if another run is at them
  tools/obtain.py --list          what there is, from where
  tools/obtain.py --verify        only look
  tools/obtain.py debian          the packages of tools/debian-packages.txt
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
if str(TOOLS) not in sys.path:
    sys.path.insert(0, str(TOOLS))

from toolchest import hostpackages, sources  # noqa: E402 - the path above comes first
from toolchest.cache import Cache, default_root  # noqa: E402
from toolchest.obtaining import Obtainer, Result  # noqa: E402
from toolchest.process import UnavailableError  # noqa: E402
from toolchest.progress import Progress  # noqa: E402
from toolchest.recipes import RecipeError, Recipes, Tool, load  # noqa: E402

FINE, FOUND, COULD_NOT = 0, 1, 2


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    result = argparse.ArgumentParser(
        prog="tools/obtain.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("tools", nargs="*", metavar="TOOL", help="names from tools.toml, or `debian`; none: all tools")
    look = result.add_mutually_exclusive_group()
    look.add_argument("--list", action="store_true", help="show every tool: version, state, source")
    look.add_argument(
        "--verify", action="store_true", help="check the cache, change nothing; status 1 when something is amiss"
    )
    result.add_argument(
        "--json", action="store_true", help="print the result as JSON on stdout (progress goes to stderr)"
    )
    result.add_argument(
        "--cache", type=Path, default=None, help="cache root (default: $PINION_CACHE, else /var/cache/pinion)"
    )
    result.add_argument("--recipes", type=Path, default=TOOLS / "tools.toml", help="recipe file (default: %(default)s)")
    result.add_argument(
        "--packages", type=Path, default=TOOLS / "debian-packages.txt", help="package list (default: %(default)s)"
    )
    return result


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def look(tools: tuple[Tool, ...], cache: Cache, *, verify: bool, as_json: bool) -> int:
    """Report the state of each tool without changing anything; with `verify`, 1 when one is missing or broken."""
    held = cache.check_all(tools)
    entries: list[dict[str, str]] = []
    for tool in tools:
        state, source, detail = held[tool.name].reason or "ready", held[tool.name].source, held[tool.name].detail
        with contextlib.suppress(UnavailableError):
            source, detail, state = "PATH", str(sources.on_path(tool, cache)[tool.programs[0]]), "ready"
        entries.append({"name": tool.name, "version": tool.version, "state": state, "source": source, "detail": detail})
    if as_json:
        print(json.dumps({"cache": str(cache.root), "bin": str(cache.bin), "tools": entries}, indent=1))
    else:
        rows: list[tuple[str, ...]] = [("tool", "version", "state", "source", "from")]
        rows.extend((e["name"], e["version"], e["state"], e["source"] or "-", e["detail"] or "-") for e in entries)
        print(table(rows))
    return FOUND if verify and any(entry["state"] != "ready" for entry in entries) else FINE


def obtain(tools: tuple[Tool, ...], recipes: Recipes, cache: Cache, *, as_json: bool) -> int:
    """Obtain the tools and report; 2 when one could not be had."""
    with Progress(len(tools)) as progress:
        results: list[Result] = Obtainer(recipes, cache, TOOLS.parent, progress).obtain(tools)
    if as_json:
        entries = [dataclasses.asdict(result) | {"ready": result.ready} for result in results]
        print(json.dumps({"cache": str(cache.root), "bin": str(cache.bin), "tools": entries}, indent=1))
    else:
        changed = sum(result.changed for result in results)
        ready = sum(result.ready for result in results)
        print(f"tools: {ready} of {len(results)} ready, {changed} obtained now; PATH folder: {cache.bin}")
        for result in results:
            if not result.ready:
                print(f"tools: {result.name} could not be had: {result.reason}", file=sys.stderr)
    return FINE if all(result.ready for result in results) else COULD_NOT


def debian(list_file: Path, cache: Cache, *, verify: bool, as_json: bool) -> int:
    """Install the host's missing packages, or with `verify` only name them."""
    with cache.lock("debian-packages", wait=True):
        missing = hostpackages.missing(hostpackages.wanted(list_file))
        if not verify:
            hostpackages.restore_policy()
            if missing:
                print(f"packages: installing {' '.join(missing)} …", file=sys.stderr, flush=True)
                hostpackages.install(missing)
    if as_json:
        print(json.dumps({"missing": missing} if verify else {"installed": missing}))
    elif verify:
        print(f"packages: missing {' '.join(missing)}" if missing else "packages: all there")
    else:
        print(f"packages: {len(missing)} installed" if missing else "packages: all there")
    return FOUND if verify and missing else FINE


def main() -> int:
    """Run the command line."""
    for stop in (signal.SIGTERM, signal.SIGINT):
        # At once, without waiting for threads: children die with us, and the next run cleans up what lies about.
        signal.signal(stop, lambda number, _: os._exit(128 + number))
    arguments = parser().parse_args()
    cache = Cache((arguments.cache or default_root()).absolute())
    names: list[str] = arguments.tools
    try:
        if names == ["debian"]:
            return debian(arguments.packages, cache, verify=arguments.verify, as_json=arguments.json)
        recipes = load(arguments.recipes.absolute())
        tools = tuple(recipes.tool(name) for name in dict.fromkeys(names)) if names else recipes.tools
        if arguments.list or arguments.verify:
            return look(tools, cache, verify=arguments.verify, as_json=arguments.json)
        return obtain(tools, recipes, cache, as_json=arguments.json)
    except (RecipeError, UnavailableError) as error:
        print(f"obtain: {error}", file=sys.stderr)
        return COULD_NOT
    except OSError as error:
        print(f"obtain: {error} (cache: {cache.root})", file=sys.stderr)
        return COULD_NOT


if __name__ == "__main__":
    sys.exit(main())
