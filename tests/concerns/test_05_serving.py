"""A real model, really served: a file on the management host, fetched over the fabric, in llama-server on a Pi; and what can go wrong."""

from __future__ import annotations

import json
import shlex

from lab.draining import answers_and_refuses
from lab.serving_rack import CONCERNS, PORT, reference, until

from concerns.rack import ConcernsRack
from pinion.lab.models.part import UNIT as FILES
from pinion.plan.concerns.model_store import FOLDER, TIMER
from pinion.plan.concerns.model_store import SERVICE as STORE
from pinion.plan.edge_units import HEALTH_SERVICE, HEALTH_TIMER, PATH_UNIT, SERVICE, USER
from pinion.plan.programs import FOLDER as PROGRAMS

#: Files that have lines for others too; the snapshot has the lines of accounts by themselves.
SHARED = ("  /etc/passwd", "  /etc/group", "  /etc/pinion/firewall.nft")


def test_other_hosts_get_the_answer_of_the_reference(rack: ConcernsRack) -> None:
    wanted = reference(rack)
    for source, name in (("pi-02", "pi-01"), ("mgmt-1", "pi-01"), ("pi-01", "pi-02")):
        answer = rack.completion(source, name)
        assert (answer["tokens"], answer["content"]) == (wanted["tokens"], wanted["text"])
    assert json.loads(rack.on("pi-02", f"curl -sf {rack.url('pi-01', '/health')}")) == {"status": "ok"}
    metrics = dict(
        line.split()
        for line in rack.on("mgmt-1", f"curl -sf {rack.url('pi-01', '/metrics')}").splitlines()
        if line[0] != "#"
    )
    assert float(metrics["llamacpp:tokens_predicted_total"]) >= 2 * len(wanted["tokens"])
    completion = {"prompt": wanted["prompt"], "max_tokens": len(wanted["tokens"]), "temperature": 0}
    asked = f"curl -sf -d {shlex.quote(json.dumps(completion))} {rack.url('pi-01', '/v1/completions')}"
    assert json.loads(rack.on("mgmt-1", asked))["choices"][0]["text"] == wanted["text"]


def test_only_planned_sources_are_let_in(rack: ConcernsRack) -> None:
    """An address of the edge network that the plan gives to nobody reaches neither the engine nor the model's file."""
    rack.on("pi-02", "ip address add 10.77.101.200/24 dev eth0")
    try:
        for url in (rack.url("pi-01", "/health"), f"http://mgmt-1:{PORT}/"):
            asked = "curl --silent --output /dev/null --max-time {} {} {}; echo $?"
            assert rack.on("pi-02", asked.format(20, "", url)).strip() == "0"
            assert rack.on("pi-02", asked.format(1, "--interface 10.77.101.200", url)).strip() == "28", (
                "no answer at all"
            )
    finally:
        rack.on("pi-02", "ip address delete 10.77.101.200/24 dev eth0")


def test_the_engine_runs_behind_its_fences(rack: ConcernsRack) -> None:
    status = dict(
        line.split(":", 1) for line in rack.on("pi-01", f"cat /proc/{rack.process('pi-01')}/status").splitlines()
    )
    user = rack.on("pi-01", f"id -u {USER}").strip()
    assert status["Uid"].split() == [user] * 4
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    mounts = rack.on("pi-01", f"cat /proc/{rack.process('pi-01')}/mounts").splitlines()
    (root,) = [line.split()[3].split(",")[0] for line in mounts if line.split()[1] == "/"]
    assert root == "ro"
    served = rack.on("mgmt-1", f"ps -o user= -p $(systemctl show -p MainPID --value {FILES})").strip()
    assert served != "root"
    assert rack.on("mgmt-1", "touch /srv/pinion-models/new 2>&1; true").endswith("Read-only file system\n")
    assert rack.key.stat().st_mode & 0o777 == 0o600


def test_stopped_under_requests_it_answers_those_and_refuses_others(rack: ConcernsRack) -> None:
    """As before a reboot, and as a pod does (tests/lab/test_edge_cluster.py)."""
    process = rack.process("pi-01")
    assert process, "it serves"
    answers_and_refuses(rack, "pi-01", process, f"systemctl restart {SERVICE}")
    assert rack.process("pi-01") not in {0, process}


def test_one_that_hangs_is_restarted(rack: ConcernsRack) -> None:
    """For systemd it runs; the health timer's service finds out, started here at once and not half a minute later."""
    process = rack.process("pi-01")
    assert process, "it serves"
    rack.on("pi-01", f"kill -STOP {process}; systemctl start {HEALTH_SERVICE}")
    until(lambda: rack.process("pi-01") not in {0, process} and rack.serves("pi-01"), "it serves again", rack)
    assert f"restarting {SERVICE}" in rack.on("pi-01", f"journalctl --no-pager -u {HEALTH_SERVICE}")


def test_killed_it_comes_back_but_not_with_a_model_that_was_changed_on_the_disk(rack: ConcernsRack) -> None:
    rack.on("mgmt-1", f"systemctl stop {FILES}")
    before = {name: rack.process(name) for name in ("pi-01", "pi-02")}
    assert all(before.values()), "both serve"
    try:
        rack.on("pi-01", f"printf tampered | dd of={FOLDER}/tiny/current bs=1 seek=1000000 conv=notrunc status=none")
        for how, said in (("--check", "is not as it was checked"), ("--check --hash", "was changed")):
            assert rack.on("pi-01", f"{PROGRAMS}/model-store {how}; true").strip().endswith(said)
        for name, process in before.items():
            rack.on(name, f"kill -9 {process}")
        refused = f"journalctl --no-pager -u {SERVICE} | grep -c 'is not as it was checked'; true"
        until(lambda: int(rack.on("pi-01", refused)) > 0, "it is refused", rack)
        until(lambda: rack.process("pi-02") not in {0, before["pi-02"]}, "pi-02 comes back", rack, "pi-02")
        until(lambda: rack.serves("pi-02"), "pi-02 serves", rack, "pi-02")
        assert not rack.serves("pi-01")
        state = rack.on("pi-01", f"systemctl start {STORE} 2>/dev/null; systemctl show -p Result --value {STORE}")
        assert state.strip() == "exit-code", "nobody has the right file for it"
        assert rack.on("pi-01", f"ls {FOLDER}/.files").split() == [], "what was changed is thrown away"
    finally:
        rack.on("mgmt-1", f"systemctl start {FILES}")
    rack.on("pi-01", f"systemctl start {STORE}")
    until(lambda: rack.serves("pi-01"), "it serves again", rack)
    for name in before:
        assert rack.completion("mgmt-1", name)["tokens"] == reference(rack)["tokens"]


def test_after_a_power_cut_it_serves_again_and_pyinfra_finds_no_more_to_do(rack: ConcernsRack) -> None:
    rack.cut("pi-01")
    until(lambda: rack.serves("pi-01"), "it serves after the boot", rack)
    assert rack.completion("pi-02", "pi-01")["tokens"] == reference(rack)["tokens"]
    assert rack.changed("pyinfra", "pi-01", "pi-02") == 0


def test_taken_out_of_the_site_they_leave_and_nothing_else_does(rack: ConcernsRack) -> None:
    stated = rack.host("pi-01").concerns
    placed = [file.path for name in CONCERNS for file in stated[name].files]
    before = set(rack.snapshot("pi-01"))
    rack.without(*CONCERNS)
    assert rack.changed("ansible", "pi-01")
    assert rack.on("pi-01", f"for file in {' '.join(placed)}; do [ -e $file ] && echo $file; done; true") == ""
    units = f"{SERVICE} {PATH_UNIT} {HEALTH_TIMER} {TIMER} {STORE}"
    assert set(rack.on("pi-01", f"systemctl is-active {units}; true").split()) == {"inactive"}
    assert rack.on("pi-01", "ss -Hltn 'sport = :8080'; pgrep -f [l]lama-server || true") == ""
    assert rack.on("pi-01", f"readlink -e {FOLDER}/tiny/current"), "gigabytes are not fetched twice by accident"
    assert rack.changed("pyinfra", "pi-01") == 0
    gone, new = before - (after := set(rack.snapshot("pi-01"))), after - before
    notes = [f"/var/lib/pinion/concerns/{name}.json" for name in CONCERNS]
    own = (*placed, *notes, "pinion-edge", "pinion-model-store", *SHARED)
    assert [line for line in gone if not any(word in line for word in own)] == []
    assert [line for line in new if not line.endswith(SHARED)] == []
