"""The driver's contract on the official NetBox."""

from __future__ import annotations

import pytest
from netbox_contract.contract import *  # noqa: F403 - pytest collects the tests of the contract here
from netbox_contract.handover import *  # noqa: F403

pytestmark = pytest.mark.netbox


@pytest.fixture
def order() -> str:
    """Exchanges in one batch of lists, which is where servers differ; the other orders are the same calls, and run in memory."""
    return "together"
