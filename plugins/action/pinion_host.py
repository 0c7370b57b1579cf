"""Ansible action plugin: all concerns of a host in one task, the confirming login included."""

from __future__ import annotations

import os
from typing import Any

from ansible.plugins.action import ActionBase

from pinion.drivers.hosts.requests import UnknownConcernError, selection, task

#: Tags of Ansible's own that name no concern.
_GENERAL_TAGS = frozenset({"all", "always", "never", "tagged", "untagged"})
#: A connection of its own, also where connections are shared: a login that still works is the proof.
_FRESH_LOGIN = "-o ControlMaster=no -o ControlPath=none -o PreferredAuthentications=publickey"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Takes the host's concerns from the inventory, those that ``--tags`` or *only* name, and has the module make them so."""

    _VALID_ARGS = frozenset({"only", "wait", "undo"})
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's answer, with the confirmation's error when the fresh login fails."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        only = self._task.args.get("only") or _concern_tags(variables)
        try:
            chosen = selection(variables["pinion_host"], variables["pinion_concerns"], only)
        except UnknownConcernError as error:
            result.update(failed=True, msg=str(error))
            return result
        asked = {**chosen, "wait": int(self._task.args.get("wait", 300)), **task(os.environ)}
        answer = self._execute_module(module_name="pinion_host", module_args=asked, task_vars=variables)
        if answer.get("confirm") and not self._task.check_mode and not answer.get("failed"):
            confirmed = self._confirm(answer["confirm"], variables)
            if confirmed.get("failed") or confirmed.get("unreachable"):
                answer |= {"failed": True, "msg": f"no fresh login after the change: {confirmed.get('msg')}"}
        result.update(answer)
        return result

    def _confirm(self, names: list[str], variables: dict[str, Any]) -> dict[str, Any]:
        """Log in afresh and say that the change is good; the host puts the old files back when nobody does."""
        if self._connection.transport == "ssh":
            self._connection.set_option("ssh_args", _FRESH_LOGIN)
        asked = {"action": "confirm", "concerns": [{"name": name} for name in names]}
        answer: dict[str, Any] = self._execute_module(module_name="pinion_host", module_args=asked, task_vars=variables)
        return answer


def _concern_tags(variables: dict[str, Any]) -> list[str]:
    """The concerns that ``--tags`` and ``--skip-tags`` leave; nothing for all of them."""
    tags = [tag for tag in variables.get("ansible_run_tags", ()) if tag not in _GENERAL_TAGS]
    skipped = [tag for tag in variables.get("ansible_skip_tags", ()) if tag not in _GENERAL_TAGS]
    if skipped and not tags:
        tags = list(variables["pinion_concerns"])
    return [tag for tag in tags if tag not in skipped]
