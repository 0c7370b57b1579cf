"""The driver's contract on the official NetBox."""

from __future__ import annotations

import pytest
from netbox_contract.contract import *  # noqa: F403 - pytest collects the tests of the contract here
from netbox_contract.dependents import *  # noqa: F403
from netbox_contract.handover import *  # noqa: F403

pytestmark = pytest.mark.netbox

#: The part of the contract in which the server's own rules decide: what it refuses, in which order it takes things, what it lets be
#: lost or doubled. The rest is the driver's own logic, which the same tests show in memory in every run, and here with CI_FULL=1.
SERVERS_RULES = frozenset(
    {
        "test_create_then_nothing_to_do",
        "test_parts_that_are_not_wanted_any_more_go",
        "test_a_cable_that_lost_an_end_is_mended",
        "test_what_exists_is_refused_unless_adopted",
        "test_delete_leaves_nothing_and_twice_is_fine",
        "test_a_site_in_use_stays_and_says_why",
        "test_stale_versions_are_refused",
        "test_two_drivers_that_race_make_one_of_each",
        "test_doubles_are_told_and_dropped",
        "test_netbox_moves_no_primary_address_and_no_primary_mac",
        "test_netbox_takes_one_device_a_rack_unit",
        "test_a_vlan_may_leave_its_group_with_all_that_hangs_on_it",
        "test_two_vlans_exchange_names",
        "test_all_that_others_hang_on_a_unit_at_once_stays_and_is_named",
        "test_what_was_there_before_us_keeps_what_we_made",
        "test_cables_that_must_make_room_stay_with_what_hangs_on_them",
        "test_what_netbox_only_blanks_keeps_nothing",
        "test_what_netbox_made_from_a_template_goes_with_the_device_unless_somebody_touched_it",
        "test_without_the_right_to_see_a_kind_nothing_is_deleted_and_the_right_is_named",
    }
)
assert globals().keys() >= SERVERS_RULES, f"no such tests: {SERVERS_RULES - globals().keys()}"


@pytest.fixture
def order() -> str:
    """Exchanges in one batch of lists, which is where servers differ; the other orders are the same calls, and run in memory."""
    return "together"
