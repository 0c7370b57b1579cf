"""Gets the asked-for tools: what is quick side by side, Go builds one after the other (each uses all cores by itself)."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from toolchest import sources
from toolchest.cache import Cache
from toolchest.download import Downloads
from toolchest.golang import Go
from toolchest.process import UnavailableError
from toolchest.progress import Progress, clock
from toolchest.recipes import Recipes, Tool

#: Downloads and unpackings at the same time.
QUICK_JOBS = 4
#: The cores that the recipes' `minutes` were measured with.
ESTIMATE_CORES = 2
#: Seconds between looks at a tool that somebody else is obtaining.
POLL = 0.5


@dataclass(frozen=True)
class Result:
    """What became of one tool. `source` is PATH, archive, debian, suite or go; empty when it could not be had."""

    name: str
    version: str
    source: str
    detail: str
    path: str
    changed: bool
    seconds: float
    reason: str

    @property
    def ready(self) -> bool:
        """Tell whether the tool can be used."""
        return bool(self.source)


class Obtainer:
    """Obtains tools of one recipe file into one cache."""

    def __init__(self, recipes: Recipes, cache: Cache, repository: Path, progress: Progress) -> None:
        self._recipes, self._cache, self._progress = recipes, cache, progress
        self._downloads = Downloads(cache.downloads)
        self._go = Go(recipes, cache, self._downloads, repository)
        self._reasons: dict[str, list[str]] = {}
        self._tried: set[str] = set()
        self._guard = threading.Lock()

    def obtain(self, tools: tuple[Tool, ...]) -> list[Result]:
        """Bring every tool to the ready state; a result each, in the order given. Tools that fail don't stop the others."""
        results: dict[str, Result] = {}
        to_build: list[Tool] = []
        with ThreadPoolExecutor(max_workers=QUICK_JOBS) as pool:
            futures = {pool.submit(self._quick, tool): tool for tool in tools}
            for future in as_completed(futures):
                tool, result = futures[future], future.result()
                if result is None:
                    to_build.append(tool)
                else:
                    results[tool.name] = result
        to_build.sort(key=tools.index)
        for tool in to_build:
            self._progress.queued(tool.name, self._estimate(tool))
        while to_build:
            # A tool that another run is at comes later: there may be something for us to do meanwhile.
            for tool in list(to_build):
                built = self._build(tool, wait=len(to_build) == 1)
                if built is not None:
                    results[tool.name] = built
                    to_build.remove(tool)
            if to_build:
                time.sleep(POLL)
        self._clean_up()
        return [results[tool.name] for tool in tools]

    def _estimate(self, tool: Tool) -> float:
        """Return the seconds that a Go build takes at most, by experience: the recipe's figure for this many cores, or longer if it
        was longer here. With a warm build cache it is far quicker.
        """
        by_recipe = tool.minutes * 60 * ESTIMATE_CORES / max(os.cpu_count() or 1, 1)
        return max(self._cache.build_seconds(tool) or 0.0, by_recipe)

    def _note(self, tool: Tool, source: str, error: Exception) -> None:
        with self._guard:
            self._reasons.setdefault(tool.name, []).append(f"{source}: {error}")
        if "REFUSED" in str(error):
            self._progress.say(f"{tool.name}: {error}")

    def _quick(self, tool: Tool) -> Result | None:
        """Try all but the Go build. None: a build is the way, or another run is at it."""
        started = time.monotonic()
        try:
            found = sources.on_path(tool, self._cache)
        except UnavailableError as error:
            self._note(tool, "PATH", error)
        else:
            self._cache.link(found)
            return self._ready(tool, "PATH", str(found[tool.programs[0]]), started, changed=False)
        stored = self._stored(tool, started)
        if stored:
            return stored
        with self._cache.lock(tool.name, wait=False) as mine:
            if not mine:
                return None
            return self._fill_quickly(tool, started)

    def _fill_quickly(self, tool: Tool, started: float) -> Result | None:
        for source in ("archive", "debian", "suite"):
            result = self._fill(tool, source, started)
            if result:
                return result
        self._tried.add(tool.name)
        return None

    def _stored(self, tool: Tool, started: float) -> Result | None:
        held = self._cache.check(tool)
        if held.reason:
            if held.reason != "not obtained yet":
                self._progress.say(f"{tool.name}: {held.reason}; obtaining it again")
            return None
        self._link_place(tool)
        return self._ready(tool, held.source, held.detail, started, changed=False)

    def _link_place(self, tool: Tool) -> None:
        self._cache.link({program: self._cache.place(tool) / "bin" / program for program in tool.programs})

    def _fill(self, tool: Tool, source: str, started: float) -> Result | None:
        """Try one source: into a staging folder, probe, publish. The caller holds the tool's lock."""
        estimate = self._estimate(tool) if source == "go" else 0.0
        if source == "go":
            self._progress.stage(tool.name, "getting the Go toolchain")
            try:
                self._go.command()
            except UnavailableError as error:
                self._note(tool, source, error)
                return None
        self._progress.stage(tool.name, {"go": "building with Go"}.get(source, source), estimate)
        self._cache.note_stage(tool.name, source, estimate)
        begun = time.monotonic()
        with self._cache.staging(tool) as staged:
            try:
                target = staged / "bin"
                if source == "archive":
                    detail = sources.from_archive(tool, self._downloads, target)
                elif source == "debian":
                    detail = sources.from_debian(tool, self._cache, target)
                elif source == "suite":
                    detail = sources.from_suite(tool, target)
                else:
                    detail = sources.from_go(tool, self._go, target)
                for program in tool.programs:
                    (target / program).chmod(0o755)
                sources.check_version(tool, target / tool.probe[0])
                self._cache.publish(tool, staged, source, detail, time.monotonic() - begun)
            except (UnavailableError, OSError) as error:
                self._note(tool, source, error)
                return None
        if source == "go":
            self._cache.remember_build(tool, time.monotonic() - begun)
        self._link_place(tool)
        return self._ready(tool, source, detail, started, changed=True)

    def _build(self, tool: Tool, *, wait: bool) -> Result | None:
        """Build with Go. None: another run holds this tool now."""
        started = time.monotonic()
        with self._cache.lock(tool.name, wait=False) as mine:
            if not mine:
                if wait:
                    self._progress.stage(tool.name, "waiting for another run that obtains it")
                    time.sleep(POLL)
                return None
            stored = self._stored(tool, started)
            if stored:
                return stored
            if tool.name not in self._tried:
                # Another run held it while we went through the quick ways, and ended without the tool.
                quick = self._fill_quickly(tool, started)
                if quick:
                    return quick
            if not tool.go:
                return self._failed(tool, started)
            self._progress.stage(tool.name, "waiting for its turn to build")
            with self._cache.lock("go-build", wait=True):
                return self._fill(tool, "go", started) or self._failed(tool, started)

    def _ready(self, tool: Tool, source: str, detail: str, started: float, *, changed: bool) -> Result:
        seconds = time.monotonic() - started
        self._progress.finished(tool.name, f"ready ({source}, {clock(seconds)})", news=changed)
        path = str(self._cache.bin / tool.programs[0])
        return Result(tool.name, tool.version, source, detail, path, changed, round(seconds, 1), "")

    def _failed(self, tool: Tool, started: float) -> Result:
        reason = "; ".join(self._reasons.get(tool.name, ()))
        self._progress.finished(tool.name, f"CANNOT BE HAD: {reason}", news=True)
        return Result(tool.name, tool.version, "", "", "", False, round(time.monotonic() - started, 1), reason)

    def _clean_up(self) -> None:
        """Once every tool of the file is there and nobody builds: release files and our own Go caches (several GB) can go."""
        if not all((self._cache.bin / program).exists() for tool in self._recipes.tools for program in tool.programs):
            return
        with self._cache.lock("go-build", wait=False) as idle:
            if idle:
                self._downloads.forget()
                shutil.rmtree(self._cache.root / "go", ignore_errors=True)
