"""Options that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Contract suites live in modules of their own; without this a failure there would not say what differs.
pytest.register_assert_rewrite("unit.lab.switch.dataplane_contract")

# No test depends on how fast this machine is at the moment.
settings.register_profile("pinion", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pinion")


#: Folders whose tests share one server or rack for the whole run: one worker takes all of such a folder.
SHARING = ("cluster", "netbox", "scenarios")
HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--regenerate``: write golden files anew instead of comparing with them; look at the difference before you commit it."""
    parser.addoption("--regenerate", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--regenerate"))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests for the workers, and skip those that take minutes each unless CI_FULL=1; the summary says so."""
    for item in items:
        path = item.path.relative_to(HERE)
        item.add_marker(pytest.mark.xdist_group(path.parts[0] if path.parts[0] in SHARING else str(path)))
        if os.environ.get("CI_FULL") != "1" and item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with CI_FULL=1"))
