"""What the plan says of the concern gpu_driver: one version for all that must have one."""

from __future__ import annotations

import fnmatch
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.hosts.nodes import concern, file, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.gpu_driver import CONFIG_FILE, MODES_UNIT, MPS_UNIT, PIN_FILE, locked_packages
from pinion.plan.model import Concern, DeviceKind
from pinion.site.catalog import load
from pinion.site.concerns import Concerns

GPU = DeviceKind.GPU_SERVER


def found(**settings: Any) -> Concern:
    return concern(stated(DC, {"gpu_driver": {"version": "580.95.05"} | settings}), GPU, "gpu_driver")


def pins(text: str) -> dict[str, str]:
    """The one stanza of an apt preferences file."""
    lines = [line.split(": ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {key: value for key, value in lines}  # noqa: C416 - a stanza with a line that is none is an error


def test_all_that_must_have_one_version_is_held_to_it() -> None:
    pinned = pins(file(found(), PIN_FILE).content)
    assert pinned["Pin"] == "version 580.95.05-*"
    assert int(pinned["Pin-Priority"]) > 1000, "else apt never goes back"
    globs = pinned["Package"].split()
    for package in locked_packages(load().servers["dgx-h100"]):
        assert package in found().packages
        assert any(fnmatch.fnmatch(package, glob) for glob in globs), package


def test_the_pin_comes_first_and_only_what_is_there_in_another_version_is_brought_to_it(tmp_path: Path) -> None:
    pin = file(found(), PIN_FILE)
    assert pin.for_packages
    (command,) = pin.run
    for name, text in (
        ("dpkg-query", f"cat {tmp_path}/status"),
        ("apt-get", f'echo "$@" >>{tmp_path}/asked'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def asked(status: str) -> list[str]:
        (tmp_path / "status").write_text(status)
        (tmp_path / "asked").write_text("")
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        subprocess.run(
            ["/bin/sh", "-c", command.replace(PIN_FILE, str(tmp_path / "status"))], env=environment, check=True
        )
        return (tmp_path / "asked").read_text().splitlines()

    assert asked("") == [], "the first run installs them afterwards, with the pin"
    assert asked("not-installed nvidia-open\n") == []
    both = "installed nvidia-open\ninstalled nvidia-persistenced\nconfig-files nvidia-fabricmanager\n"
    brought = "-y -q --no-install-recommends --allow-downgrades install nvidia-open nvidia-persistenced"
    assert asked(both) == [brought], "in one transaction"
    subprocess.run(["/bin/sh", "-c", command.replace(PIN_FILE, "/nowhere")], env={"PATH": "/usr/bin:/bin"}, check=True)


def test_the_version_is_claimed_of_the_packages_and_of_the_loaded_driver() -> None:
    claimed = {claim.name: claim.expected for claim in found().claims}
    assert claimed == {
        "packages": "580.95.05",
        "module": "580.95.05",
        "gpus": "8",
        "modes": "as-planned",
        "fabric": "Completed",
    }


def test_the_fabric_manager_is_for_servers_with_nvswitches() -> None:
    server = load().servers["dgx-h100"]
    assert "nvidia-fabricmanager" in locked_packages(server)
    assert "nvidia-fabricmanager" not in locked_packages(server.model_copy(update={"nvswitch": False}))
    units = {unit.name for unit in found().units}
    assert {"nvidia-fabricmanager.service", "nvidia-persistenced.service", "nvidia-dcgm-exporter.service"} <= units


def test_mig_and_mps() -> None:
    whole = found()
    assert json.loads(file(whole, CONFIG_FILE).content) == {"mig": []}
    assert MPS_UNIT not in {unit.name for unit in whole.units}
    assert MODES_UNIT in {unit.name for unit in whole.units}
    assert json.loads(file(found(mig=["3g.40gb", "3g.40gb"]), CONFIG_FILE).content) == {"mig": ["3g.40gb", "3g.40gb"]}
    shared = found(mps="25%")
    assert MPS_UNIT in {unit.name for unit in shared.units}
    unit = file(shared, f"/etc/systemd/system/{MPS_UNIT}").content
    assert "Environment=CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25" in unit.splitlines()


@pytest.mark.parametrize("version", ["580.95.05", "570.195.03", "535.288"])
def test_versions(version: str) -> None:
    assert Concerns.model_validate({"gpu_driver": {"version": version}}).gpu_driver is not None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"version": "latest"},
        {"version": "580"},
        {"version": "580.95.05-1"},
        {"version": "580.95", "mig": ["8g.80gb"]},
    ],
)
def test_what_is_no_version_or_no_profile_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="gpu_driver"):
        Concerns.model_validate({"gpu_driver": settings})


def test_a_server_without_gpus_gets_no_driver() -> None:
    lab = stated(LAB, {"gpu_driver": {"version": "580.95.05"}})
    assert not any("gpu_driver" in host.concerns for host in lab.hosts)
