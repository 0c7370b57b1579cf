"""Layers: what is in their key, and what the cache believes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from pinion.lab.errors import LabError
from pinion.lab.layers import BASE, NODE, SWITCH, Bind, LayerRecipe, LayerStore
from pinion.lab.parts import NESTED_CONTAINERS, MachineNeeds, merged
from pinion.lab.state import write_json

RECIPE = LayerRecipe("extra", BASE, packages=("b", "a"), files={"/etc/x": "1"}, script="true")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"parent": SWITCH},
        {"parent": None},
        {"packages": ("a",)},
        {"files": {"/etc/x": "2"}},
        {"files": {"/etc/y": "1"}},
        {"script": "false"},
    ],
)
def test_whatever_shapes_a_layer_is_in_its_key(change: dict[str, object]) -> None:
    assert dataclasses.replace(RECIPE, **change).key != RECIPE.key  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"packages": ("a", "b")}, {"minutes": 9}, {"env": ("PIP_*",)}, {"binds": (Bind(Path("/x"), "/x"),)}]
)
def test_what_only_helps_to_build_is_not(change: dict[str, object]) -> None:
    assert dataclasses.replace(RECIPE, **change).key == RECIPE.key  # type: ignore[arg-type]


def test_a_changed_parent_changes_the_child() -> None:
    changed = dataclasses.replace(BASE, script="other")
    assert dataclasses.replace(RECIPE, parent=changed).key != RECIPE.key


def test_the_chain_is_the_overlay_order(tmp_path: Path) -> None:
    assert NODE.chain == (NODE, BASE)
    store = LayerStore(tmp_path)
    assert store.lower(NODE) == (tmp_path / "layers" / NODE.folder / "fs", tmp_path / "layers" / BASE.folder / "fs")


def fill(store: LayerStore, recipe: LayerRecipe) -> Path:
    folder = store.folder(recipe)
    (folder / "fs/etc").mkdir(parents=True)
    (folder / "fs/usr").mkdir()
    write_json(folder / "stamp.json", {"key": recipe.key, "name": recipe.name, "entries": ["etc", "usr"]})
    return folder


def test_only_a_whole_layer_is_present(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    assert not store.present(BASE)
    folder = fill(store, BASE)
    assert store.present(BASE)
    assert store.missing(RECIPE) == (RECIPE,)
    (folder / "fs/usr").rmdir()
    assert not store.present(BASE)
    (folder / "fs/usr").mkdir()
    (folder / "stamp.json").write_text("{")
    assert not store.present(BASE)


def test_prune_spares_what_was_used_lately(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    old, new = fill(store, BASE), fill(store, SWITCH)
    os.utime(old / "stamp.json", (0, 0))
    assert store.prune() == [old]
    assert not old.exists()
    assert new.exists()


def test_needs_of_two_parts_become_one() -> None:
    child = LayerRecipe("child", NODE)
    one = MachineNeeds(binds=(Bind(Path("/a"), "/a"),), units=("x.service",), data=("/var/lib/x",), revision="1")
    two = MachineNeeds(layer=child, units=("x.service", "y.service"), sshd=False, revision="2")
    both = merged("m", BASE, [one, NESTED_CONTAINERS, two])
    assert both.layer == child
    assert both.units == ("x.service", "y.service")
    assert both.data == ("/var/lib/x", "/var/lib/containerd", "/var/lib/kubelet")
    assert both.sshd is False
    assert "--capability=all" in both.nspawn
    assert merged("m", BASE, [two, one, NESTED_CONTAINERS]).layer == child
    assert both.revision != merged("m", BASE, [dataclasses.replace(one, revision="3"), NESTED_CONTAINERS, two]).revision


def test_layers_of_two_families_are_refused() -> None:
    with pytest.raises(LabError, match="node and switch do not build on each other"):
        merged("m", BASE, [MachineNeeds(layer=NODE), MachineNeeds(layer=SWITCH)])
