"""The edge of the command line: a subcommand is found, run, and every error becomes words and an exit code."""

from __future__ import annotations

import io
import os
import sys
from functools import partial
from importlib import import_module

from supervisor_core.cli import FAILURE, INTERRUPTED, SUCCESS, USAGE
from supervisor_core.cli.options import SUBCOMMANDS, parser_of
from supervisor_core.common.errors import ConfigError, SupervisorError, UsageError, describe
from supervisor_core.common.text import printable
from supervisor_core.host.permissions import why_denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

SHOW_TRACEBACK = "SUPERVISOR_TRACEBACK"


def run(name: str, words: Sequence[str]) -> int:
    if name == "daemon" and words and f"daemon {words[0]}" in SUBCOMMANDS:
        name, words = f"daemon {words[0]}", words[1:]
    parser = parser_of(name)
    words, note = _split_note(name, words)
    try:
        options = parser.parse_args(words) if name in SUBCOMMANDS else parser.parse_intermixed_args(words)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    options.note = note
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that can't show a letter is no reason to fail
    try:
        code = _function(name)(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the edge: every error becomes words and a code)
        return _ended_with(error)
    return code


def _split_note(name: str, words: Sequence[str]) -> tuple[Sequence[str], str]:
    """The arguments, and the note of a command: all that follows `--`, which argparse would drop."""
    start = 1 if name == "send" else 0  # before the text of `send`, it ends the options
    if "--" not in words[start:] or (name in SUBCOMMANDS and name != "send"):
        return words, ""
    at = list(words).index("--", start)
    return words[:at], " ".join(words[at:])


def _function(name: str) -> Callable[[argparse.Namespace], int]:
    """The function that runs a subcommand, imported now."""
    if name not in SUBCOMMANDS:
        from supervisor_core.cli import verbs

        return partial(verbs.run, name)
    place, _, function = SUBCOMMANDS[name].place.partition(":")
    run_it: Callable[[argparse.Namespace], int] = getattr(import_module(f"supervisor_core.cli.{place}"), function)
    return run_it


def _ended_with(error: Exception) -> int:
    """Report an error; returns its exit code."""
    if isinstance(error, ConfigError | UsageError):
        return _say(str(error), USAGE)
    if isinstance(error, SupervisorError):
        return _say(str(error), FAILURE)
    if isinstance(error, BrokenPipeError):
        # Whoever read us has seen enough. What is still in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        if isinstance(error, PermissionError) and error.filename:
            cause, remedy = why_denied(str(error.filename))
            return _say(f"{what}: {cause}. {remedy}" if cause else f"{what}.", FAILURE)
        return _say(f"{what}.", FAILURE)
    if os.environ.get(SHOW_TRACEBACK):
        raise error
    what = f"unexpected error: {describe(error)}."
    return _say(f"{what} Set {SHOW_TRACEBACK}=1 to see where.", FAILURE)


def _say(text: str, code: int) -> int:
    print(f"supervisor: {printable(text)}", file=sys.stderr)
    return code
