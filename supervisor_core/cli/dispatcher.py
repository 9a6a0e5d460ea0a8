"""The edge of the command line: a subcommand is found, run, and every error becomes words and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from supervisor_core.cli import COMMANDS, FAILURE, INTERRUPTED, SUCCESS, USAGE
from supervisor_core.common.errors import ConfigError, SupervisorError, UsageError, describe
from supervisor_core.common.text import printable

SHOW_TRACEBACK = "SUPERVISOR_TRACEBACK"

PLACES = {
    "status": ("status.command", ""),
    "logs": ("logs", ""),
    "send": ("send.command", ""),
    "audit": ("audit", ""),
    "approvals": ("approvals", ""),
    "alerts": ("alerts", ""),
    "mute": ("alerts", "_mute"),
    "unmute": ("alerts", "_unmute"),
    "run": ("run", "_run"),
    "start": ("lifecycle", "_start"),
    "stop": ("lifecycle", "_stop"),
    "restart": ("lifecycle", "_restart"),
    "once": ("run", "_once"),
    "config": ("config", ""),
    "doctor": ("doctor_and_db", "_doctor"),
    "demo": ("demo", ""),
    "playground": ("demo", "_playground"),
    "db": ("doctor_and_db", "_db"),
}
"""Where each subcommand is: its module, and the ending of its two functions `configure…` and `run…`."""


def run(name: str, words: Sequence[str]) -> int:
    """Run the subcommand of this name."""
    (place, ending), about = PLACES[name], COMMANDS[name]
    module = import_module(f"supervisor_core.cli.{place}")
    configure, act = getattr(module, f"configure{ending}"), getattr(module, f"run{ending}")
    parser = argparse.ArgumentParser(prog=f"supervisor {name}", description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("--config", metavar="FILE", help="else $SUPERVISOR_CONFIG, else ./config.yaml")
    configure(parser)
    try:
        options = parser.parse_args(words)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no such letter is no reason to fail
    try:
        code: int = act(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the edge: every error becomes words and a code)
        return _ended_with(error)
    return code


def _ended_with(error: Exception) -> int:
    """What is said of an error, and the exit code that it means."""
    if isinstance(error, ConfigError | UsageError):
        return _say(str(error), USAGE)
    if isinstance(error, SupervisorError):
        return _say(str(error), FAILURE)
    if isinstance(error, BrokenPipeError):
        # Whoever read us has seen enough. What is still in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    if isinstance(error, OSError):
        return _say(_in_words(error), FAILURE)
    if os.environ.get(SHOW_TRACEBACK):
        raise error
    what = f"something unexpected went wrong: {describe(error)}."
    return _say(f"{what} {SHOW_TRACEBACK}=1 shows where.", FAILURE)


def _in_words(error: OSError) -> str:
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if not isinstance(error, PermissionError) or not error.filename:
        return f"{what}."
    return f"{what}. Run this as the user to whom it belongs{_owner(str(error.filename))}."


def _owner(path: str) -> str:
    """Whose the file is, or the nearest folder of it that can be seen."""
    try:
        import pwd

        while not _seen(path) and os.path.dirname(path) != path:  # noqa: PTH120 (no pathlib: `status` comes by here)
            path = os.path.dirname(path)  # noqa: PTH120
        return f", {pwd.getpwuid(os.lstat(path).st_uid).pw_name}"
    except (ImportError, KeyError, OSError):
        return ""


def _seen(path: str) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


def _say(text: str, code: int) -> int:
    print(f"supervisor: {printable(text)}", file=sys.stderr)
    return code
