"""The driver's contract on the official NetBox."""

from __future__ import annotations

import pytest
from netbox_contract.contract import *  # noqa: F403 - pytest collects the tests of the contract here

pytestmark = pytest.mark.netbox
