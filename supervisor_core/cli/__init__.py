"""The command line: a module for each family of subcommands, imported only when it's called. `status` must be quick."""

from __future__ import annotations

import io
import os
import sys

from supervisor_core.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from supervisor_core.cli.arguments import Parser

SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130

GROUPS = {
    "Workers": {
        "pause, resume": "Stop a worker until it's resumed",
        "restart": "Restart a worker",
        "mute, unmute": "Keep alerts about a worker quiet for a while",
        "rolling": "Pause, continue or abort batches",
        "schedule": "Run a command at set times",
        "monitoring": "Pause or resume monitoring of all workers",
    },
    "Code": {
        "update, update-deps": "Update a worker's code, or its packages too",
        "rollback": "Revert the newest commits",
        "undo": "Reverse one update or rollback",
    },
    "Look": {
        "status, top": "Show the workers and their health, once or live",
        "logs": "Show a worker's output or the daemon's events",
        "why": "Explain what's wrong with a worker",
        "history": "Show a worker's last 24 hours or 7 days",
        "alerts, approvals": "List and act on alerts and approvals",
        "teams": "List the teams and their workers",
        "audit": "Search, verify or export the audit trail",
        "diagnostics, verify-db": "Write a report about a worker or its database",
    },
    "Daemon": {
        "daemon": "Start, stop or restart the daemon",
        "once": "Run a single pass without a daemon",
        "send": "Send a command as one text, exactly as in Slack",
    },
    "Set up": {
        "init, import": "Set up this host, or convert other tools' files",
        "config, doctor": "Check the configuration, or everything",
        "fleet": "Let other hosts join this one as their hub",
        "backup, restore": "Copy the ledger to a file, or put it back",
        "db": "Upgrade the tables of the databases",
        "completion": "Print a completion script for your shell",
        "demo, playground": "Try it in the browser, or run a local Slack",
    },
}
"""The subcommands of the overview, each with a line of help. One line may cover several."""

ALIASES = ("start", "stop", "run")
"""Older names of `daemon start` and others; `logs` without arguments is one more."""

COMMANDS = (*(name for group in GROUPS.values() for names in group for name in names.split(", ")), *ALIASES)

MODULES = {
    **{name: name for name in ("alerts", "approvals", "audit", "completion", "config", "fleet", "init", "logs")},
    **{name: name for name in ("daemon", "send", "status", "top")},
    **dict.fromkeys(ALIASES, "daemon"),
    **dict.fromkeys(("once", "demo", "playground"), "programs"),
    **dict.fromkeys(("backup", "restore", "db", "doctor"), "upkeep"),
    "import": "importing",
}
"""The module of each subcommand. The others are commands of the catalog, which `send` sends."""

SHOW_TRACEBACK = "SUPERVISOR_TRACEBACK"


def main(args: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns its exit code."""
    argv = list(sys.argv[1:] if args is None else args)
    if argv[:1] == ["help"] and argv[1:]:
        argv = [*argv[1:], "--help"]
    if not argv or argv[0] in ("-h", "--help", "help"):
        try:
            print(overview(), flush=True)
        except BrokenPipeError:  # `supervisor --help | head`
            sys.stdout = None  # nothing more is flushed at the exit
        return SUCCESS if argv else USAGE
    if argv[0] in ("-V", "--version"):
        print(f"supervisor {__version__}")
        return SUCCESS
    if argv[0] not in COMMANDS and not _is_added(argv):
        print(_unknown(argv[0]), file=sys.stderr)
        return USAGE
    parsers = parsers_of(argv[0])
    name = " ".join(argv[:2]) if " ".join(argv[:2]) in parsers else argv[0]
    try:
        arguments = parsers[name].parse(argv[len(name.split()) :])
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that can't show a letter is no reason to fail
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the edge: every error becomes a line and a code)
        return _report(error)
    return code


def parsers_of(name: str) -> dict[str, Parser]:
    """The parsers of a subcommand's module, such as `status` or `daemon start`."""
    from importlib import import_module

    subparsers: dict[str, Parser] = {}
    import_module(f"supervisor_core.cli.{MODULES.get(name, 'send')}").add_parser(subparsers)
    if name not in MODULES:
        from supervisor_core.cli.send import add_catalog_parser

        add_catalog_parser(subparsers, name)
    return subparsers


def overview() -> str:
    """The text of `supervisor --help`."""
    titles, names = max(map(len, GROUPS)), max(len(names) for group in GROUPS.values() for names in group)
    lines = [
        f"{(title if first else '').ljust(titles)}  {commands.ljust(names)}  {text}"
        for title, group in GROUPS.items()
        for first, (commands, text) in zip([True, *[False] * len(group)], group.items(), strict=False)
    ]
    return "\n".join(
        [
            "usage: supervisor COMMAND [TARGET] [options]",
            "",
            *lines,
            "",
            "Run `supervisor COMMAND --help` for the options and an example.",
            "Configuration: --config FILE, else $SUPERVISOR_CONFIG, else ./config.yaml.",
            "Exit codes: 0 success, 1 failed or unhealthy, 2 usage or configuration error,",
            "130 interrupted.",
        ]
    )


def _is_added(argv: Sequence[str]) -> bool:
    """True for a command of the configuration or of a plug-in. Only for these, the configuration is read here."""
    from supervisor_core.commands.catalog import CATALOG
    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.config.load import load_supervisor_config

    try:
        load_supervisor_config(argv[argv.index("--config") + 1] if "--config" in argv[:-1] else None)
    except SupervisorError:
        return False  # the mistake is reported where the configuration matters
    return argv[0] in CATALOG and CATALOG[argv[0]].extension is not None


def _unknown(name: str) -> str:
    from supervisor_core.commands.catalog import find, nearest_command
    from supervisor_core.common.text import nearest

    definition = find(name)
    suggestion = definition.name if definition else nearest(name, COMMANDS) or nearest_command(name)
    hint = f" Did you mean `supervisor {suggestion}`?" if suggestion else ""
    return f"supervisor: {name!a} isn't a command.{hint} `supervisor --help` lists them all."


def _report(error: Exception) -> int:
    """Print an error on stderr; returns its exit code."""
    from supervisor_core.common.errors import ConfigError, SupervisorError, UsageError, describe
    from supervisor_core.common.text import printable

    if isinstance(error, BrokenPipeError):
        # The reader of the output is gone. What is still in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    if isinstance(error, SupervisorError):
        message = str(error)
    elif isinstance(error, OSError):
        message = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}."
        if isinstance(error, PermissionError) and error.filename:
            from supervisor_core.host.permissions import why_denied

            cause, remedy = why_denied(str(error.filename))
            message = f"{message[:-1]}: {cause}. {remedy}" if cause else message
    elif os.environ.get(SHOW_TRACEBACK):
        raise error
    else:
        message = f"unexpected error: {describe(error)}. Set {SHOW_TRACEBACK}=1 to see where."
    print(f"supervisor: {printable(message)}", file=sys.stderr)
    return USAGE if isinstance(error, ConfigError | UsageError) else FAILURE
