"""One login: modes, prompts and the commands outside of configuration. What commands show is in `pinion.lab.switch.nos.show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import qos_text, show, text
from .arguments import TYPES
from .core import ConfigSession, Switch
from .editor import Editor
from .grammar import CliError, Grammar, help_for, recognise

#: EOS shows this much of a session's name in the prompt.
_SHOWN_SESSION = 6

USER = Grammar(TYPES)
PRIVILEGED = Grammar(TYPES)
CONFIGURATION = Grammar(TYPES)
SESSION = Grammar(TYPES)


class Shell:
    """What one login sees. `execute` takes a line and returns what to print; *asks* is the question that the next line answers."""

    def __init__(
        self, switch: Switch, user: str, terminal: str, *, may_enable: Callable[[str | None], bool] = lambda _: True
    ) -> None:
        self.switch = switch
        self.user = user
        self.terminal = terminal
        self.may_enable = may_enable
        self.length = 24
        self.privileged = False
        self.editor: Editor | None = None
        self.session: ConfigSession | None = None
        self.closed = False
        self.asks: str | None = None

    @property
    def prompt(self) -> str:
        """``tor-1(config-s-pinion-if-Et1)#``; or the question that was asked."""
        if self.asks is not None:
            return self.asks
        mode = ""
        if self.editor is not None:
            name = f"-s-{self.session.name[:_SHOWN_SESSION]}" if self.session is not None else ""
            mode = f"(config{name}{self.editor.suffix})"
        return f"{self.switch.running.hostname}{mode}{'#' if self.privileged else '>'}"

    @property
    def grammars(self) -> list[Grammar]:
        """Everything that may be said now, the innermost mode first."""
        if not self.privileged:
            return [USER]
        if self.editor is None:
            return [PRIVILEGED, USER]
        own = [SESSION] if self.session is not None else []
        return [*self.editor.grammars, *own, CONFIGURATION, PRIVILEGED, USER]

    def execute(self, line: str) -> str:
        """Carry *line* out and return what to print, without a final newline."""
        with self.switch.exclusive():
            if self.asks is not None:
                self.asks = None
                return self._enable(line)
            try:
                return self._execute(line)
            except CliError as error:
                return str(error)

    def help(self, line: str) -> str:
        """What `?` shows after *line*."""
        with self.switch.exclusive():
            try:
                return "\n".join(help_for(self.grammars, line.partition("|")[0]))
            except CliError as error:
                return str(error)

    def interrupt(self) -> None:
        """Control-Z and Control-C: back to the prompt; the former also leaves configuration."""
        self.asks = None

    def close(self) -> None:
        """The login ends; a session that it was in stays."""
        with self.switch.exclusive():
            self._end()
            self.closed = True

    def _execute(self, line: str) -> str:
        if not line.strip() or line.lstrip().startswith("!"):
            return ""
        said, *pipes = (
            [part.strip() for part in line.split(" | ")] if line.lstrip().startswith("sh") else [line.rstrip()]
        )
        if pipes and pipes[0] == "json":
            said, pipes = f"{said} | json", pipes[1:]
        if self.session is not None and not self.switch.is_open(self.session):
            self._end()
            raise CliError("% This session was committed or aborted elsewhere")
        found = recognise(self.grammars, said)
        if found.grammar in {USER, PRIVILEGED, CONFIGURATION, SESSION}:
            output = found.handler(self, *found.values) or ""
            return show.piped(output, pipes)
        return self._edit(lambda editor: found.handler(editor, *found.values) or "")

    def _edit(self, act: Callable[[Editor], str]) -> str:
        editor = self.editor
        if editor is None:
            raise CliError("% Invalid input")
        before = self.session.config if self.session is not None else self.switch.running
        editor.config = before
        output = act(editor)
        if editor.config != before:
            if self.session is not None:
                self.session.config = editor.config
            else:
                self.switch.change(editor.config, self.switch.timer)
        return output

    def _enable(self, secret: str | None) -> str:
        if secret is None and not self.may_enable(None):
            self.asks = "Password: "
            return ""
        if not self.may_enable(secret):
            return "% Bad secret"
        self.privileged = True
        return ""

    def _end(self) -> None:
        if self.session is not None:
            self.switch.leave(self.session.name, self.terminal)
        self.editor = self.session = None


# --- before enable ----------------------------------------------------------------------------------------------------


@USER.command("enable", about="Turn on privileged commands")
def _enable(shell: Shell) -> str:
    return "" if shell.privileged else shell._enable(None)


@USER.command("exit", "logout", "quit", about="Leave")
def _exit(shell: Shell) -> None:
    shell.close()


@USER.command("terminal length <lines>", about="Lines a page; 0 for no pages")
def _length(shell: Shell, lines: int) -> str:
    shell.length = lines
    return "Pagination disabled." if lines == 0 else f"Pagination set to {lines} lines."


@USER.command("terminal width <columns>", about="Columns of the terminal")
def _width(shell: Shell, columns: int) -> str:
    del shell
    return f"Width set to {columns} columns."


@USER.command("show version", about="What this switch is")
def _show_version(shell: Shell) -> str:
    return show.version(shell.switch)


@USER.command("show hostname", about="The name of the switch")
def _show_hostname(shell: Shell) -> str:
    name = shell.switch.running.hostname
    return f"Hostname: {name}\nFQDN:     {name}"


@USER.command("show vlan", "show vlan brief", about="VLANs and their ports")
def _show_vlan(shell: Shell) -> str:
    return show.vlans(shell.switch)


@USER.command("show interfaces status", about="State of every port")
def _show_status(shell: Shell) -> str:
    return show.interfaces_status(shell.switch)


@USER.command("show interfaces description", about="Description of every interface")
def _show_descriptions(shell: Shell) -> str:
    return show.interfaces_description(shell.switch)


@USER.command("show mac address-table", about="Learned MAC addresses")
def _show_macs(shell: Shell) -> str:
    return show.mac_table(shell.switch)


@USER.command("show ip interface brief", about="Addresses of interfaces")
def _show_addresses(shell: Shell) -> str:
    return show.ip_interfaces(shell.switch)


@USER.command("show qos maps", about="Traffic classes and queues of packets")
def _show_qos_maps(shell: Shell) -> str:
    return qos_text.maps(shell.switch.running.qos)


@USER.command("show qos profile", about="QoS profiles")
def _show_qos_profiles(shell: Shell) -> str:
    return qos_text.profiles(shell.switch.running)


@USER.command("show qos profile <list>", about="One QoS profile")
def _show_qos_profile(shell: Shell, name: str) -> str:
    return qos_text.profiles(shell.switch.running, name)


@USER.command("show priority-flow-control", about="PFC of every port")
def _show_flow_control(shell: Shell) -> str:
    return qos_text.flow_control(shell.switch.running)


# --- privileged -------------------------------------------------------------------------------------------------------


@PRIVILEGED.command("disable", about="Turn off privileged commands")
def _disable(shell: Shell) -> None:
    shell._end()
    shell.privileged = False


@PRIVILEGED.command("configure", "configure terminal", about="Configure the running switch")
def _configure(shell: Shell) -> None:
    shell._end()
    shell.editor = Editor(shell.switch.running)


@PRIVILEGED.command("configure session", "configure session <session>", about="Configure a candidate")
def _configure_session(shell: Shell, name: str | None = None) -> None:
    shell._end()
    shell.session = shell.switch.enter(name, shell.user, shell.terminal)
    shell.editor = Editor(shell.session.config)


@PRIVILEGED.command("configure session <session> commit", about="Commit or confirm a session")
def _commit_named(shell: Shell, name: str) -> None:
    shell.switch.commit(name)


@PRIVILEGED.command("configure session <session> commit timer <timer>", about="Commit a session on trial")
def _commit_named_timer(shell: Shell, name: str, seconds: int) -> None:
    shell.switch.commit(name, seconds)


@PRIVILEGED.command("configure session <session> abort", about="Give a session up")
def _abort_named(shell: Shell, name: str) -> None:
    shell.switch.abort(name)


@PRIVILEGED.command("copy running-config startup-config", "write", "write memory", about="Save the configuration")
def _save(shell: Shell) -> str:
    shell.switch.save()
    return "Copy completed successfully."


@PRIVILEGED.command("show running-config", about="The running configuration")
def _show_running(shell: Shell) -> str:
    return show.configuration("show running-config", shell.switch, text.render(shell.switch.running))


@PRIVILEGED.command("show running-config section <text>", about="Blocks that match an expression")
def _show_section(shell: Shell, pattern: str) -> str:
    return show.sections(text.render(shell.switch.running), pattern)


@PRIVILEGED.command("show running-config interfaces <interfaces>", about="Blocks of interfaces")
def _show_running_interfaces(shell: Shell, names: Sequence[str]) -> str:
    return show.interface_blocks(shell.switch.running, names)


@PRIVILEGED.command("show running-config diffs", about="Running against start-up configuration")
def _show_running_diffs(shell: Shell) -> str:
    return show.unsaved(shell.switch)


@PRIVILEGED.command("show startup-config", about="The saved configuration")
def _show_startup(shell: Shell) -> str:
    saved = shell.switch.startup()
    if saved is None:
        raise CliError("% Error: startup-config does not exist")
    return show.configuration("show startup-config", shell.switch, saved)


@PRIVILEGED.command("show configuration sessions", "show configuration sessions detail", about="Configuration sessions")
def _show_sessions(shell: Shell) -> str:
    return show.sessions(shell.switch, shell.terminal)


@PRIVILEGED.command("show configuration sessions | json", "show configuration sessions detail | json")
def _show_sessions_json(shell: Shell) -> str:
    return show.sessions_json(shell.switch, shell.terminal)


@PRIVILEGED.command("show session-config named <session>", about="A session's configuration")
def _show_named(shell: Shell, name: str) -> str:
    return text.render(show.session(shell.switch, name).config)


@PRIVILEGED.command("show session-config named <session> diffs", about="What a session changes")
def _show_named_diffs(shell: Shell, name: str) -> str:
    return text.diff(shell.switch.running, show.session(shell.switch, name).config, name)


# --- configuration ----------------------------------------------------------------------------------------------------


@CONFIGURATION.command("exit", about="Leave this mode")
def _leave(shell: Shell) -> None:
    if shell.editor is not None and not shell.editor.leave():
        shell._end()


@CONFIGURATION.command("end", about="Leave configuration")
def _end(shell: Shell) -> None:
    shell._end()


@SESSION.command("commit", about="Make this session the running configuration")
def _commit(shell: Shell) -> None:
    _commit_here(shell, None)


@SESSION.command("commit timer <timer>", about="The same, on trial")
def _commit_timer(shell: Shell, seconds: int) -> None:
    _commit_here(shell, seconds)


def _commit_here(shell: Shell, seconds: int | None) -> None:
    if shell.session is not None:
        shell.switch.commit(shell.session.name, seconds)
        shell.editor = shell.session = None


@SESSION.command("abort", about="Give this session up")
def _abort(shell: Shell) -> None:
    if shell.session is not None:
        shell.switch.abort(shell.session.name)
        shell.editor = shell.session = None


@SESSION.command("rollback clean-config", about="Start from the configuration out of the box")
def _rollback(shell: Shell) -> None:
    if shell.session is not None and shell.editor is not None:
        while shell.editor.leave():
            pass
        shell.session.config = shell.switch.base


@SESSION.command("show session-config", about="This session's configuration")
def _show_session(shell: Shell) -> str:
    return text.render(shell.session.config) if shell.session is not None else ""


@SESSION.command("show session-config diffs", about="What this session changes")
def _show_session_diffs(shell: Shell) -> str:
    if shell.session is None:
        return ""
    return text.diff(shell.switch.running, shell.session.config, shell.session.name)
