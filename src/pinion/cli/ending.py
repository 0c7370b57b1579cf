"""How a command ends, whatever happens in it: one clear line, an exit code that means something, and JSON where JSON was asked for.

| exit code | means |
|---|---|
| 0 | all is well |
| 1 | the command found a problem |
| 2 | it could not run |
| 130 | stopped by Ctrl-C (128 + SIGINT, as shells count) |
| 141 | who read its output went away (128 + SIGPIPE) |
"""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Sequence

import click

from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, CannotRunError
from pinion.cli.screen import GuardedStream, UnwritableError, guarded, harmless, plain

STOPPED, UNHEARD = 128 + signal.SIGINT, 128 + signal.SIGPIPE
_FLAG = "--json"


def asks_for_json(group: click.Group, words: Sequence[str]) -> bool:
    """Whether *words* ask a command of *group* for JSON, by the words alone, since nobody may be able to parse the rest.

    What a command passes on to another program (`pinion lab exec`) asks nobody here.
    """
    command: click.Command = group
    for word in words:
        if word == "--" or command.context_settings.get("ignore_unknown_options"):
            return False
        if word == _FLAG:
            return True
        if isinstance(command, click.Group) and not word.startswith("-"):
            command = command.get_command(click.Context(command), word) or command
    return False


def run(group: click.Group, words: Sequence[str], call: Callable[[], object]) -> int:
    """The exit code of *call*, which runs the command of *group* that *words* name; nothing is raised, whatever it raises."""
    with guarded() as (answer, said):
        try:
            try:
                code = _ran(call, said)
            except KeyboardInterrupt:  # while another end was told
                code = _stopped()
            if code != FINE and not answer.used and asks_for_json(group, words):
                click.echo(json.dumps({"error": _last(said), "exit_code": code}))
            answer.flush()
        except UnwritableError as failed:
            code = UNHEARD if failed.unheard else COULD_NOT_RUN
            if not failed.unheard:
                _tell(f"standard output cannot be written: {failed}")
        except KeyboardInterrupt:  # somebody is impatient
            code = STOPPED
        said.flush()
    return code


def _ran(call: Callable[[], object], said: GuardedStream) -> int:
    """The exit code of *call*; what went wrong is told. Raises `UnwritableError`."""
    try:
        return _code(call())
    except SystemExit as end:
        if isinstance(end.code, str):
            _tell(end.code)
        return _code(end.code)
    except click.ClickException as refused:
        said.styled = False  # it may name what a person wrote
        refused.show()
        return COULD_NOT_RUN
    except click.Abort as stop:
        # click says Abort both for Ctrl-C and for the end of its input
        if isinstance(stop.__cause__ or stop.__context__, KeyboardInterrupt):
            return _stopped()
        _tell("nobody answers: standard input has ended; options can give the answers (--help)")
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        return _stopped()
    except UnwritableError:
        raise
    except OSError as failed:
        place = f"{failed.filename}: " if failed.filename is not None else ""
        _tell(f"{place}{failed.strerror or failed}")
        return COULD_NOT_RUN
    except Exception as mistake:  # noqa: BLE001 - the last place that can say it
        traceback.print_exc()
        _tell(f"a mistake in Pinion: {type(mistake).__name__}: {mistake}; please report it with the lines above")
        return COULD_NOT_RUN


def _stopped() -> int:
    _tell("stopped by Ctrl-C; what was begun goes on when the same command is run again")
    return STOPPED


def _code(answer: object) -> int:
    """What a command returned or ended with, as an exit code: a text means that there was a problem (Python's own rule)."""
    return answer if isinstance(answer, int) else PROBLEM if isinstance(answer, str) else FINE


def _last(said: GuardedStream) -> str:
    """What was told last, as JSON says it: without click's word for it."""
    return click.unstyle(said.last).strip().removeprefix("Error: ")


def _tell(line: str) -> None:
    """One line on standard error."""
    click.echo(f"Error: {harmless(line)}", err=True)


def colour() -> bool | None:
    """What click's contexts are told: False where colours are unwanted, else None, which means on terminals only."""
    return False if plain() else None


def need_working_folder() -> None:
    """Raise `CannotRunError` when the folder that the command was called in is gone: every relative name would mean nothing."""
    try:
        os.getcwd()  # noqa: PTH109 - asks the kernel and makes nothing of the answer
    except OSError as gone:
        raise CannotRunError(
            f"the working folder cannot be told ({gone.strerror}): it was deleted; go to one that exists, then run the command again"
        ) from None
