"""The settings of the hosts' concerns, as the site file states them under `concerns:`.

A key that is present (``{}`` is enough) gives the concern to every host that it applies to; an absent key means that no host has it, and
the next run takes back what it had placed. `os_tuning` is on every host and has no key.

To add a concern: one `Statement` with its settings here, one field of `Concerns` (``base: Base | None = says("…", default=None)``), and
what `pinion.plan.hosts` says. Each default says where its value comes from.
"""

from __future__ import annotations

from pinion.site.statement import Statement


class Concerns(Statement):
    """What the hosts get, by concern."""
