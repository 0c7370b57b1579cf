"""Ansible module: bring the host to the planned state of its concerns."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.onhost import engine, wanted
from ansible.module_utils.onhost.machine import HostError
from ansible.module_utils.onhost.main import answer, this_host

DOCUMENTATION = """
module: pinion_host
short_description: Bring a host to the planned state of its concerns
description:
  - Takes concerns of a Pinion HostPlan (packages, users, folders, files, kernel arguments, modules and parameters, units) and makes them
    so in one locked, journaled run.
  - A run that was killed anywhere is finished by the next one.
  - What an earlier version of a concern placed and this one no longer states is taken back.
  - In playbooks the action plugin of the same name is used, which takes the concerns from the inventory.
options:
  action:
    description:
      - C(apply) brings the host to the concerns.
      - C(confirm) says, over a fresh login, that a change which could have locked us out is good. Without it the host undoes that change.
      - C(undo) takes back all that the concerns placed.
      - C(back) takes every concern that the run O(of) changed back to what it was before.
    type: str
    choices: [apply, confirm, undo, back]
    default: apply
  concerns:
    description: The concerns, as the inventory gives them in C(pinion_host.concerns), in order.
    type: list
    elements: dict
    required: true
  whole:
    description: Whether O(concerns) are all that the host is to have, so that others that it has are taken back.
    type: bool
    default: false
  run:
    description: What the controller calls this run.
    type: str
    default: ""
  of:
    description: The run to take back.
    type: str
    default: ""
  wait:
    description: Seconds to wait for another run on the same host.
    type: int
    default: 300
attributes:
  check_mode: {support: full}
  diff_mode: {support: full}
author: Pinion
"""

EXAMPLES = """
- name: Bring the host to its planned state
  pinion_host:

- name: Only one concern
  pinion_host:
    only: [os_tuning]
"""

RETURN = """
changes:
  description: What differed, each with concern, kind, subject, before and after.
  returned: always
  type: list
  elements: dict
confirm:
  description: The concerns for which the host waits for C(action=confirm) over a fresh login.
  returned: always
  type: list
  elements: str
reboot:
  description: What waits for the next boot.
  returned: always
  type: list
  elements: str
notes:
  description: What stays although its concern is gone, and why.
  returned: always
  type: list
  elements: str
waited:
  description: Seconds spent behind another run on this host.
  returned: always
  type: float
"""


class Module(AnsibleModule):  # type: ignore[misc]
    """The module; it does not write its parameters to the host's log, because contents of files may be secret."""

    def _log_invocation(self) -> None:
        names = ", ".join(concern.get("name", "?") for concern in self.params["concerns"])
        self.log(f"{self.params['action']} {names}")


def main() -> None:
    """Run the module."""
    module = Module(
        argument_spec={
            "action": {"type": "str", "choices": ["apply", "confirm", "undo", "back"], "default": "apply"},
            "concerns": {"type": "list", "elements": "dict", "required": True},
            "whole": {"type": "bool", "default": False},
            "run": {"type": "str", "default": ""},
            "of": {"type": "str", "default": ""},
            "wait": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    request: dict[str, Any] = {**module.params, "who": f"Ansible as {os.environ.get('SUDO_USER', 'root')}"}
    if module.check_mode and request["action"] in {"apply", "undo"}:
        if request["action"] == "undo":
            request["concerns"] = [{"name": concern["name"]} for concern in request["concerns"]]
        request["action"] = "check"
    shown = {**module.params, "concerns": [concern.get("name") for concern in request["concerns"]]}
    found = engine.Report(())
    try:
        if not module.check_mode or request["action"] == "check":
            found = answer(request, this_host())
    except (HostError, wanted.BadRequestError, OSError) as error:
        module.fail_json(msg=str(error), invocation={"module_args": shown})
    differences = [
        {
            "before_header": f"{change.concern}: {change.kind} {change.subject}",
            "after_header": f"{change.concern}: {change.kind} {change.subject}",
            "before": _lines(change.before),
            "after": _lines(change.after),
        }
        for change in found.changes
    ]
    module.exit_json(
        changed=bool(found.changes), diff=differences, invocation={"module_args": shown}, **found.as_json()
    )


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


if __name__ == "__main__":
    main()
