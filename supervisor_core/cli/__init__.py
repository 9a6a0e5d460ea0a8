"""The command line: one module per subcommand, imported only when it is called, because `status` must be quick."""

from __future__ import annotations

import sys

from supervisor_core.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "status": "whether the supervisor and its workers run, and how they are",
    "logs": "what the supervisor did, the newest of it; -f goes on as it happens",
    "send": "give a command in the words that Slack uses: supervisor send 'pause OrionMX hotfix' --wait",
    "audit": "who did what, when, and what came of it; `audit verify` checks the trail",
    "approvals": "what waits for an approval; `approvals approve ID` and `deny ID` decide",
    "alerts": "which alerts are open; `alerts acknowledge ID` and `snooze ID` do something about one",
    "mute": "keep alerts about workers quiet for a while: supervisor mute OrionMX 2h moving disks",
    "unmute": "have alerts about workers told again",
    "run": "be the supervisor of this host, in the foreground",
    "start": "be the supervisor of this host, in the background; back when it is up",
    "stop": "end the supervisor; its workers go on",
    "restart": "end the supervisor and start it again; its workers go on all the time",
    "once": "a single pass for one worker: its flags, its health, an exit code",
    "config": "check the configuration",
    "doctor": "whether everything is in its place, Slack included, and what to do where it is not",
    "demo": "everything at once on this machine, to try it in the browser; --tour plays a session in the terminal",
    "playground": "a local Slack in the browser, to try and to test any bot with",
    "db": "bring the ledger's tables up to date",
}


def main(args: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns its exit code."""
    words = list(sys.argv[1:] if args is None else args)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return SUCCESS if words else USAGE
    if words[0] in ("-V", "--version"):
        print(f"supervisor {__version__}")
        return SUCCESS
    if words[0] not in COMMANDS:
        print(_unknown(words[0]), file=sys.stderr)
        return USAGE
    from supervisor_core.cli.dispatcher import run

    return run(words[0], words[1:])


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: supervisor COMMAND [--config FILE] …",
            "",
            *lines,
            "",
            "`supervisor COMMAND --help` says more about one. The configuration is --config FILE, else",
            "$SUPERVISOR_CONFIG, else ./config.yaml. Exit codes: 0 success, 1 it failed or something is unhealthy,",
            "2 wrong usage or configuration, 130 interrupted.",
        ]
    )


def _unknown(word: str) -> str:
    from supervisor_core.commands.catalog import find
    from supervisor_core.common.text import nearest

    near = nearest(word, COMMANDS)
    hint = f" Did you mean `supervisor {near}`?" if near else ""
    if not near and find(word):
        hint = f" To give that command: supervisor send '{word} …'"
    return f"supervisor: there is no command {word!a}.{hint} `supervisor --help` lists them."
