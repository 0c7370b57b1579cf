"""Options that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Contract suites live in modules of their own; without this a failure there would not say what differs.
pytest.register_assert_rewrite("unit.lab.switch.dataplane_contract")

# No test depends on how fast this machine is at the moment.
settings.register_profile("pinion", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pinion")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--regenerate``: write golden files anew instead of comparing with them; look at the difference before you commit it."""
    parser.addoption("--regenerate", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--regenerate"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take minutes each run when CI_FULL=1; otherwise they are skipped, and the summary says so."""
    if os.environ.get("CI_FULL") == "1":
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with CI_FULL=1"))
