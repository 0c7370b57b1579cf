"""Ansible action plugin: all concerns of a host in one task and one request, the confirming login included.

No module is carried: the program that runs on the host comes over standard input, as for pyinfra.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.action import ActionBase

from pinion.drivers.hosts.bundle import COMMAND, standard_input
from pinion.drivers.hosts.requests import WAIT, UnknownConcernError, answered, approved, selection, task, who
from pinion.drivers.identity.place import AuthorityError

#: Tags of Ansible's own that name no concern.
_GENERAL_TAGS = frozenset({"all", "always", "never", "tagged", "untagged"})
#: A connection of its own, also where connections are shared: a login that still works is the proof.
_FRESH_LOGIN = "-o ControlMaster=no -o ControlPath=none -o PreferredAuthentications=publickey"
#: How the program ends when it answered: 2 is an answer with an error.
_ANSWERED = (0, 2)


class ActionModule(ActionBase):  # type: ignore[misc]
    """Takes the host's concerns from the inventory, those that ``--tags`` or *only* name, and has the host make them so."""

    _VALID_ARGS = frozenset({"only", "wait"})
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """What the host answered, with a diff; failed with the host's own words."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        only = self._task.args.get("only") or _concern_tags(variables)
        try:
            chosen = selection(variables["pinion_host"], variables["pinion_concerns"], only)
            asked = {**chosen, **({"action": "check"} if self._task.check_mode else task(os.environ))}
            answer = dict(answered(asked, os.environ, self._ask))
        except (UnknownConcernError, AuthorityError) as error:
            result.update(failed=True, msg=str(error))
            return result
        if "error" not in answer and answer["confirm"] and not self._task.check_mode:
            answer.update(self._confirm(answer["confirm"]))
        answer = dict(approved(asked, answer, os.environ))
        if "error" in answer:
            result.update(failed=True, msg=answer["error"])
            return result
        result.update(answer, changed=bool(answer["changes"]), diff=[_difference(c) for c in answer["changes"]])
        return result

    def _confirm(self, names: list[str]) -> dict[str, Any]:
        """Log in afresh and say that the change is good; the host puts the old files back when nobody does. The error, if there is one."""
        if self._connection.transport == "ssh":
            self._connection.set_option("ssh_args", _FRESH_LOGIN)
        said = self._ask({"action": "confirm", "concerns": [{"name": name} for name in names]})
        return {"error": f"no fresh login after the change: {said['error']}"} if "error" in said else {}

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of the on-host program to *request*."""
        asked = {**request, "wait": int(self._task.args.get("wait", WAIT)), "who": who("Ansible")}
        done = self._low_level_execute_command(COMMAND, in_data=standard_input(asked).encode())
        lines = str(done["stdout"]).splitlines()
        if done["rc"] in _ANSWERED and lines:
            answer: dict[str, Any] = json.loads(lines[-1])
            return answer
        return {
            "error": str(done["stderr"] or done["stdout"]).strip() or f"the host did not answer (exit {done['rc']})"
        }


def _difference(change: dict[str, str]) -> dict[str, str]:
    """One change as Ansible shows differences."""
    head = f"{change['concern']}: {change['kind']} {change['subject']}"
    return {
        "before_header": head,
        "after_header": head,
        "before": _lines(change["before"]),
        "after": _lines(change["after"]),
    }


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _concern_tags(variables: dict[str, Any]) -> list[str]:
    """The concerns that ``--tags`` and ``--skip-tags`` leave; nothing for all of them."""
    tags = [tag for tag in variables.get("ansible_run_tags", ()) if tag not in _GENERAL_TAGS]
    skipped = [tag for tag in variables.get("ansible_skip_tags", ()) if tag not in _GENERAL_TAGS]
    if skipped and not tags:
        tags = list(variables["pinion_concerns"])
    return [tag for tag in tags if tag not in skipped]
