"""Options that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

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
