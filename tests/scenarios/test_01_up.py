"""Scenario 1: from nothing to a proved rack; again with nothing to do; isolation is real."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import requests

from scenarios.command_lines import collected
from scenarios.rack import SITE, Rack


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
    stages = rack.up()
    assert [stage["stage"] for stage in stages] == ["lab", "stack", "pulumi", "hosts", "verify"]
    assert {stage["stage"]: stage["changes"] for stage in stages} == dict.fromkeys(
        ["lab", "stack", "pulumi", "hosts", "verify"], 0
    )


def test_kubectl_works_in_the_shell_as_it_stands_in_readme(rack: Rack) -> None:
    nodes = rack.inside("kubectl", "get", "nodes").stdout.splitlines()
    assert {line.split()[0] for line in nodes[1:]} >= {"nv-1"}
    assert all(line.split()[1] == "Ready" for line in nodes[1:]), nodes


def test_up_says_who_logs_in_to_netbox_and_where_the_password_lies(rack: Rack) -> None:
    said = rack.pinion("up", str(rack.site_file), "--instance", rack.instance).stdout
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
