"""The cache of layers: built once, content-keyed, read-only, shared by every instance of the machine.

Invariants: a layer's folder exists only whole (built aside, then renamed); two builders of one layer never run at once, across processes; a
build that was killed leaves no process and no mount, and its remains are cleared by the next.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pinion.lab import apt
from pinion.lab.errors import LabError
from pinion.lab.mounts import mounts
from pinion.lab.recipes import BASE, NODE, RELEASE, SWITCH, Bind, LayerRecipe
from pinion.lab.root_builder import failure, root_builder
from pinion.lab.state import cache_root, lock, read_json, write_json

__all__ = ["BASE", "NODE", "SWITCH", "Bind", "LayerRecipe", "LayerStore"]

#: A layer that no machine has mounted or asked for in this time may be pruned.
KEEP_SECONDS = 14 * 24 * 3600.0
#: Time for one build; the longest known (the NetBox database) takes 9 minutes on two cores.
_BUILD_TIMEOUT = 3600.0


class LayerStore:
    """Layers under ``<cache>/layers``. *say* gets progress lines: layer name and text."""

    def __init__(self, cache: Path | None = None, say: Callable[[str, str], None] = lambda _name, _text: None) -> None:
        self.root = (cache or cache_root()) / "layers"
        self._say = say
        self._builders: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()

    def folder(self, recipe: LayerRecipe) -> Path:
        """Where the layer of *recipe* is, or will be."""
        return self.root / recipe.folder

    def present(self, recipe: LayerRecipe) -> bool:
        """Whether the layer is there and whole."""
        folder = self.folder(recipe)
        stamp = read_json(folder / "stamp.json")
        if stamp.get("key") != recipe.key:
            return False
        try:
            found = sorted(entry.name for entry in (folder / "fs").iterdir())
        except OSError:
            return False
        return found == stamp.get("entries")

    def missing(self, recipe: LayerRecipe) -> tuple[LayerRecipe, ...]:
        """The layers of the chain that must be built, ancestors first."""
        return tuple(layer for layer in reversed(recipe.chain) if not self.present(layer))

    def lower(self, recipe: LayerRecipe) -> tuple[Path, ...]:
        """The overlay's lower folders, topmost first."""
        return tuple(self.folder(layer) / "fs" for layer in recipe.chain)

    def ensure(self, recipe: LayerRecipe) -> tuple[Path, ...]:
        """Have the layer and its ancestors; returns `lower`. Waits for whoever builds it already. `LabError` when a build fails."""
        if recipe.parent is not None:
            self.ensure(recipe.parent)
        if not self.present(recipe):
            self.root.mkdir(parents=True, exist_ok=True)

            def waiting(seconds: float) -> None:
                if int(seconds) % 10 == 1:
                    self._say(recipe.name, f"waits for another build of this layer ({seconds:.0f} s)")

            with lock(self.root / f".{recipe.folder}.lock", timeout=_BUILD_TIMEOUT, waiting=waiting) as held:
                if not self.present(recipe):
                    self._build(recipe, held)
        # the time of use, for `prune`
        os.utime(self.folder(recipe) / "stamp.json")
        return self.lower(recipe)

    def _build(self, recipe: LayerRecipe, held: int) -> None:
        """Build aside and rename. The builder inherits the lock: as long as any of its processes lives, nobody else builds."""
        self._say(recipe.name, f"building, about {recipe.minutes:g} min")
        started = time.monotonic()
        target = self.root / f".building-{recipe.folder}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        log = self.root / f"{recipe.folder}.log"
        with tempfile.TemporaryDirectory(prefix="pinion-layer-") as scratch:
            _write_input(recipe, Path(scratch))
            self._run_builder(recipe, target, Path(scratch), log, held)
        entries = sorted(entry.name for entry in (target / "fs").iterdir())
        write_json(target / "stamp.json", {"key": recipe.key, "name": recipe.name, "entries": list(entries)})
        final = self.folder(recipe)
        if final.exists():
            broken = self.root / f".broken-{recipe.folder}"
            shutil.rmtree(broken, ignore_errors=True)
            final.rename(broken)
            shutil.rmtree(broken, ignore_errors=True)
        target.rename(final)
        self._say(recipe.name, f"built in {time.monotonic() - started:.0f} s")

    def _run_builder(self, recipe: LayerRecipe, target: Path, scratch: Path, log: Path, held: int) -> None:
        """Run the build script in namespaces of its own; it is killed when this thread ends."""
        environment = {
            **os.environ,
            "TARGET": str(target),
            "LOWER": ":".join(map(str, self.lower(recipe.parent))) if recipe.parent else "",
            "INPUT": str(scratch),
            "RELEASE": RELEASE,
        }
        with root_builder("pinion.lab", "build-layer.sh", environment, log, held) as builder:
            with self._guard:
                self._builders.add(builder)
            try:
                status = builder.wait(timeout=_BUILD_TIMEOUT)
            except subprocess.TimeoutExpired:
                raise LabError(f"layer {recipe.name}: not built after {_BUILD_TIMEOUT:.0f} s; see {log}") from None
            finally:
                with self._guard:
                    self._builders.discard(builder)
        if status:
            raise LabError(f"layer {recipe.name}: {failure(status, log)}")

    def stop_builders(self) -> None:
        """Kill the builds that this process has under way."""
        with self._guard:
            for builder in self._builders:
                builder.kill()

    def prune(self, now: float | None = None) -> list[Path]:
        """Remove layers that nothing has mounted or asked for in `KEEP_SECONDS`; returns what was removed."""
        now = time.time() if now is None else now
        used = "\0".join(mount.options for mount in mounts() if mount.kind == "overlay")
        removed = []
        for stamp in sorted(self.root.glob("*/stamp.json")):
            folder = stamp.parent
            if now - stamp.stat().st_mtime > KEEP_SECONDS and f"{folder}/" not in used:
                # the stamp goes first: without it the rest counts as absent
                stamp.unlink()
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
        return removed


def _write_input(recipe: LayerRecipe, scratch: Path) -> None:
    """The build script's input folder."""
    options = apt.machine_options()
    (scratch / "packages").write_text("".join(f"{package}\n" for package in sorted(recipe.packages)))
    (scratch / "script").write_text(recipe.script)
    (scratch / "sources").write_text(apt.machine_mirrors().sources())
    (scratch / "apt.conf").write_text(apt.as_configuration(options))
    (scratch / "options").write_text("".join(f'{key} "{value}"\n' for key, value in sorted(options.items())))
    (scratch / "binds").write_text(
        "".join(f"{bind.source}\t{bind.target}\t{'ro' if bind.read_only else 'rw'}\n" for bind in recipe.binds)
    )
    passed = {
        name: value
        for name, value in os.environ.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in (*recipe.env, *_PROXIES))
    }
    # certificates are given by a path inside the build
    kept = {name: value for name, value in passed.items() if name not in {"PIP_CERT", "SSL_CERT_FILE"}}
    (scratch / "environment").write_text("".join(f"{name}={value}\0" for name, value in kept.items()))
    for path, text in recipe.files.items():
        target = scratch / "files" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (scratch / "recipe.json").write_text(json.dumps({"name": recipe.name, "key": recipe.key}))


_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
