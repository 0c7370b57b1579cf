"""The terminal: echo, editing, history, help, pages."""

from __future__ import annotations

import pytest
from unit.lab.switch.conftest import Rig

from pinion.lab.switch.nos.shell import Shell
from pinion.lab.switch.nos.terminal import Terminal


@pytest.fixture
def terminal(rig: Rig) -> Terminal:
    terminal = Terminal(Shell(rig.switch, "ops", "vty1"))
    assert terminal.greeting() == "localhost>"
    terminal.feed(b"enable\n")
    return terminal


def test_what_is_typed_is_echoed_and_answered(terminal: Terminal) -> None:
    assert (
        terminal.feed(b"show hostname\n") == "show hostname\r\nHostname: localhost\r\nFQDN:     localhost\r\nlocalhost#"
    )


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_is_one(terminal: Terminal, end: bytes) -> None:
    assert terminal.feed(b"disable" + end + end) == "disable\r\nlocalhost>\r\nlocalhost>"


def test_a_line_may_come_in_pieces_even_within_a_character(terminal: Terminal) -> None:
    said = "".join(
        terminal.feed(bytes([octet])) for octet in "configure\ninterface Ethernet1\ndescription Büro\n".encode()
    )
    assert said.endswith("description Büro\r\nlocalhost(config-if-Et1)#")
    assert terminal.shell.switch.running.ethernets["Ethernet1"].description == "Büro"


def test_editing(terminal: Terminal) -> None:
    assert terminal.feed(b"shox\x7fw\x08\x7f") == "shox\b \bw\b \b\b \b"
    assert terminal.feed(b"\x15").endswith("\b \b")
    terminal.feed(b"show nothing\x17hostname\n")
    assert terminal.feed(b"\x1b[A\n").startswith("show hostname\r\nHostname")
    assert terminal.feed(b"junk\x03") == "junk^C\r\nlocalhost#"


def test_up_and_down_walk_through_what_was_said(terminal: Terminal) -> None:
    for line in (b"show vlan\n", b"show hostname\n"):
        terminal.feed(line)
    assert terminal.feed(b"\x1b[A\x1b[A\x1b[B\n").endswith("FQDN:     localhost\r\nlocalhost#")


def test_a_question_mark_helps_and_keeps_the_line(terminal: Terminal) -> None:
    said = terminal.feed(b"show run?")
    assert "running-config" in said
    assert said.endswith("localhost#show run")
    assert "hostname localhost" in terminal.feed(b"ning-config | include hostname\n")


def test_tab_completes_what_is_unique(terminal: Terminal) -> None:
    assert terminal.feed(b"conf\t").endswith("configure ")
    assert terminal.feed(b"\x15co\t").endswith("co")


def test_control_z_leaves_configuration(terminal: Terminal) -> None:
    terminal.feed(b"configure\ninterface Ethernet1\n")
    assert terminal.feed(b"\x1a") == "\r\nlocalhost#"


def test_long_answers_come_in_pages_until_that_is_turned_off(terminal: Terminal) -> None:
    terminal.shell.length = 5
    first = terminal.feed(b"show running-config\n")
    assert first.endswith(" --More-- ")
    assert first.count("\r\n") == 5
    assert terminal.feed(b"\r").count("\r\n") == 1
    assert terminal.feed(b" ").count("\r\n") == 4
    assert terminal.feed(b"q").endswith("localhost#")
    terminal.feed(b"terminal length 0\n")
    assert terminal.feed(b"show running-config\n").endswith("end\r\nlocalhost#")


def test_a_password_is_not_echoed_nor_remembered(rig: Rig) -> None:
    terminal = Terminal(Shell(rig.switch, "ops", "vty1", may_enable=lambda given: given == "secret"))
    assert terminal.feed(b"enable\n") == "enable\r\nPassword: "
    assert terminal.feed(b"secret\n") == "\r\nlocalhost#"
    assert terminal.feed(b"\x1b[A") == "enable"


def test_control_d_on_an_empty_line_ends_the_login(terminal: Terminal) -> None:
    terminal.feed(b"x\x04")
    assert not terminal.shell.closed
    terminal.feed(b"\x7f\x04")
    assert terminal.shell.closed


def test_without_a_pseudo_terminal_only_answers_come(rig: Rig) -> None:
    terminal = Terminal(Shell(rig.switch, "ops", "vty1"), pages=False)
    terminal.shell.length = 0
    assert terminal.greeting() == ""
    assert terminal.feed(b"show hostname\n") == "Hostname: localhost\r\nFQDN:     localhost\r\n"


def test_endless_lines_are_cut_off(terminal: Terminal) -> None:
    terminal.feed(b"x" * 10_000)
    assert terminal.feed(b"y") == "\a"
