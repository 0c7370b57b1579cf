"""`pinion sim` and `pinion capacity` as a person calls them: figures, exit codes, and what is said of bad input."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pinion.cli import main
from pinion.simulation import EVIDENCE
from pinion.simulation.scenario import load_scenario, shipped
from pinion.site.catalog import load as catalogue
from pinion.site.catalog.inference import rates
from pinion.site.find import repository

SMALL = "duration: 20s\npis: 8\nload: {rate: 4}\npool: {replicas: 1}\n"
DC = repository() / "inventories/dc-rack-12/site.yml"
EVERY_KEY = repository() / "tests/unit/plan/every_key.yml"


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def told(*words: str) -> Any:
    done = call(*words, "--json")
    assert done.exit_code in {0, 1}, done.output
    return json.loads(done.stdout)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of its own, with a pool and promises."""
    stated = yaml.safe_load(EVERY_KEY.read_text())
    stated["models"]["tiny"]["pool"]["replicas"] = 7
    stated["objectives"] = {"edge": {"p50": "2s", "p95": "3s"}, "site": {"p95": "3s", "availability": "99.9%"}}
    path = tmp_path / "site.yml"
    path.write_text(json.dumps(stated))
    return path


# --- pinion sim -------------------------------------------------------------------------------------------------------


def test_it_prints_figures_and_what_they_are_worth(scenario: Path) -> None:
    done = call("sim", "dc-rack-12", "--scenario", str(scenario))
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{EVIDENCE}: Qwen2.5-0.5B Q4_0 on Raspberry Pi 5")
    assert "llama.cpp, discussion 30069" in done.output
    assert "answered on Pis" in done.output
    found = told("sim", "dc-rack-12", "--scenario", str(scenario))
    assert found["evidence"] == found["results"]["policy"]["evidence"] == EVIDENCE
    assert found == told("sim", "dc-rack-12", "--scenario", str(scenario))
    assert found["results"] != told("sim", "dc-rack-12", "--scenario", str(scenario), "--seed", "2")["results"]


def test_a_missed_objective_is_told_and_ends_with_1(site: Path, scenario: Path) -> None:
    assert call("sim", str(site), "--scenario", str(scenario)).exit_code == 0
    site.write_text(site.read_text().replace('"p50": "2s"', '"p50": "1ms"'))
    done = call("sim", str(site), "--scenario", str(scenario))
    assert done.exit_code == 1
    assert "missed: objectives.edge.p50 is 0.001" in done.output


def test_refused_requests_use_up_the_error_budget(site: Path, scenario: Path) -> None:
    """A model that is in the pool only, and a pool that is dead for half of the time."""
    stated = yaml.safe_load(site.read_text())
    stated["models"]["big"] = {"pool": stated["models"]["tiny"]["pool"]}
    stated["objectives"]["alert_at"] = "50%"
    site.write_text(json.dumps(stated))
    scenario.write_text(
        SMALL.replace("{rate: 4}", "{rate: 4, kinds: [{model: big}]}")
        + "faults: [{what: pool-dead, at: 5s, until: 15s}]\n"
    )
    found = told("sim", str(site), "--scenario", str(scenario))["results"]["policy"]
    assert found["refused"] > 20
    assert found["alert"]
    assert found["error_budget"] > 100
    assert [miss["objective"] for miss in found["missed"]] == ["objectives.site.availability"]


@cache
def saved(name: str) -> tuple[dict[str, Any], float]:
    found = told("sim", "dc-rack-12", "--scenario", name, "--compare")["results"]
    assert set(found) == {"policy", "all-pool", "static"}
    return found, 1 - found["policy"]["gpu_seconds"] / found["all-pool"]["gpu_seconds"]


def test_the_published_case_of_200_kiosks() -> None:
    """15% offloaded saves 78% where what is offloaded is longer: 1 - 0.15 x 1.47. See docs/routing.md."""
    found, share = saved("kiosks")
    assert found["policy"]["offload_rate"] == pytest.approx(0.15, abs=0.01)
    assert share == pytest.approx(0.78, abs=0.01)
    assert found["policy"]["doubtful"] == 0
    assert found["static"]["doubtful"] > 1000, "fixed limits save more, by giving answers that they do not trust"


def test_the_published_case_of_1000_requests_a_second() -> None:
    found, share = saved("thousand")
    assert found["policy"]["hit_rate"] == pytest.approx(0.7, abs=0.01)
    assert share == pytest.approx(0.7, abs=0.01)
    asked = told("capacity", "dc-rack-12", "--rate", "1000", "--p95", "150ms")
    assert (asked["pool_rate"], asked["in_service"]) == (pytest.approx(300), pytest.approx(60))


def test_scenarios_that_are_shipped_say_what_they_are() -> None:
    assert shipped() == ("kiosks", "thousand")
    assert load_scenario("kiosks").pis == 200


def lines(path: Path, *requests: Any) -> Path:
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return path


LINE = {"at": 0.5, "prompt_tokens": 20, "answer_tokens": 20, "confidence": 0.9}


def test_a_trace_is_replayed(scenario: Path, tmp_path: Path) -> None:
    hard = LINE | {"at": 1.5, "pi": "pi-2", "confidence": 0.2}
    trace = lines(tmp_path / "trace.jsonl", LINE, hard, hard | {"at": 2.0, "privacy": "on-device"})
    found = told("sim", "dc-rack-12", "--scenario", str(scenario), "--trace", str(trace))["results"]["policy"]
    assert (found["requests"], found["hit_rate"], found["doubtful"]) == (3, pytest.approx(2 / 3), 1)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (LINE | {"at": 0.1}, ":2 at: 0.1 is before 0.5; sort the lines by at"),
        (LINE | {"pi": "pi-99"}, ":2 pi: no Pi is called 'pi-99'; there are pi-1 to pi-8"),
        (LINE | {"prompt_tokens": 0}, ":2 prompt_tokens: Input should be greater than or equal to 1"),
        (LINE | {"at": "soon"}, ":2 at: Input should be a valid number"),
        (LINE | {"promt": 1}, ":2 promt: Extra inputs are not permitted"),
        ([], ":2 the line: Input should be an object"),
    ],
)
def test_a_bad_trace_is_told_with_its_line_and_key(scenario: Path, tmp_path: Path, second: Any, said: str) -> None:
    trace = lines(tmp_path / "trace.jsonl", LINE, second)
    done = call("sim", "dc-rack-12", "--scenario", str(scenario), "--trace", str(trace))
    assert done.exit_code == 2
    assert f"{trace}{said}" in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("duration: soon\n", ":1:1 duration: Value error, 'soon' is not a duration"),
        ("pis: 8\nload: {rat: 4}\n", ":2:8 load.rat: Extra inputs are not permitted"),
        ("load:\n  kinds:\n    - {share: 60%}\n", ":2:3 load.kinds: the shares do not add up to 100%"),
        ("rates: gpt-2\n", ":1:1 rates: Value error, no rates 'gpt-2'; write one of qwen2.5-0.5b-q4_0,"),
        ("pool: {slots: 8}\n", "pool.replicas: no model of dc-rack-12 states a pool"),
        ("load: {kinds: [{model: huge}]}\n", "load.kinds: dc-rack-12 has no model 'huge'; it has tiny"),
        (
            "faults: [{what: pool-dead, at: 9s, until: 3s}]\n",
            ":1:10 faults.0: Value error, it ends (until 3 s) before it begins",
        ),
        (
            "faults: [{what: link-cut, at: 1s, until: 9s}, {what: link-cut, at: 8s, until: 10s}]\n",
            "the file: Value error, faults: link-cut is stated twice for 8 s",
        ),
        (
            "load: {kinds: [{prompt: {median: 9, p95: 3}}]}\n",
            ":1:17 load.kinds.0.prompt: Value error, p95 (3) is less than median (9); exchange them\n",
        ),
        ("pis: [\n", ":2:1"),
        ("- 1\n", ":1:1"),
        (
            "faults: [{what: earthquake, at: 1s, until: 2s}]\n",
            ":1:11 faults.0.what: Input should be 'pool-dead' or 'link-cut'",
        ),
    ],
)
def test_a_bad_scenario_is_told_with_its_line_and_key(scenario: Path, text: str, said: str) -> None:
    scenario.write_text(text)
    done = call("sim", "dc-rack-12", "--scenario", str(scenario))
    assert done.exit_code == 2
    assert said in done.output


def test_rates_of_a_hat_are_for_pis_that_have_it(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text("rates: qwen2.5-1.5b-hailo-10h\n" + SMALL)
    found = told("sim", "dc-rack-12", "--scenario", str(scenario))["results"]["policy"]
    assert found["first_token"]["pi"]["p50"] == pytest.approx(0.325, abs=0.001)
    stated = yaml.safe_load(DC.read_text())
    del stated["pis"]["pi"]["hat"], stated["concerns"]["accelerator"]
    (tmp_path / "site.yml").write_text(json.dumps(stated))
    done = call("sim", str(tmp_path / "site.yml"), "--scenario", str(scenario))
    assert (done.exit_code, "raspberry-pi-5-8gb with no HAT" in done.output) == (2, True), done.output


def test_what_cannot_be_simulated_says_why(tmp_path: Path) -> None:
    done = call("sim", "dc-rack-12", "--scenario", "kiosk")
    assert (done.exit_code, "one of kiosks, thousand" in done.output) == (2, True)
    done = call("sim", "dc-rack-12", "--scenario", str(tmp_path / "none.yml"))
    assert done.exit_code == 2
    stated = yaml.safe_load(DC.read_text())
    without = {key: value for key, value in stated.items() if key != "models"}
    without["concerns"] = {"watchdog": {}}
    without["traffic_classes"] = {}
    (tmp_path / "site.yml").write_text(json.dumps(without))
    done = call("sim", str(tmp_path / "site.yml"))
    assert (done.exit_code, "dc-rack-12 states no models" in done.output) == (2, True), done.output
    stated["pis"]["pi"] |= {"board": "raspberry-pi-4b-8gb"}
    del stated["pis"]["pi"]["hat"], stated["concerns"]["accelerator"]
    (tmp_path / "site.yml").write_text(json.dumps(stated))
    done = call("sim", str(tmp_path / "site.yml"))
    assert done.exit_code == 2, done.output
    assert "pis.pi is raspberry-pi-4b-8gb with no HAT; choose rates of its hardware" in done.output


def test_published_rates_are_of_hardware_that_the_catalogue_knows() -> None:
    assert len(rates()) >= 7
    for name, entry in rates().items():
        assert set(entry.boards) <= set(catalogue().boards), name
        assert entry.hat is None or entry.hat in catalogue().hats, name
        assert len(entry.source) > 5


# --- pinion capacity --------------------------------------------------------------------------------------------------


def test_how_many_gpus_which_link_and_what_if_one_dies() -> None:
    found = told("capacity", "dc-rack-12", "--rate", "1000", "--local", "70%", "--service", "200ms", "--p95", "150ms")
    assert found["needed"]["gpus"] == 8
    assert found["one_dead"]["gpus"] == 7
    assert found["one_dead"]["p95"] is None, "60 in service at once do not fit into 56 slots"
    assert found["link"] == 1000
    assert found["evidence"] == EVIDENCE
    done = call("capacity", "dc-rack-12", "--rate", "1000", "--p95", "150ms")
    assert done.exit_code == 0
    assert "7: more comes than they can do, the queue grows without end" in done.output


def test_a_site_with_too_few_replicas_ends_with_1(site: Path) -> None:
    done = call("capacity", str(site), "--rate", "1000")
    assert (done.exit_code, "the site states  7: too few" in done.output) == (1, True), done.output
    site.write_text(site.read_text().replace('"replicas": 7', '"replicas": 8'))
    done = call("capacity", str(site), "--rate", "1000")
    assert (done.exit_code, "the site states  8: enough" in done.output) == (0, True), done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "1000"], "promises no latency: state objectives.site.p95, or give --p95"),
        (["--rate", "1000", "--p95", "10ms"], "no number of GPUs gives a first token within 0.01 s"),
        (["--rate", "0", "--p95", "1s"], "0"),
        (["--rate", "10", "--p95", "soon"], "'soon' is not a duration"),
        (["--rate", "1e7", "--p95", "1s", "--service", "24h"], "cannot hold them"),
    ],
)
def test_what_cannot_be_answered_says_why(words: list[str], said: str) -> None:
    done = call("capacity", "dc-rack-12", *words)
    assert (done.exit_code, said in done.output) == (2, True), done.output
