"""The Go toolchain and the builds from tools/go. go.sum pins every source; GOTOOLCHAIN=local keeps Go from fetching another Go."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

from toolchest.cache import STAMP, Cache, sha256_of
from toolchest.download import Downloads
from toolchest.process import UnavailableError, machine_arch, niced, run
from toolchest.recipes import GoBuild, ModuleFile, Recipes, Toolchain, Wheel

#: What is hashed of an unpacked toolchain: the parts that make the output.
VITAL = ("bin/go", "pkg/tool/linux_{arch}/compile", "pkg/tool/linux_{arch}/link", "pkg/tool/linux_{arch}/asm")


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `go1.26.6` for comparison."""
    found = re.search(r"(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


class Go:
    """A toolchain good enough for every recipe: the machine's own, else the pinned one in the cache."""

    def __init__(self, recipes: Recipes, cache: Cache, downloads: Downloads, repository: Path) -> None:
        self._recipes, self._cache, self._downloads, self._repository = recipes, cache, downloads, repository
        self._command: str | None = None
        self._own_caches = False

    def command(self) -> str:
        """Return the path of a `go` that is new enough, obtaining one if need be.

        Raises:
            UnavailableError: none on PATH, none to be had; every way's reason is in the text.
        """
        if self._command is None:
            self._command = self._on_path()
        if self._command is None:
            with self._cache.lock("go-toolchain", wait=True):
                self._command = str(self._cached_or_obtained() / "bin" / "go")
            self._own_caches = True
        return self._command

    def _on_path(self) -> str | None:
        found = shutil.which("go")
        if not found:
            return None
        try:
            answer = run(
                [found, "env", "GOVERSION"], "go env", environment=dict(os.environ, GOTOOLCHAIN="local"), seconds=60
            )
        except UnavailableError:
            return None
        return found if version_key(answer) >= version_key(self._recipes.toolchain.minimum) else None

    def _cached_or_obtained(self) -> Path:
        chain = self._recipes.toolchain
        place = self._cache.root / "tools" / "go" / chain.version
        if _toolchain_is_whole(place):
            return place
        reasons: list[str] = []
        staged = place.with_name(f".new-{os.getpid()}")
        for left in place.parent.glob(".new-*") if place.parent.exists() else ():
            shutil.rmtree(left, ignore_errors=True)
        for obtain in (self._from_archive, self._from_wheel):
            staged.mkdir(parents=True)
            try:
                unpacked = obtain(chain, staged)
                vital = [unpacked / part.format(arch=machine_arch()) for part in VITAL]
                files = {str(path.relative_to(unpacked)): sha256_of(path) for path in vital}
                answer = run(
                    [str(unpacked / "bin" / "go"), "version"], "go version", environment=_bare_environment(), seconds=60
                )
                if f"go{chain.version} " not in answer:
                    raise UnavailableError(f"it says {answer.strip()}")
                (unpacked / STAMP).write_text(json.dumps({"files": files}) + "\n")
                shutil.rmtree(place, ignore_errors=True)
                unpacked.rename(place)
            except (UnavailableError, OSError) as error:
                reasons.append(str(error))
            else:
                return place
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        raise UnavailableError(f"no Go {chain.minimum} or newer: {'; '.join(reasons)}")

    def _from_archive(self, chain: Toolchain, staged: Path) -> Path:
        if chain.archive is None:
            raise UnavailableError("no release file is recorded")
        shutil.unpack_archive(self._downloads.fetch(chain.archive, chain.version), staged, "gztar")
        return staged / "go"

    def _from_wheel(self, chain: Toolchain, staged: Path) -> Path:
        if chain.wheel is None:
            raise UnavailableError("no wheel is recorded")
        with zipfile.ZipFile(self._download_wheel(chain.wheel, staged)) as wheel:
            wheel.extractall(staged)
        unpacked = staged / "go"
        # A zip has no place that Python restores modes from.
        for program in (*unpacked.glob("bin/*"), *unpacked.glob("pkg/tool/*/*")):
            program.chmod(0o755)
        return unpacked

    def _download_wheel(self, wheel: Wheel, staged: Path) -> Path:
        if machine_arch() not in wheel.sha256:
            raise UnavailableError(f"no checksum is recorded for {machine_arch()}")
        lock = staged / "wheel.txt"
        lock.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256[machine_arch()]}\n")
        options = [
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "-r",
            str(lock),
            "-d",
            str(staged),
        ]
        run([*self._pip(staged), *options], "pip download of the Go toolchain", seconds=900)
        found = list(staged.glob("*.whl"))
        if len(found) != 1:
            raise UnavailableError("pip left no wheel")
        return found[0]

    def _pip(self, staged: Path) -> list[str]:
        for python in (sys.executable, str(self._repository / ".venv" / "bin" / "python")):
            try:
                run([python, "-m", "pip", "--version"], "pip", seconds=60)
            except UnavailableError:
                continue
            return [python, "-m", "pip"]
        run(
            [sys.executable, "-m", "venv", str(staged / "pip")],
            "a venv for pip (is python3-venv installed?)",
            seconds=300,
        )
        return [str(staged / "pip" / "bin" / "python"), "-m", "pip"]

    def environment(self) -> dict[str, str]:
        """Return the environment of a build: reproducible, no C compiler, no other Go; module source as the machine has it."""
        self.command()
        environment = dict(os.environ, GOTOOLCHAIN="local", CGO_ENABLED="0", GOWORK="off", GO111MODULE="on")
        for name in ("GOROOT", "GOBIN", "GOOS", "GOARCH"):
            environment.pop(name, None)
        if self._own_caches or not environment.get("HOME"):
            folder = self._cache.root / "go"
            environment.setdefault("GOMODCACHE", str(folder / "modules"))
            environment.setdefault("GOCACHE", str(folder / "build"))
            environment.setdefault("GOPATH", str(folder / "path"))
            # Sources that can be deleted without changing their modes first.
            environment["GOFLAGS"] = f"{environment.get('GOFLAGS', '')} -modcacherw".strip()
        return environment

    def build(self, build: GoBuild, version: str, target: Path) -> None:
        """Build one package into `target` (a folder)."""
        ldflags = f"-s -w {build.ldflags}".strip()
        command = [
            self.command(),
            "build",
            "-mod=readonly",
            "-trimpath",
            f"-ldflags={ldflags}",
            "-o",
            f"{target}/",
            build.package,
        ]
        folder = self._recipes.go_folder / build.module
        run(niced(command), f"go build {build.package} ({version})", folder=folder, environment=self.environment())

    def copy(self, part: ModuleFile, target: Path) -> None:
        """Copy a script out of a module that go.sum pins."""
        folder = self._recipes.go_folder / part.module
        answer = run(
            [self.command(), "mod", "download", "-json", part.source],
            f"go mod download {part.source}",
            folder=folder,
            environment=self.environment(),
        )
        source = Path(str(json.loads(answer)["Dir"])) / part.file
        try:
            shutil.copyfile(source, target / source.name)
        except OSError as error:
            raise UnavailableError(f"{part.source} has no {part.file}: {error}") from error


def _bare_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in {"GOROOT", "GOFLAGS"}} | {
        "GOTOOLCHAIN": "local"
    }


def _toolchain_is_whole(place: Path) -> bool:
    try:
        files: dict[str, str] = json.loads((place / STAMP).read_text())["files"]
        return bool(files) and all(sha256_of(place / name) == digest for name, digest in files.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False
