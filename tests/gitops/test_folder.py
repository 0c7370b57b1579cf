"""The folder of a tree: the same bytes each time, whole at any moment, and never over somebody else's files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from gitops.built import REPOSITORY, planned, rendered, site
from pinion.cli.render import render
from pinion.render.gitops import Tree
from pinion.render.gitops.folder import RECORD, write
from pinion.site.model import ClusterOwner

#: More than a write of the smallest tree takes.
MOST_STEPS = 200


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the site `lab`, which says where its tree lies."""
    folder = tmp_path / "root"
    (folder / "inventories/lab").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "charts", folder / "charts")
    state(folder, site("lab"))
    monkeypatch.setenv("PINION_ROOT", str(folder))
    return folder


def state(root: Path, stated: object) -> None:
    """Have the site file say *stated*."""
    (root / "inventories/lab/site.yml").write_text(yaml.safe_dump(stated))


def run(*words: str) -> Result:
    """`pinion render lab` with *words*."""
    return CliRunner().invoke(render, ["lab", *words], catch_exceptions=False, standalone_mode=False)


def files(folder: Path) -> dict[str, bytes]:
    """Path to content of all that is in *folder*."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def is_whole(folder: Path) -> bool:
    """Whether *folder* holds exactly the files of its record."""
    held = files(folder)
    record = json.loads(held.pop(RECORD))
    return bool(record["files"] == {path: hashlib.sha256(content).hexdigest() for path, content in held.items()})


@pytest.mark.parametrize("tool", ["flux", "argocd"])
def test_the_same_bytes_whoever_writes_them_and_whatever_was_there(root: Path, tool: str, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "two" / "deeper"
    assert run("--gitops", tool, str(one)).exit_code == 0
    again = ["-m", "pinion", "render", "lab", "--gitops", tool, str(other)]
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, *again], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        )
        assert files(one) == files(other)
    before = {path: path.stat().st_ino for path in one.rglob("*")}
    assert run("--gitops", tool, str(one)).exit_code == 0
    assert {path: path.stat().st_ino for path in one.rglob("*")} == before, (
        "a tree that is current is not written again"
    )


def test_check_names_what_differs_and_writes_nothing(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    missing = run("--gitops", "flux", str(folder), "--check", "--json")
    assert missing.exit_code == 1
    assert set(json.loads(missing.stdout)["differs"].values()) == {"missing"}
    assert not folder.exists()
    run("--gitops", "flux", str(folder))
    assert run("--gitops", "flux", str(folder), "--check").exit_code == 0
    template = root / "charts/hello/templates/service.yaml"
    template.write_text(template.read_text() + "# edited, and the chart's version is the same\n")
    state(root, {**site("lab"), "services": {"hello": {"chart": "hello", "namespace": "edge-services", "replicas": 4}}})
    (folder / "source.yaml").unlink()
    (folder / "mine.txt").write_text("mine")
    before = files(folder)
    found = run("--gitops", "flux", str(folder), "--check", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["differs"] == {
        RECORD: "changed",
        "charts/hello/templates/service.yaml": "changed",
        "mine.txt": "unknown",
        "releases/hello.yaml": "changed",
        "source.yaml": "missing",
    }
    assert files(folder) == before


def test_what_is_not_in_a_tree_is_said(root: Path, tmp_path: Path) -> None:
    said = json.loads(run("--gitops", "argocd", str(tmp_path / "tree"), "--json").stdout)
    assert {item["what"]: item["objects"] for item in said["left"]} == {
        "labels of nodes": ["Node nv-1", "Node pi-01", "Node pi-02", "Node pi-03", "Node pi-04"],
        "taints of nodes": ["Node nv-1"],
    }
    page = (tmp_path / "tree/README.md").read_text()
    for item in said["left"]:
        assert item["by"] == "pulumi up"
        assert f"| {item['what']} | {', '.join(item['objects'])} | {item['why']} |" in page


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["mine.txt"], "mine.txt"),
        (["objects/mine.yaml"], "objects/mine.yaml"),
        ([RECORD], "cannot be read"),
    ],
)
def test_files_that_are_not_its_own_are_left_and_named(
    root: Path, words: Sequence[str], reason: str, tmp_path: Path
) -> None:
    folder = tmp_path / "tree"
    run("--gitops", "flux", str(folder))
    for name in words:
        (folder / name).write_text("<<<<<<< mine")
    state(root, {**site("lab"), "services": {}})
    before = files(folder)
    with pytest.raises(Exception, match=reason):
        run("--gitops", "flux", str(folder))
    assert files(folder) == before


def test_a_folder_of_somebodys_a_file_a_link_and_another_sites_tree_are_refused(root: Path, tmp_path: Path) -> None:
    somebodys = tmp_path / "somebodys"
    somebodys.mkdir()
    (somebodys / "thesis.tex").write_text("years of work")
    (tmp_path / "link").symlink_to(somebodys)
    other = tmp_path / "other"
    rendered(planned({**site("lab"), "site": "elsewhere"}), ClusterOwner.FLUX, other)
    for folder, reason in (
        (somebodys, "thesis.tex"),
        (tmp_path / "link", "no folder"),
        (other / "clusters/here", "site elsewhere"),
    ):
        before = files(folder)
        with pytest.raises(Exception, match=reason):
            run("--gitops", "flux", str(folder))
        assert files(folder) == before


@pytest.mark.parametrize(
    ("kubernetes", "reason"),
    [({"repository": None}, "repository: {url"), ({"owner": "argocd"}, "kubernetes.owner: argocd")],
)
def test_a_site_without_a_place_for_its_tree_or_with_another_owner_has_none(
    root: Path, kubernetes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    stated = site("lab", **kubernetes)
    if stated["kubernetes"]["repository"] is None:
        del stated["kubernetes"]["repository"]
    state(root, stated)
    with pytest.raises(Exception, match=reason):
        run("--gitops", "flux", str(tmp_path / "tree"))
    assert not (tmp_path / "tree").exists()


def small(content: bytes) -> Tree:
    """A tree of a few files."""
    return Tree("lab", ClusterOwner.FLUX, {f"objects/{number}.yaml": content for number in range(3)}, ())


def write_until(step: int, folder: Path, tree: Tree) -> bool:
    """Write *tree* in a process that is killed before its step of that number; whether it had fewer and came to its end.

    A step is whatever Python reports of files (its audit events): a file or folder that is opened, made, renamed or removed.
    """
    child = os.fork()
    if child == 0:
        left = step

        def hook(event: str, _: object) -> None:
            nonlocal left
            left -= event == "open" or event.startswith(("os.", "shutil.", "ctypes."))
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            write(folder, tree)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def test_killed_at_any_moment_the_folder_is_the_old_tree_or_the_new_one(tmp_path: Path) -> None:
    folder, held = tmp_path / "tree", []
    for step in range(1, MOST_STEPS):
        write(folder, small(b"old"))
        ended = write_until(step, folder, small(b"new"))
        assert is_whole(folder)
        (content,) = set(files(folder / "objects").values())
        held.append(content)
        if ended:
            break
        write(folder, small(b"new"))
        assert [path.name for path in tmp_path.iterdir()] == ["tree"], "nothing is left beside it"
    assert ended
    assert {b"old", b"new"} == set(held[:-1]), "killed before the exchange and after it"
    assert held == sorted(held, reverse=True), "new from one step on"
