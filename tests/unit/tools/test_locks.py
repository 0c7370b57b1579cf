"""Lock files: pinned, hashed, no addresses, and in step with the requirement files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

from lock import LOCKS, Lock

REPOSITORY = Path(__file__).resolve().parents[3]


def entries(lock: Lock) -> list[str]:
    """Return the logical lines of a lock file: requirement and its hashes."""
    text = (REPOSITORY / lock.output).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def pins(lock: Lock) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for line in entries(lock):
        requirement = Requirement(line.split(" --hash=")[0].strip())
        found.setdefault(normal(requirement.name), []).append(requirement)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.output)
def test_every_entry_is_pinned_and_hashed(lock: Lock) -> None:
    assert entries(lock)
    for line in entries(lock):
        assert re.match(r"[A-Za-z0-9._-]+==[^\s;]+", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line


def test_no_requirement_file_names_a_host() -> None:
    files = [
        *REPOSITORY.glob("requirements/*.txt"),
        *REPOSITORY.glob("requirements/*.in"),
        *REPOSITORY.glob("src/pinion/lab/netbox/requirements.*"),
        *REPOSITORY.glob("src/pinion/lab/triton/requirements.*"),
    ]
    assert len(files) >= 12
    for file in files:
        text = file.read_text()
        assert "://" not in text, file
        assert not re.search(
            r"^\s*(-i|--index-url|--extra-index-url|--find-links|-f|--trusted-host)\b", text, re.MULTILINE
        ), file


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.output)
def test_the_lock_satisfies_what_it_is_compiled_from(lock: Lock) -> None:
    locked = pins(lock)
    environment = {str(key): str(value) for key, value in default_environment().items()}
    environment |= {"python_version": lock.python, "python_full_version": f"{lock.python}.9"}
    for source in lock.inputs:
        for line in (REPOSITORY / source).read_text().splitlines():
            text = line.partition("#")[0].strip()
            if not text:
                continue
            wanted = Requirement(text)
            found = [
                pin for pin in locked.get(normal(wanted.name), []) if not pin.marker or pin.marker.evaluate(environment)
            ]
            assert found, f"{source}: {text} is not in {lock.output}: make lock"
            version = next(iter(found[0].specifier)).version
            assert wanted.specifier.contains(version, prereleases=True), (
                f"{source}: {text}, locked is {version}: make lock"
            )


def test_what_runs_is_what_was_tested() -> None:
    by_name = {lock.output: pins(lock) for lock in LOCKS}
    tested, runs = by_name["requirements/dev.txt"], by_name["requirements/runtime.txt"]
    for name, requirements in runs.items():
        assert {str(item.specifier) for item in requirements} <= {str(item.specifier) for item in tested[name]}, name
