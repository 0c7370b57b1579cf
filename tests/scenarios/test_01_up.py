"""Scenario 1: from nothing to a proved rack; again with nothing to do; isolation is real."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import requests

from scenarios.command_lines import collected
from scenarios.rack import SITE, Rack

#: Number of the capability (linux/capability.h).
CAP_SYS_TIME = 25


def test_everything_is_proved(rack: Rack, tmp_path: Path) -> None:
    done = rack.inside(
        "pinion", "verify", str(rack.site_file), "--json", "--report", str(tmp_path / "r.html"), check=False
    )
    answer = json.loads(done.stdout)
    wrong = [f["check"]["claim"] + ": " + f["found"] for f in answer["findings"] if f["outcome"] != "proved"]
    assert wrong == []
    assert done.returncode == 0
    assert answer["summary"]["proved"] > 100
    assert set(answer["evidence"]) >= {"emulated", "measured"}
    page = (tmp_path / "r.html").read_text()
    assert SITE in page
    assert "✗" not in page


def test_a_second_up_changes_nothing_anywhere(rack: Rack) -> None:
    stages = [(stage["stage"], stage["changes"]) for stage in rack.up()]
    assert stages == [(name, 0) for name in ("lab", "stack", "sources", "pulumi", "hosts", "verify")]


def test_kubectl_works_in_the_shell_as_it_stands_in_readme(rack: Rack) -> None:
    nodes = rack.inside("kubectl", "get", "nodes").stdout.splitlines()
    assert {line.split()[0] for line in nodes[1:]} >= {"nv-1"}
    assert all(line.split()[1] == "Ready" for line in nodes[1:]), nodes


def test_no_machine_may_set_the_clock(rack: Rack) -> None:
    """It is everybody's; and chronyd, which the plan has not running in a lab, starts with each boot where it may."""
    for name in rack.store.machine_names():
        status = rack.machine(name).run(["cat", "/proc/1/status"]).stdout
        (held,) = re.findall(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
        assert not int(held, 16) >> CAP_SYS_TIME & 1, name


@pytest.fixture(scope="module")
def said(rack: Rack) -> str:
    """What a third `up` says."""
    return rack.pinion("up", str(rack.site_file), "--instance", rack.instance).stdout


def test_up_says_who_logs_in_to_netbox_and_where_the_password_lies(rack: Rack, said: str) -> None:
    (line,) = [line for line in said.splitlines() if line.startswith("NetBox ")]
    url, user, file = re.fullmatch(r"NetBox   (\S+) as (\S+); the password is in (\S+)", line).groups()  # type: ignore[union-attr]
    password = Path(file).read_text().strip()
    assert password not in said
    with requests.Session() as session:
        session.trust_env = False
        page = session.get(f"{url}login/", timeout=60)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token is not None, page.text[:500]
        given = {"username": user, "password": password, "csrfmiddlewaretoken": token.group(1)}
        entered = session.post(f"{url}login/", data=given, headers={"Referer": url}, timeout=60)
        assert entered.status_code == 200
        assert "Log Out" in entered.text or "/logout/" in entered.text


def test_a_pod_answers_on_the_gpu_server(rack: Rack) -> None:
    pods = json.loads(rack.kubectl("get", "pods", "-n", "edge-services", "-o", "json"))["items"]
    assert pods
    assert {pod["spec"]["nodeName"] for pod in pods} == {"nv-1"}
    assert all(pod["status"]["phase"] == "Running" for pod in pods)


def test_a_model_answers_on_the_gpu_server_and_up_says_where_and_how_soon(rack: Rack, said: str) -> None:
    (pod,) = json.loads(rack.kubectl("get", "pods", "-n", "models", "-o", "json"))["items"]
    assert pod["spec"]["nodeName"] == "nv-1"
    server = f"http://{pod['status']['podIP']}:8000/v2"
    rack.inside("curl", "--silent", "--fail", "--noproxy", "*", f"{server}/health/ready")
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["The "]}
    length = {"name": "max_tokens", "datatype": "INT32", "shape": [1, 1], "data": [4]}
    asked = json.dumps({"inputs": [text, length]})
    infer = ("curl", "--silent", "--noproxy", "*", "--data", asked, f"{server}/models/pinion-tiny/infer")
    outputs = {output["name"]: output["data"] for output in json.loads(rack.inside(*infer).stdout)["outputs"]}
    assert len(outputs["tokens"]) == 4
    assert outputs["text_output"][0]
    (line,) = [line for line in said.splitlines() if line.startswith("model ")]
    told = r"answer: .+; latency: \d+ ms; median \d+ ms, 40 of 40 answered"
    expected = rf"model    pinion-tiny by Triton at triton-pinion-tiny\.models:8000; {told}"
    assert re.fullmatch(expected, line), line


def secrets(rack: Rack) -> list[str]:
    """What the rack was brought up with and nobody else may know."""
    known = rack.endpoints()
    found = [
        Path(known["netbox"]["token_file"]).read_text().strip(),
        Path(known["switches"]["tor-1"]["password_file"]).read_text().strip(),
    ]
    assert all(len(secret) >= 12 for secret in found)
    return found


def test_secrets_are_nowhere_in_the_clear(rack: Rack) -> None:
    files = [path for path in (rack.root / ".pulumi-state").rglob("*") if path.is_file()] + list(
        rack.root.glob("Pulumi.*.yaml")
    )
    assert len(files) > 2
    for path in files:
        text = path.read_bytes()
        assert not any(secret.encode() in text for secret in secrets(rack)), f"a secret stands in {path}"


def test_secrets_were_in_no_programs_arguments_while_it_came_up(rack: Rack, command_lines: set[bytes]) -> None:
    programs = {Path(line.split(b"\0")[0].decode(errors="replace")).name for line in command_lines}
    assert {"pulumi", "ssh"} <= programs, "who looks sees what runs"
    # a NetBox token is a key and a secret, and either would be a find
    wanted = [*secrets(rack), *(secret.rpartition(".")[2] for secret in secrets(rack))]
    wanted.append((rack.root / ".pulumi-state/passphrase").read_text())
    for line in command_lines:
        assert not any(secret.encode() in line for secret in wanted), line.split(b"\0")[:3]


def test_who_looks_at_arguments_sees_them() -> None:
    with collected() as seen:
        subprocess.run(["sh", "-c", "sleep 1", "an-argument"], check=True)
    assert b"sh\0-c\0sleep 1\0an-argument\0" in seen
