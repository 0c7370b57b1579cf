"""The list of configuration sessions, in both layouts that EOS has had."""

from __future__ import annotations

import json

import pytest

from pinion.drivers.switch.eos_sessions import ConfigSession, parse_sessions

OLD = {
    "maxSavedSessions": 1,
    "maxOpenSessions": 5,
    "sessions": {
        "done": {"state": "completed", "completedTime": 1.0, "instances": {}},
        "pinion-0a1b2c3d-1": {"state": "pendingCommitTimer", "commitBy": 81234.5, "instances": {}},
        "mine": {
            "state": "pending",
            "instances": {"2217": {"user": "ops", "terminal": "vty7", "currentTerminal": False}},
        },
    },
}
NEW = {
    "maxSavedSessions": 1,
    "maxOpenSessions": 5,
    "mergeOnCommit": False,
    "commitTimerSessionName": "pinion-0a1b2c3d-1",
    "commitTimerExpireTime": 81234.5,
    "sessions": {
        "pinion-0a1b2c3d-1": {"state": "committed", "instances": {}},
        "s1": {"state": "aborted", "instances": {}},
        "s2": {"state": "pending", "description": "", "instances": {}},
    },
}


def test_until_eos_4_32() -> None:
    assert parse_sessions(json.dumps(OLD)) == (
        ConfigSession("mine", armed=False, users=("ops on vty7",)),
        ConfigSession("pinion-0a1b2c3d-1", armed=True),
    )


def test_since_eos_4_32() -> None:
    assert parse_sessions(json.dumps(NEW)) == (
        ConfigSession("pinion-0a1b2c3d-1", armed=True),
        ConfigSession("s2", armed=False),
    )


def test_whose_session_it_is() -> None:
    session = ConfigSession("pinion-0a1b2c3d-1", armed=False)
    assert session.of_pinion
    assert session.of("0a1b2c3d")
    assert not session.of("0a1b2c3e")
    assert not ConfigSession("pinions", armed=False).of_pinion


@pytest.mark.parametrize("text", ["", "% Invalid input", "[]", '{"sessions": {"a": {}}}'])
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="unexpected answer"):
        parse_sessions(text)
