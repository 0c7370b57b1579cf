"""The concerns of Pis and GPU servers on dc-rack-12, as texts in `tests/golden/node_concerns`."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.hosts.nodes import PAGES, shown

from pinion.plan.model import Concern

GOLDEN = Path(__file__).parent / "node_concerns"


def _text(host: str, found: Concern) -> str:
    """All of a concern but the commands of its claims, for people to read."""
    lines = [f"host {host}"]
    lines += [f"package {name}" for name in found.packages]
    lines += [f"no package {name}" for name in found.packages_absent]
    lines += [f"user {user.name}" for user in found.users]
    lines += [f"folder {entry.path} {entry.owner}:{entry.group} {entry.mode}" for entry in found.directories]
    lines += [f"kernel argument {entry.argument} in {entry.file}" for entry in found.kernel_arguments]
    lines += [f"module {entry.name}" for entry in found.modules]
    lines += [f"sysctl {entry.key} = {entry.value}" for entry in found.sysctls]
    for unit in found.units:
        lines.append(f"unit {unit.name} enabled={unit.enabled} active={unit.active} masked={unit.masked}")
    lines += [f"package {name} counts from the next boot on" for name in found.packages_need_reboot]
    lines += [f"unit {unit.name} waits for {waited}" for unit in found.units for waited in unit.after_boot]
    for claim in found.claims:
        lines.append(f"claim {claim.name}: {claim.claim} {claim.expected!r}")
        lines += [f"  waits for {waited}" for waited in claim.after_boot]
    for file in found.files:
        lines.append(f"file {file.path} {file.owner}:{file.group} {file.mode} reboot={file.needs_reboot}")
        lines += ["  before packages"] if file.for_packages else []
        lines += [f"  reload {name}" for name in file.notify]
        lines += [f"  restart {name}" for name in file.restart]
        lines += [f"  run {command}" for command in file.run]
        lines += [f"  | {line}".rstrip() for line in file.content.splitlines()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", PAGES)
def test_golden(name: str, regenerate: bool) -> None:
    host, found = shown(name)
    path = GOLDEN / f"{name}.txt"
    text = _text(host.name, found)
    if regenerate:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run with --regenerate, then look at the difference"


def test_no_golden_without_a_concern() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PAGES)
