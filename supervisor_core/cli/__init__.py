"""The command line: one module for each subcommand, imported only when it's called, because `status` must be quick."""

from __future__ import annotations

import sys

from supervisor_core.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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


def main(args: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns its exit code."""
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] == ["help"] and words[1:]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        try:
            print(overview(), flush=True)
        except BrokenPipeError:  # `supervisor --help | head`
            sys.stdout = None  # nothing more is flushed at the exit
        return SUCCESS if words else USAGE
    if words[0] in ("-V", "--version"):
        print(f"supervisor {__version__}")
        return SUCCESS
    if words[0] not in COMMANDS and not _is_added(words):
        print(_unknown(words[0]), file=sys.stderr)
        return USAGE
    from supervisor_core.cli.dispatcher import run

    return run(words[0], words[1:])


def overview() -> str:
    """The text of `supervisor --help`."""
    left, names = max(map(len, GROUPS)), max(len(each) for group in GROUPS.values() for each in group)
    lines = [
        f"{(title if first else '').ljust(left)}  {each.ljust(names)}  {text}"
        for title, group in GROUPS.items()
        for first, (each, text) in zip([True, *[False] * len(group)], group.items(), strict=False)
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


def _is_added(words: Sequence[str]) -> bool:
    """True for a command of the configuration or of a plug-in. Only for these, the configuration is read here."""
    from itertools import pairwise

    from supervisor_core.commands.catalog import CATALOG
    from supervisor_core.common.errors import SupervisorError
    from supervisor_core.config.load import load_supervisor_config

    given = [after for before, after in pairwise(words) if before == "--config"]
    try:
        load_supervisor_config(given[0] if given else None)
    except SupervisorError:
        return False  # the mistake is told where the configuration matters
    return words[0] in CATALOG and CATALOG[words[0]].extension is not None


def _unknown(word: str) -> str:
    from supervisor_core.commands.catalog import find, nearest_command
    from supervisor_core.common.text import nearest

    definition = find(word)
    near = definition.name if definition else nearest(word, COMMANDS) or nearest_command(word)
    hint = f" Did you mean `supervisor {near}`?" if near else ""
    return f"supervisor: {word!a} isn't a command.{hint} `supervisor --help` lists them all."
