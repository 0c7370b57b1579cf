"""The commands of standard access lists, and of who may open SSH. A list that nothing asks holds nobody back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .config import AccessList, Rule
from .editor import ACCESS_LIST, GLOBAL, SSH, Editor

#: Between the numbers of rules that are given none.
_STEP = 10


def _enter(editor: Editor, name: str, *, ipv6: bool) -> None:
    if (ipv6, name) not in editor.config.access_lists:
        editor.config = editor.config.with_access_list(AccessList(ipv6, name))
    editor.mode, editor.targets, editor.vids = ACCESS_LIST[ipv6], (name,), ()


def _remove(editor: Editor, name: str, *, ipv6: bool) -> None:
    editor.config = editor.config.without_access_list(name, ipv6=ipv6)
    if editor.mode is ACCESS_LIST[ipv6] and name in editor.targets:
        editor.leave()


def _rules(editor: Editor, ipv6: bool) -> AccessList:
    return editor.config.access_lists[ipv6, editor.targets[0]]


def _numbered(editor: Editor, number: int, source: str | None = None, *, ipv6: bool, permit: bool) -> None:
    known = _rules(editor, ipv6)
    kept = [rule for rule in known.rules if rule.number != number]
    editor.config = editor.config.with_access_list(
        replace(known, rules=tuple(sorted([*kept, Rule(number, permit, source)], key=lambda rule: rule.number)))
    )


def _last(editor: Editor, source: str | None = None, *, ipv6: bool, permit: bool) -> None:
    numbers = [rule.number for rule in _rules(editor, ipv6).rules]
    _numbered(editor, max(numbers, default=0) + _STEP, source, ipv6=ipv6, permit=permit)


def _no_rule(editor: Editor, number: int, *, ipv6: bool) -> None:
    known = _rules(editor, ipv6)
    kept = tuple(rule for rule in known.rules if rule.number != number)
    editor.config = editor.config.with_access_list(replace(known, rules=kept))


def _ask(editor: Editor, name: str, *, ipv6: bool) -> None:
    editor.config = replace(editor.config, ssh_lists={**editor.config.ssh_lists, ipv6: name})


def _ask_none(editor: Editor, _: str = "", *, ipv6: bool) -> None:
    kept = {family: name for family, name in editor.config.ssh_lists.items() if family != ipv6}
    editor.config = replace(editor.config, ssh_lists=kept)


@GLOBAL.command("management ssh", about="Who may open SSH")
def _ssh(editor: Editor) -> None:
    editor.mode, editor.targets, editor.vids = SSH, (), ()


for _ipv6, _word, _source in ((False, "ip", "<source4>"), (True, "ipv6", "<source6>")):
    GLOBAL.add(f"{_word} access-list standard <list>", partial(_enter, ipv6=_ipv6), "Configure an access list")
    GLOBAL.add(f"no {_word} access-list standard <list>", partial(_remove, ipv6=_ipv6), "Remove an access list")
    for _verb, _permit in (("permit", True), ("deny", False)):
        for _pattern in (f"{_verb} {_source}", f"{_verb} host {_source}", f"{_verb} any"):
            ACCESS_LIST[_ipv6].add(_pattern, partial(_last, ipv6=_ipv6, permit=_permit))
            ACCESS_LIST[_ipv6].add(f"<rule> {_pattern}", partial(_numbered, ipv6=_ipv6, permit=_permit))
    ACCESS_LIST[_ipv6].add("no <rule>", partial(_no_rule, ipv6=_ipv6))
    SSH.add(f"{_word} access-group <list> in", partial(_ask, ipv6=_ipv6), "The access list that SSH asks")
    for _pattern in (f"no {_word} access-group", f"no {_word} access-group <list> in"):
        SSH.add(_pattern, partial(_ask_none, ipv6=_ipv6))
