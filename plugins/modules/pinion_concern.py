"""Ansible module: bring the host to the planned state of one concern."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.onhost import engine, wanted
from ansible.module_utils.onhost.machine import HostError
from ansible.module_utils.onhost.main import this_host

DOCUMENTATION = """
module: pinion_concern
short_description: Bring a host to the planned state of one concern
description:
  - Takes one concern of a Pinion HostPlan (packages, users, files, kernel parameters, units) and makes it so in one locked, journaled run.
  - A run that was killed anywhere is finished by the next one.
  - What an earlier version of the concern placed and this one no longer states is taken back.
options:
  concern:
    description: The concern, as the inventory gives it in C(pinion_host.concerns).
    type: dict
    required: true
  state:
    description:
      - C(applied) brings the host to it.
      - C(confirmed) says, over a fresh login, that a change which could have locked us out is good. Without it the host undoes that change.
      - C(undone) takes back all that the concern placed.
    type: str
    choices: [applied, confirmed, undone]
    default: applied
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
  pinion_concern:
    concern: "{{ pinion_host.concerns.os_tuning }}"
"""

RETURN = """
changes:
  description: What differed, each with kind, subject, before and after.
  returned: always
  type: list
  elements: dict
confirm:
  description: Whether the host waits for C(state=confirmed) over a fresh login.
  returned: always
  type: bool
waited:
  description: Seconds spent behind another run on this host.
  returned: always
  type: float
"""


def report(module: AnsibleModule) -> engine.Report:
    """Do what the parameters ask."""
    host, concern = this_host(), wanted.concern(module.params["concern"])
    state, wait = module.params["state"], float(module.params["wait"])
    who = f"Ansible as {os.environ.get('SUDO_USER', 'root')}"
    if state == "undone":
        concern = wanted.Concern(concern.name)
    if module.check_mode:
        return engine.check(host, concern)
    if state == "confirmed":
        engine.confirm(host, concern, wait=wait, who=who)
        return engine.Report((), confirm=False)
    return engine.converge(host, concern, wait=wait, who=who)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "concern": {"type": "dict", "required": True},
            "state": {"type": "str", "choices": ["applied", "confirmed", "undone"], "default": "applied"},
            "wait": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    try:
        found = report(module)
    except (HostError, wanted.BadRequestError, OSError) as error:
        module.fail_json(msg=str(error))
    said = found.as_json()
    differences = [
        {
            "before_header": f"{change.kind} {change.subject}",
            "after_header": f"{change.kind} {change.subject}",
            "before": _lines(change.before),
            "after": _lines(change.after),
        }
        for change in found.changes
    ]
    module.exit_json(changed=bool(found.changes), diff=differences, **said)


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


if __name__ == "__main__":
    main()
