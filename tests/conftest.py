"""Options that all tests share."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import HealthCheck, settings
from thoroughness import FULL
from xdist.scheduler import LoadScopeScheduling

# Contract suites live in modules of their own; without this a failure there would not say what differs.
pytest.register_assert_rewrite("unit.lab.switch.dataplane_contract")

# No test depends on how fast this machine is at the moment.
settings.register_profile(
    "pinion", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200 if FULL else 50
)
settings.load_profile("pinion")


#: Folders whose tests share one server or rack for the whole run: one worker takes all of such a folder.
SHARING = ("cluster", "concerns", "netbox", "scenarios")
#: Markers of tests that a run leaves out unless CI_FULL=1, and why.
SKIPPED = {
    "slow": "takes minutes: run with CI_FULL=1",
    "variant": "another way to what a test of this run shows: all ways with CI_FULL=1",
    "vm": "a virtual machine under emulation, half an hour: make test-vm, or CI_FULL=1",
}
#: Folders and files that a run with several workers begins with, so that none of them is left to one worker at the end.
LONGEST = (
    "scenarios",
    "concerns",
    "netbox",
    "test_edge_cluster.py",
    "test_hosts.py",
    "cluster",
    "test_machines_recovery.py",
    "test_switch.py",
    "test_cluster.py",
    "test_kill.py",
    "test_faults.py",
    "test_netbox_stack.py",
    "test_eos_failures.py",
    "test_eos_kills.py",
    "test_carriers.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--regenerate``: write golden files anew instead of comparing with them; look at the difference before you commit it."""
    parser.addoption("--regenerate", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--regenerate"))


def pytest_report_header() -> str:
    """How thorough this run is."""
    return "thoroughness: " + ("all seeded points" if FULL else "some of the seeded points; all with CI_FULL=1")


class TogetherScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker whole files, and whole folders of those whose tests share one server or rack."""

    def _split_scope(self, nodeid: str) -> str:
        path = PurePosixPath(nodeid.partition("::")[0])
        folder = path.parent.name
        return folder if folder in SHARING else str(path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> TogetherScheduling:
    """How workers (``-n``) share the tests: in the order of collection, so that the longest begin first."""
    config.option.loadscopereorder = False
    return TogetherScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; tests that take minutes each, and variants, are skipped unless CI_FULL=1, and the summary says so."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    last = len(rank)
    items.sort(key=lambda item: min(rank.get(item.path.name, last), rank.get(item.path.parent.name, last)))
    if FULL:
        return
    for item in items:
        for name, reason in SKIPPED.items():
            if item.get_closest_marker(name) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
