"""The recipe file `tools.toml`, read into frozen types, and the digest that names a tool's place in the cache."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = 1
HASH_LENGTH = {"sha256": 64, "sha512": 128}


class RecipeError(Exception):
    """The recipe file is wrong; the text lists every mistake found."""


@dataclass(frozen=True)
class Archive:
    """A vendor's release file.

    `url` holds `{version}` and `{arch}` (amd64, arm64). `checksums` maps an architecture to (algorithm, hex digest); an architecture
    without one is never downloaded. `members` maps a program to its path in the archive; an empty path means that the file itself is
    the program.
    """

    url: str
    checksums: dict[str, tuple[str, str]]
    members: dict[str, str]


@dataclass(frozen=True)
class Wheel:
    """A program repackaged as a Python wheel: `requirement` as pip takes it, SHA-256 by architecture."""

    requirement: str
    sha256: dict[str, str]


@dataclass(frozen=True)
class GoBuild:
    """One main package, built in a module folder below `tools/go`."""

    module: str
    package: str
    ldflags: str


@dataclass(frozen=True)
class ModuleFile:
    """A script that a Go module carries, copied from the module cache after Go checked its hash."""

    module: str
    source: str
    file: str


@dataclass(frozen=True)
class DebianFiles:
    """Files taken out of Debian packages without installing them."""

    packages: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class SuitePrograms:
    """Programs of another release of Debian, with every library they load and its own loader, in a folder of their own.

    `packages` and what they depend on are fetched from `suite`; `files` are the programs' paths there, `loaded` are patterns of
    libraries that are loaded by name while a program runs, which no program says beforehand.
    """

    suite: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    loaded: tuple[str, ...]


@dataclass(frozen=True)
class Tool:
    """One tool: a set of programs obtained together.

    `probe` is the command whose output must match `accept` (a regular expression) for the tool to be taken from PATH or from a fresh
    build. `minutes` is the Go build's length on 2 cores with an empty build cache.
    """

    name: str
    purpose: str
    version: str
    programs: tuple[str, ...]
    probe: tuple[str, ...]
    accept: str
    minutes: float
    archive: Archive | None
    debian: DebianFiles | None
    suite: SuitePrograms | None
    go: tuple[GoBuild, ...]
    copies: tuple[ModuleFile, ...]
    digest: str


@dataclass(frozen=True)
class Toolchain:
    """The Go toolchain that builds: pinned version, the oldest that will do, and where else it can be had."""

    version: str
    minimum: str
    archive: Archive | None
    wheel: Wheel | None


@dataclass(frozen=True)
class Recipes:
    """All of `tools.toml`, and the folder with the Go modules beside it."""

    go_folder: Path
    toolchain: Toolchain
    tools: tuple[Tool, ...]

    def tool(self, name: str) -> Tool:
        """Return the tool of this name, or raise `RecipeError` naming the known ones."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        raise RecipeError(f"no tool is called {name!r}; known: {', '.join(tool.name for tool in self.tools)}")


Table = dict[str, object]


@dataclass
class _Reader:
    """Reads tables and gathers mistakes, so that one run names all of them."""

    path: Path
    errors: list[str] = field(default_factory=list)

    def text(self, table: Table, key: str, where: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if isinstance(value, str):
            return value
        self.errors.append(f"{where}: {key} must be a string")
        return ""

    def texts(self, table: Table, key: str, where: str) -> tuple[str, ...]:
        value = table.get(key)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return tuple(str(item) for item in value)
        self.errors.append(f"{where}: {key} must be a list of strings, not empty")
        return ()

    def table(self, table: Table, key: str, where: str) -> Table:
        value = table.get(key, {})
        if isinstance(value, dict):
            return value
        self.errors.append(f"{where}: {key} must be a table")
        return {}

    def tables(self, table: Table, key: str, where: str) -> list[Table]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return value
        self.errors.append(f"{where}: {key} must be a list of tables")
        return []

    def only(self, table: Table, allowed: set[str], where: str) -> None:
        self.errors.extend(f"{where}: unknown key {key!r}" for key in table if key not in allowed)

    def checksums(self, table: Table, where: str) -> dict[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        for algorithm, length in HASH_LENGTH.items():
            for arch, value in self.table(table, algorithm, where).items():
                if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
                    self.errors.append(f"{where}: {algorithm}.{arch} is not a {algorithm} in lower-case hex")
                    continue
                found[arch] = (algorithm, value)
        if not found:
            self.errors.append(f"{where}: no checksum; a release file is used only with one")
        return found

    def archive(self, table: Table, shared: Table, programs: tuple[str, ...], where: str) -> Archive:
        self.only(table, {"use", "url", "members", "checksum_from", *HASH_LENGTH}, where)
        source = table
        if "use" in table:
            source = self.table(shared, self.text(table, "use", where), f"{where}: use")
        members = self.table(table, "members", where)
        for program in programs:
            if not isinstance(members.get(program), str):
                self.errors.append(f"{where}: members lacks a path for {program}")
        self.text(source, "checksum_from", where)
        return Archive(
            url=self.text(source, "url", where),
            checksums=self.checksums(source, where),
            members={program: str(path) for program, path in members.items()},
        )

    def suite(self, table: Table, where: str) -> SuitePrograms:
        self.only(table, {"name", "packages", "files", "loaded"}, where)
        return SuitePrograms(
            suite=self.text(table, "name", where),
            packages=self.texts(table, "packages", where),
            files=self.texts(table, "files", where),
            loaded=self.texts(table, "loaded", where) if "loaded" in table else (),
        )

    def tool(self, table: Table, shared: Table, modules: Table, go_folder: Path) -> Tool:
        where = f"tool {table.get('name', '?')}"
        allowed = {
            "name",
            "purpose",
            "version",
            "programs",
            "probe",
            "accept",
            "minutes",
            "archive",
            "debian",
            "suite",
            "go",
            "copy",
        }
        self.only(table, allowed, where)
        version, programs = self.text(table, "version", where), self.texts(table, "programs", where)
        accept = self.text(table, "accept", where)
        try:
            re.compile(accept)
        except re.error as error:
            self.errors.append(f"{where}: accept is no regular expression: {error}")
        minutes = table.get("minutes")
        if not isinstance(minutes, int | float):
            self.errors.append(f"{where}: minutes must be a number")
            minutes = 0
        go = tuple(
            GoBuild(
                module=(module := self.text(build, "module", where)),
                package=self.text(build, "package", where),
                ldflags=self.text(modules, module, f"modules (for {where})").format(version=version),
            )
            for build in self.tables(table, "go", where)
        )
        copies = tuple(
            ModuleFile(self.text(copy, "module", where), self.text(copy, "from", where), self.text(copy, "file", where))
            for copy in self.tables(table, "copy", where)
        )
        archive = (
            self.archive(self.table(table, "archive", where), shared, programs, where) if "archive" in table else None
        )
        debian = None
        if "debian" in table:
            inner = self.table(table, "debian", where)
            debian = DebianFiles(self.texts(inner, "packages", where), self.texts(inner, "files", where))
        suite = self.suite(self.table(table, "suite", where), f"{where}: suite") if "suite" in table else None
        if not (archive or debian or suite or go):
            self.errors.append(f"{where}: no pinned source (archive, debian, suite or go)")
        return Tool(
            name=self.text(table, "name", where),
            purpose=self.text(table, "purpose", where),
            version=version,
            programs=programs,
            probe=self.texts(table, "probe", where),
            accept=accept,
            minutes=float(minutes),
            archive=archive,
            debian=debian,
            suite=suite,
            go=go,
            copies=copies,
            digest=self.digest(
                table,
                shared,
                [build.ldflags for build in go],
                go_folder,
                {build.module for build in go} | {copy.module for copy in copies},
                where,
            ),
        )

    def digest(
        self, table: Table, shared: Table, ldflags: list[str], go_folder: Path, modules: set[str], where: str
    ) -> str:
        """Return what names this recipe: any change to it, to go.mod or to go.sum gives another place in the cache."""
        facts = {key: value for key, value in table.items() if key not in {"purpose", "minutes", "probe", "accept"}}
        digest = hashlib.sha256(
            json.dumps([facts, shared if "archive" in table else {}, ldflags], sort_keys=True).encode()
        )
        for module in sorted(modules):
            for name in ("go.mod", "go.sum"):
                try:
                    digest.update((go_folder / module / name).read_bytes())
                except OSError as error:
                    self.errors.append(f"{where}: {error}")
        return digest.hexdigest()[:12]


def load(path: Path) -> Recipes:
    """Read the recipe file; the Go modules lie in `go/` beside it.

    Raises:
        RecipeError: unreadable, not TOML, or any entry wrong; all mistakes are in the text.
    """
    try:
        document: Table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise RecipeError(f"{path}: {error}") from error
    reader, go_folder = _Reader(path), path.parent / "go"
    reader.only(document, {"schema", "toolchain", "modules", "archives", "tool"}, "file")
    if document.get("schema") != SCHEMA:
        reader.errors.append(f"schema must be {SCHEMA}")
    chain = reader.table(document, "toolchain", "file")
    reader.only(chain, {"version", "minimum", "archive", "wheel"}, "toolchain")
    wheel_table = reader.table(chain, "wheel", "toolchain")
    wheel = None
    if wheel_table:
        hashes = {arch: value for arch, (_, value) in reader.checksums(wheel_table, "toolchain.wheel").items()}
        wheel = Wheel(reader.text(wheel_table, "requirement", "toolchain.wheel"), hashes)
    archive_table = reader.table(chain, "archive", "toolchain")
    toolchain = Toolchain(
        version=reader.text(chain, "version", "toolchain"),
        minimum=reader.text(chain, "minimum", "toolchain"),
        archive=reader.archive(archive_table, {}, (), "toolchain.archive") if archive_table else None,
        wheel=wheel,
    )
    shared, modules = reader.table(document, "archives", "file"), reader.table(document, "modules", "file")
    tools = tuple(reader.tool(table, shared, modules, go_folder) for table in reader.tables(document, "tool", "file"))
    names = [tool.name for tool in tools]
    reader.errors.extend(
        f"tool {name}: stands more than once" for name in sorted({name for name in names if names.count(name) > 1})
    )
    owners: dict[str, str] = {}
    for tool in tools:
        for program in tool.programs:
            if owners.setdefault(program, tool.name) != tool.name:
                reader.errors.append(f"tool {tool.name}: {program} already belongs to {owners[program]}")
    if reader.errors:
        raise RecipeError("\n".join(f"{path}: {error}" for error in reader.errors))
    return Recipes(go_folder, toolchain, tools)
