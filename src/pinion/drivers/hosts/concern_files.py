"""The role and the deploy of a concern: all alike, so they are made from its name. `python -m pinion.drivers.hosts.concern_files` writes
those that are missing; a test compares them all, so they cannot drift apart.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pinion.plan.hosts import concern_names
from pinion.site.find import repository

_ROLE = """\
---
# The role `converge` with one concern: all that it places is decided in src/pinion/plan/concerns/{name}.py.
galaxy_info:
  role_name: {name}
  namespace: pinion
  author: Pinion
  description: The concern {name} of a host, from the plan of a Pinion site
  license: Apache-2.0
  min_ansible_version: "2.19"
  platforms:
    - name: Debian
      versions:
        - bookworm
        - trixie
dependencies:
  - role: converge
    converge_only: [{name}]
"""
_DEPLOY = '''\
"""The concern `{name}` alone: pyinfra @pinion/<site> deploys/{name}.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("{name}",))
'''


def concern_files(name: str) -> dict[str, str]:
    """The files of the concern *name* by their path in the repository."""
    return {
        f"roles/{name}/meta/main.yml": _ROLE.format(name=name),
        f"deploys/{name}.py": _DEPLOY.format(name=name),
    }


def main() -> None:
    """Write the files of every concern."""
    root = repository()
    for name in concern_names():
        for path, text in concern_files(name).items():
            target = Path(root, path)
            if not target.is_file() or target.read_text() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
                sys.stdout.write(f"written: {path}\n")


if __name__ == "__main__":
    main()
