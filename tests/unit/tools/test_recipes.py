"""The recipe file itself, and how mistakes in one are told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolchest.golang import version_key
from toolchest.recipes import RecipeError, Recipes, load

REPOSITORY = Path(__file__).resolve().parents[3]
TOOLS = REPOSITORY / "tools"


@pytest.fixture(scope="module")
def recipes() -> Recipes:
    return load(TOOLS / "tools.toml")


def test_the_tools_that_the_lab_needs_are_there(recipes: Recipes) -> None:
    programs = {program for tool in recipes.tools for program in tool.programs}
    assert programs >= {
        "pulumi", "pulumi-language-python", "pulumi-language-python-exec", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
        "kubelet", "kubectl", "etcd", "kwok", "helm", "kubeconform", "step-ca",
    }  # fmt: skip


def test_every_tool_has_a_pin(recipes: Recipes) -> None:
    for tool in recipes.tools:
        assert tool.archive or tool.debian or tool.suite or tool.go, tool.name
        if tool.archive:
            assert tool.archive.checksums, tool.name
            assert "{version}" in tool.archive.url, f"{tool.name}: the URL must follow the version"


def test_every_go_module_pins_its_version_and_all_its_sources(recipes: Recipes) -> None:
    for tool in recipes.tools:
        for module in {build.module for build in tool.go} | {copy.module for copy in tool.copies}:
            folder = recipes.go_folder / module
            mod, sums = (folder / "go.mod").read_text(), (folder / "go.sum").read_text()
            assert len(sums.splitlines()) > 20, folder
            required = re.findall(r"^\s*(?:require )?(\S+) (v\S+)", mod, re.MULTILINE)
            for name, version in required:
                assert f"{name} {version}/go.mod h1:" in sums or "replace" in mod, (
                    f"{folder}: {name} {version} has no hash"
                )


def test_the_go_module_is_of_the_version_that_the_recipe_says(recipes: Recipes) -> None:
    checked = 0
    for tool in recipes.tools:
        # The language host is pinned by its own module; the recipe's version is the engine's.
        for build in tool.go[:1]:
            mod = (recipes.go_folder / build.module / "go.mod").read_text()
            root = max(
                re.findall(r"^\s*(?:require )?(\S+) v", mod, re.MULTILINE),
                key=lambda name: (build.package.startswith(name), len(name)),
            )
            assert re.search(rf"^\s*(?:require )?{re.escape(root)} v{re.escape(tool.version)}\b", mod, re.MULTILINE), (
                tool.name,
                root,
            )
            checked += 1
    assert checked >= 10


def test_the_oldest_accepted_go_builds_every_module(recipes: Recipes) -> None:
    minimum = version_key(recipes.toolchain.minimum)
    assert version_key(recipes.toolchain.version) >= minimum
    for mod in recipes.go_folder.glob("*/go.mod"):
        line = re.search(r"^go (\S+)$", mod.read_text(), re.MULTILINE)
        assert line, mod
        assert version_key(line.group(1)) <= minimum, f"{mod} wants Go {line.group(1)}"


def test_a_go_sum_change_is_another_place_in_the_cache(tmp_path: Path) -> None:
    text = """schema = 1
[toolchain]
version = "1.26.6"
minimum = "1.20"
[modules]
tiny = ""
[[tool]]
name = "tiny"
purpose = "p"
version = "1"
programs = ["tiny"]
probe = ["tiny"]
accept = "."
minutes = 1
[[tool.go]]
module = "tiny"
package = "example.invalid/tiny"
"""
    (tmp_path / "go" / "tiny").mkdir(parents=True)
    (tmp_path / "go" / "tiny" / "go.mod").write_text("module example.invalid/tiny\n")
    (tmp_path / "go" / "tiny" / "go.sum").write_text("")
    file = tmp_path / "tools.toml"
    file.write_text(text)
    first = load(file).tools[0].digest
    file.write_text(text.replace('purpose = "p"', 'purpose = "other words"'))
    assert load(file).tools[0].digest == first
    (tmp_path / "go" / "tiny" / "go.sum").write_text("x v1 h1:y\n")
    assert load(file).tools[0].digest != first


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    file.write_text("""schema = 2
surprise = 1
[toolchain]
version = "1.26.6"
[[tool]]
name = "a"
purpose = "p"
version = "1"
programs = ["a"]
probe = ["a"]
accept = "("
minutes = "long"
[tool.archive]
url = "https://example.invalid/a"
members = {}
sha256.amd64 = "abc"
checksum_from = "x"
[[tool]]
name = "a"
purpose = "p"
version = "1"
programs = []
probe = ["a"]
accept = "."
minutes = 1
""")
    with pytest.raises(RecipeError) as caught:
        load(file)
    told = str(caught.value)
    for part in (
        "schema must be 1", "unknown key 'surprise'", "minimum must be a string", "no regular expression", "minutes must be a number",
        "members lacks a path for a", "sha256.amd64 is not a sha256", "no checksum", "programs must be a list", "no pinned source",
        "stands more than once",
    ):  # fmt: skip
        assert part in told, part
    assert told.count(str(file)) >= 11
