"""The contract of the NetBox driver: the same tests run against the in-memory store and against a real NetBox."""

import pytest

pytest.register_assert_rewrite("netbox_contract.contract")
pytest.register_assert_rewrite("netbox_contract.dependents")
