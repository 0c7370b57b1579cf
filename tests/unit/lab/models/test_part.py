"""What the part `models` asks of the lab, and what it makes ready: only for sites that want it, and only the file that they state."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.hosts.sites import DC, LAB, planned

from pinion.bringup import programs
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.models.artefacts import place
from pinion.lab.models.part import FOLDER, UNIT, ModelsPart
from pinion.lab.parts import Bind
from pinion.lab.progress import Progress
from pinion.lab.state import InstanceState

STORE = {"model_store": {"key": yaml.safe_load(DC.read_text())["concerns"]["model_store"]["key"]}}
CONTENT = b"GGUF, for all that anybody here looks at it"
PIS = {f"pi-0{number}" for number in range(1, 5)}


def models(urls: tuple[str, ...], content: bytes) -> dict[str, Any]:
    source = yaml.safe_load(DC.read_text())["models"]["tiny"]["edge"]["source"]
    source |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return {
        f"m{number}": {"edge": {"artefact": f"a{number}", "source": source | {"url": url}}}
        for number, url in enumerate(urls)
    }


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a model's file and an engine, from which nothing is obtained."""
    made, folder = tmp_path / "cache", tmp_path / "cache/models/pinion-tiny-1"
    folder.mkdir(parents=True)
    (folder / "pinion-tiny.gguf").write_bytes(CONTENT)
    facts = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "size": len(CONTENT)}
    (folder / "manifest.json").write_text(json.dumps({"files": {"pinion-tiny.gguf": facts}}))
    for inner in ("bin", "lib/llama-server"):
        (made / "tools/llama/1" / inner).mkdir(parents=True)
        (made / "tools/llama/1" / inner / "llama-server").touch()
    (made / "bin").mkdir()
    (made / "bin/llama-server").symlink_to(made / "tools/llama/1/bin/llama-server")
    monkeypatch.setenv("PINION_CACHE", str(made))
    # An installed Pinion has no tools/ either, and takes what is there.
    monkeypatch.setattr(programs, "OBTAIN", tmp_path / "no such tool")
    return made


def lab(tmp_path: Path, concerns: dict[str, Any], *urls: str, content: bytes = CONTENT) -> Lab:
    plan = planned(LAB, concerns=concerns, **({"models": models(urls, content)} if urls else {}))
    state = InstanceState("unit", tmp_path / "state")
    state.root.mkdir(exist_ok=True)
    return Lab(plan, state, [ModelsPart()], Progress(io.StringIO()))


def test_a_site_without_models_asks_for_nothing(tmp_path: Path, cache: Path) -> None:
    found = lab(tmp_path, {"pi_boot": {}})
    assert ModelsPart().needs(found) == {}
    ModelsPart().prepare(found)
    assert list(found.state.iterdir()) == []
    assert ModelsPart().endpoints(found) == {}


def test_models_from_elsewhere_need_no_server_and_pis_still_their_engine(tmp_path: Path, cache: Path) -> None:
    found = lab(tmp_path, STORE | {"edge_runtime": {}}, "https://models.example.org/a.gguf")
    needs = ModelsPart().needs(found)
    assert set(needs) == PIS
    engine = found.state / "models/engine"
    assert needs["pi-01"].binds == (
        Bind(engine / "bin/llama-server", "/usr/bin/llama-server"),
        Bind(engine / "lib/llama-server", "/usr/lib/llama-server"),
    )
    ModelsPart().prepare(found)
    assert all(bind.source.exists() for bind in needs["pi-01"].binds)


def test_another_engine_brings_no_llama_server(tmp_path: Path, cache: Path) -> None:
    found = lab(tmp_path, STORE | {"edge_runtime": {"engine": "hailo-ollama"}}, "http://mgmt-1:8090/a.gguf")
    assert set(ModelsPart().needs(found)) == {"mgmt-1"}


def test_the_libraries_lie_where_the_launcher_looks(tmp_path: Path, cache: Path) -> None:
    stated = STORE | {"edge_runtime": {"program": "/opt/llama/bin/server"}}
    found = ModelsPart().needs(lab(tmp_path, stated, "https://models.example.org/a.gguf"))
    assert [bind.target for bind in found["pi-02"].binds] == ["/opt/llama/bin/server", "/opt/llama/lib/llama-server"]


@pytest.mark.parametrize("host", ["mgmt-1", "10.77.100.10"])
def test_a_stated_file_is_served_where_the_site_says(tmp_path: Path, cache: Path, host: str) -> None:
    found = lab(tmp_path, STORE, f"http://{host}:8090/deep/er/a.gguf")
    (needs,) = ModelsPart().needs(found).values()
    assert needs.units == (UNIT,)
    assert f"--bind 10.77.100.10 --directory {FOLDER} 8090\n" in needs.revision
    ModelsPart().prepare(found)
    (bind,) = needs.binds
    served = bind.source / "deep/er/a.gguf"
    assert served.read_bytes() == CONTENT
    assert served.stat().st_mode & 0o777 == 0o644
    assert ModelsPart().endpoints(found) == {"models": {"mgmt-1": "http://10.77.100.10:8090/"}}


def test_what_the_site_states_no_longer_is_not_served_any_more(tmp_path: Path, cache: Path) -> None:
    for name in ("a", "b"):
        found = lab(tmp_path, STORE, f"http://mgmt-1:8090/{name}.gguf")
        ModelsPart().prepare(found)
        ModelsPart().prepare(found)
        assert [path.name for path in (found.state / "models/files").iterdir()] == [f"{name}.gguf"]


def test_two_places_on_one_machine_are_refused(tmp_path: Path, cache: Path) -> None:
    found = lab(tmp_path, STORE, "http://mgmt-1:8090/a.gguf", "http://mgmt-1:8091/b.gguf")
    with pytest.raises(LabError, match=r"names 10\.77\.100\.10:8090, 10\.77\.100\.10:8091"):
        ModelsPart().needs(found)


def test_a_file_that_the_lab_does_not_have_is_named(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("gguf", reason="which model is the lab's follows from the libraries too: requirements/model.in")
    (cache / "models/pinion-tiny-1").rename(place(cache).folder)
    found = lab(tmp_path, STORE, "http://mgmt-1:8090/a.gguf", content=b"another")
    with pytest.raises(LabError, match=r"^model m0: no file with SHA-256 [0-9a-f]{64} in .*/models; .*pinion artefact"):
        ModelsPart().prepare(found)


def test_an_engine_for_this_machine_alone_is_refused(tmp_path: Path, cache: Path) -> None:
    (cache / "tools/llama/1/lib/llama-server/llama-server").unlink()
    found = lab(tmp_path, STORE | {"edge_runtime": {}}, "https://models.example.org/a.gguf")
    with pytest.raises(LabError, match="cannot run in the lab's"):
        ModelsPart().prepare(found)
