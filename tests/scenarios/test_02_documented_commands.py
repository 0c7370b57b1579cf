"""Scenario 2: what the pages show for a rack that is up works as shown, in the order shown, at the place that `make shell` gives."""

from __future__ import annotations

import re

import pytest
from documented_commands import Fence, fences

from scenarios.rack import SITE, Rack

FENCES = [fence for fence in fences() if fence.place == "rack"]


def of_this_site(command: str) -> str:
    """*command* with the name of this rack's site for the lab's: the one difference to what the page shows."""
    return re.sub(r"(?<![\w.-])lab(?![\w.-])", SITE, command)


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_shown_commands_work_in_the_shell_of_the_rack(rack: Rack, fence: Fence) -> None:
    for command in fence.commands:
        rack.inside("bash", "-euo", "pipefail", "-c", of_this_site(command))


def test_only_the_name_of_the_site_is_another() -> None:
    shown = [
        "pulumi preview --stack lab  # x",
        "ansible-playbook -i inventories/lab/site.yml",
        "python -m pinion.lab.up",
    ]
    assert [of_this_site(command) for command in shown] == [
        f"pulumi preview --stack {SITE}  # x",
        f"ansible-playbook -i inventories/{SITE}/site.yml",
        "python -m pinion.lab.up",
    ]
