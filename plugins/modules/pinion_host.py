"""Ansible module: bring the host to the planned state of its concerns. The action plugin of the same name does it; this is its page."""

from __future__ import annotations

DOCUMENTATION = """
module: pinion_host
short_description: Bring a host to the planned state of its concerns
description:
  - Takes the concerns of the host's plan from the inventory (C(pinion_host)) and makes them so in one request to the program that runs on
    the host, the same as by pyinfra.
  - With tags (C(--tags), C(--skip-tags)) only the concerns of these names.
  - A change that could lock us out is confirmed over a fresh login; without that the host undoes it.
  - A run that was killed anywhere is finished by the next one.
  - What a concern placed that the plan no longer has is taken back, unless only some concerns are brought about.
options:
  only:
    description: Names of concerns; only these. One that the plan does not give to this host is taken back.
    type: list
    elements: str
    default: []
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
  returned: success
  type: list
  elements: dict
reboot:
  description: What waits for the next boot.
  returned: success
  type: list
  elements: str
notes:
  description: What stays although its concern is gone, and why.
  returned: success
  type: list
  elements: str
waited:
  description: Seconds spent behind another run on this host.
  returned: success
  type: float
"""
