"""The arguments of every subcommand: the one source of parsing, help, completion and the reference.

It imports nothing slow. The commands that Slack has as well take their arguments from the catalog, in `verbs`.
"""

from __future__ import annotations

import argparse
from argparse import Action, ArgumentParser, ArgumentTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Sequence
    from typing import Any, Never

LINES = 50
ROWS = 50
WAIT_SECONDS = 60

JSON = "print JSON"


def status(parser: ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=JSON)
    form.add_argument("--plain", action="store_true", help="print key=value lines for scripts")
    parser.add_argument("--services", action="store_true", help="show the internal services even when all are well")
    which = parser.add_mutually_exclusive_group()
    target = "a worker, team:NAME, host:NAME, a pattern or all; the exit code is then the health of those workers alone"
    which.add_argument("target", nargs="?", metavar="TARGET", help=target)
    which.add_argument("--worker", metavar="ID", help="only this worker, also for the exit code")


def top(parser: ArgumentParser) -> None:
    parser.add_argument("--services", action="store_true", help="show the internal services even when all are well")


def logs(parser: ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="show the output of this worker, team:NAME or all")
    parser.add_argument("count", nargs="?", type=count, metavar="N", help="the same as -n N")
    events(parser)


def events(parser: ArgumentParser) -> None:
    parser.set_defaults(target=None)
    most = f"show the newest N lines (default: {LINES})"
    parser.add_argument("-n", "--lines", type=count, default=LINES, metavar="N", help=most)
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until Ctrl-C")
    parser.add_argument("--worker", metavar="ID", help="only events about this worker and its commands")
    parser.add_argument(
        "--level", type=level, metavar="LEVEL", help="this level and worse: debug, info, warning, error"
    )
    parser.add_argument("--since", metavar="WHEN", help="from this time on: 2d, 12h or 2026-01-31")
    named = "only events with this name or pattern, such as worker.exited or 'worker.*'; repeat for several"
    parser.add_argument("--event", action="append", type=event, metavar="NAME", help=named)
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")


def send(parser: ArgumentParser) -> None:
    text = "the command, such as 'pause OrionMX hotfix'; `supervisor send help` lists all"
    parser.add_argument("text", nargs="+", metavar="'COMMAND …'", help=text)
    parser.add_argument("--wait", action="store_true", help="wait for the outcome")
    waiting(parser)
    previewing(parser)
    parser.add_argument("--json", action="store_true", help=JSON)


def waiting(parser: ArgumentParser) -> None:
    limit = f"wait at most S seconds (default: until there is no progress for {WAIT_SECONDS}, approvals aside)"
    parser.add_argument("--timeout", type=seconds, metavar="S", help=limit)


def previewing(parser: ArgumentParser) -> None:
    parser.add_argument("--preview", action="store_true", help="show what a code change would do, and do nothing")
    parser.add_argument("--if-state", metavar="STATE", help="refuse unless everything is as this preview showed it")


def audit(parser: ArgumentParser) -> None:
    what = "verify: check that no row was altered or removed. export: write all rows to a file. archive: move old rows "
    what += "to a file. By default: search"
    parser.add_argument("what", nargs="?", choices=["verify", "export", "archive"], help=what)
    parser.add_argument(
        "--worker", metavar="ID", help="only rows about this worker, team:NAME, host:NAME, a pattern or all"
    )
    parser.add_argument("--issuer", metavar="WHO", help="only rows of this person: cli:anna, U0OPER or a display name")
    parser.add_argument("--command", metavar="NAME", help="only this command (rollback) or action (ROLLBACK_CODE)")
    parser.add_argument("--label", metavar="TEXT", help="only commands with exactly this label")
    parser.add_argument("--since", metavar="WHEN", help="from this time on: 2d, 12h or 2026-01-31")
    parser.add_argument("--limit", type=rows, default=ROWS, metavar="N", help=f"at most N rows (default: {ROWS})")
    parser.add_argument("--out", metavar="FILE", help="with export and archive: the new file")
    parser.add_argument("--before", metavar="WHEN", help="with archive: rows older than 90d or 2026-01-31")
    parser.add_argument("--file", metavar="FILE", action="append", help="with verify: check this file; may be repeated")
    parser.add_argument("--hash", metavar="HASH", help="with verify: check that a row still has this hash")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list with the column names as keys")
    form.add_argument("--csv", action="store_true", help="print CSV with a header")


def approvals(parser: ArgumentParser) -> None:
    what = "decide about one; by default: list what is waiting"
    parser.add_argument("what", nargs="?", choices=["approve", "deny", "cancel"], help=what)
    parser.add_argument("approval", nargs="?", metavar="ID", help="the approval's id, or the command's id")
    parser.add_argument(
        "reason", nargs="*", metavar="REASON", help="why; shown to the requester and kept in the audit trail"
    )
    parser.add_argument("--json", action="store_true", help=JSON)


def alerts(parser: ArgumentParser) -> None:
    what = "act on one, or send a test alert to the receivers outside Slack; by default: list the open alerts"
    parser.add_argument("what", nargs="?", choices=["acknowledge", "snooze", "test"], help=what)
    parser.add_argument("alert", nargs="?", metavar="ID", help="the alert's id; for test, one receiver's name")
    uptime = "show each worker's uptime over 24 hours, 7 days and 30 days"
    parser.add_argument("--uptime", action="store_true", help=uptime)
    parser.add_argument("--json", action="store_true", help=JSON)


def daemon(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="`supervisor daemon ACTION --help` shows its options")


def run(parser: ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="log to files only, not to stderr")


def start(parser: ArgumentParser) -> None:
    parser.add_argument("workers_named", nargs="*", help=argparse.SUPPRESS)


def stop(parser: ArgumentParser) -> None:
    start(parser)
    parser.add_argument("--workers", action="store_true", help="stop the workers first")


def once(parser: ArgumentParser) -> None:
    which = "this worker; by default the only one or supervisor.default_worker"
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("--worker-id", metavar="ID", help=which)
    workers.add_argument("--all", action="store_true", help="every worker of the configuration, one after the other")
    parser.add_argument("--heal", action="store_true", help="start the worker if it should be running and isn't")


def config(parser: ArgumentParser) -> None:
    what = "validate it, and show what a running daemon would do with it"
    parser.add_argument("check", choices=["check"], help=what)


def init(parser: ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="write here (default: this folder)")
    parser.add_argument("--yes", action="store_true", help="ask nothing: take the default of each missing option")
    parser.add_argument("--force", action="store_true", help="replace what is there; .env only gets missing lines")
    parser.add_argument("--name", metavar="NAME", help="name of this host (default: the hostname)")
    parser.add_argument("--state-dir", metavar="DIR", help="folder for its state, on a local disk (default: ./var)")
    worker = "a worker; repeat for several. The next four options are about the worker before them"
    parser.add_argument("--worker", dest="worker", action=OfWorker, metavar="ID", help=worker)
    for name, metavar, text in (
        ("--command", "'COMMAND …'", "its command line, as one text; no shell runs it"),
        ("--cwd", "DIR", "the folder that it runs in"),
        ("--heartbeat", "S", "its heartbeat is stale after S seconds (default: it writes none)"),
        ("--team", "NAME", "its team"),
    ):
        parser.add_argument(name, dest="worker", action=OfWorker, metavar=metavar, help=text)
    parser.add_argument("--no-worker", dest="worker", action="store_const", const=(), help="no worker yet")
    parser.add_argument("--drive", metavar="DIR", help="folder on a shared drive; '' for none")
    parser.add_argument(
        "--slack", action=argparse.BooleanOptionalAction, help="operate it from Slack (with --yes: by default not)"
    )
    tokens = "env: write SLACK_BOT_TOKEN and SLACK_APP_TOKEN of this shell to .env. later: add them yourself"
    parser.add_argument("--tokens", choices=["env", "later"], help=tokens)
    parser.add_argument("--channel", metavar="C…", help="channel for alerts")
    parser.add_argument("--operators", metavar="U…,U…", help="people who may run commands")
    parser.add_argument("--system", action="store_true", help="write a unit for the system, not for your own systemd")


def importing(parser: ArgumentParser) -> None:
    files = "the other tool's configuration, or several for one new configuration; they aren't changed"
    parser.add_argument("file", nargs="+", metavar="FILE", help=files)
    parser.add_argument("--output", default="config.yaml", metavar="FILE", help="the new file (default: config.yaml)")
    parser.add_argument("--force", action="store_true", help="replace the new file if it exists")
    which = "a worker's id, once for each worker; by default those with a heartbeat on the drive"
    parser.add_argument("--worker-id", action="append", default=[], metavar="ID", help=which)


def doctor(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help=JSON)


def db(parser: ArgumentParser) -> None:
    parser.add_argument("upgrade", choices=["upgrade"], help="run the missing migrations")


def backup(parser: ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="the new file (default: ledger-HOST-TIME.db)")
    parser.add_argument("--json", action="store_true", help=JSON)


def restore(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that `supervisor backup` wrote")
    parser.add_argument("--force", action="store_true", help="take the backup of another host or of a hub as well")


def fleet(parser: ArgumentParser) -> None:
    what = "init: make this host the hub. invite: print a token for a new host. join: let this host join with a token. "
    what += "list: show the hosts. revoke: cut a host off. doctor: check key, connection, server and rights"
    parser.add_argument("what", choices=["init", "invite", "join", "list", "revoke", "doctor"], help=what)
    parser.add_argument("name", nargs="?", metavar="NAME", help="with invite and revoke: the host")
    source = "with join: the file with the token, or - for standard input (default: it's asked for)"
    parser.add_argument("--token-file", metavar="FILE", help=source)
    parser.add_argument("--url", metavar="URL", help="with init: URL of the server, such as tls://hub:4222")
    parser.add_argument("--json", action="store_true", help="with list: print JSON")


def completion(parser: ArgumentParser) -> None:
    what = "the shell whose script is printed; workers, targets: the names that the script completes"
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "workers", "targets"], help=what)


def demo(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=port, default=0, metavar="P", help="the page's port (default: any free port)")
    parser.add_argument("--fleet", action="store_true", help="a hub and three hosts instead of one host")
    parser.add_argument("--tour", action="store_true", help="play a session in the terminal, check it, and exit")


def playground(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=port, default=0, metavar="P", help="the port (default: any free port)")
    parser.add_argument("--manifest", metavar="FILE", help="the app's manifest (default: ./manifest.yml, else any app)")
    parser.add_argument("--journal", metavar="FILE", help="record everything that happens, as JSON lines")
    parser.add_argument("--rate-limits", action="store_true", help="enforce Slack's rate limits as well")
    parser.add_argument("--strict", action="store_true", help="refuse unknown arguments of methods")
    parser.add_argument("--latency", type=latency, default=0.0, metavar="MS", help="delay each Web API call")


class Subcommand:
    """One subcommand: its options, its function, its description, and an example."""

    __slots__ = ("configure", "description", "example", "place")

    def __init__(self, place: str, configure: Callable[[ArgumentParser], None], description: str, example: str) -> None:
        self.place = place
        """`module:function` in this package, imported only to run it."""
        self.configure = configure
        self.description = description
        self.example = example


_START = Subcommand(
    "lifecycle:run_start", start, "Start the daemon in the background, and wait until it's up.", "daemon start"
)
_STOP = Subcommand("lifecycle:run_stop", stop, "Stop the daemon. Its workers keep running.", "daemon stop")
_RESTART = Subcommand(
    "lifecycle:run_restart", lambda _parser: None, "Restart the daemon. Its workers keep running.", "daemon restart"
)
_RUN = Subcommand("run:run_run", run, "Run the daemon in the foreground.", "daemon run --quiet")
_EVENTS = Subcommand("logs:run", events, "Show the daemon's events, newest last.", "daemon logs -f --level warning")

SUBCOMMANDS = {
    "status": Subcommand("status:run", status, "Show the workers and their health, verified now.", "status OrionMX"),
    "top": Subcommand("top:run", top, "Show the workers live, with their current CPU and memory. `q` quits.", "top"),
    "logs": Subcommand(
        "logs:run", logs, "Show a worker's output, or without a target the daemon's events.", "logs OrionMX -f"
    ),
    "alerts": Subcommand("alerts:run", alerts, "List the open alerts, or act on one.", "alerts acknowledge k3f9x2qa"),
    "approvals": Subcommand(
        "approvals:run", approvals, "List what is waiting for an approval, or decide.", "approvals approve ap_7f3k"
    ),
    "audit": Subcommand(
        "audit:run",
        audit,
        "Search the audit trail: who did what, when, and the outcome.",
        "audit --worker OrionMX --since 2d",
    ),
    "daemon": Subcommand("", daemon, "Start, stop or restart the daemon, or show its events.", "daemon restart"),
    "daemon start": _START,
    "daemon stop": _STOP,
    "daemon restart": _RESTART,
    "daemon logs": _EVENTS,
    "daemon run": _RUN,
    "start": _START,
    "stop": _STOP,
    "run": _RUN,
    "once": Subcommand(
        "run:run_once",
        once,
        "Run one pass for a worker: its flags, waiting commands and health.",
        "once --worker-id OrionMX --heal",
    ),
    "send": Subcommand(
        "send:run",
        send,
        "Send a command, in the words that Slack uses.",
        "send 'rollback OrionMX 3 hotfix' --wait",
    ),
    "config": Subcommand("config:run", config, "Validate the configuration.", "config check --config new.yaml"),
    "init": Subcommand(
        "init:run",
        init,
        "Write the configuration, the Slack app's manifest and a systemd unit of this host. It asks what it must know.",
        "init --yes --worker fetcher --command 'python3 fetch.py --all' --cwd /srv/fetcher",
    ),
    "import": Subcommand(
        "importing:run",
        importing,
        "Convert files of systemd, supervisord or Cornerstone Archive, or the output of `pm2 jlist`.",
        "import /etc/systemd/system/fetcher.service --output config.yaml",
    ),
    "doctor": Subcommand(
        "upkeep:run_doctor",
        doctor,
        "Check the installation, Slack included, and say how to fix each problem.",
        "doctor",
    ),
    "db": Subcommand("upkeep:run_db", db, "Upgrade the ledger; create the shared database's tables.", "db upgrade"),
    "backup": Subcommand("upkeep:run_backup", backup, "Copy the ledger to a file while the daemon runs.", "backup"),
    "restore": Subcommand(
        "upkeep:run_restore",
        restore,
        "Put a backup in the place of the ledger, while the daemon is stopped. Workers keep running.",
        "restore ledger-OrionMX-20260205T143015Z.db",
    ),
    "fleet": Subcommand(
        "fleet:run", fleet, "Set up a fleet: one hub, and hosts that join it with a token.", "fleet invite web-1"
    ),
    "completion": Subcommand(
        "completion:run",
        completion,
        "Print a script that completes commands, options and worker names at TAB.",
        "completion bash > ~/.local/share/bash-completion/completions/supervisor",
    ),
    "demo": Subcommand(
        "run:run_demo", demo, "Try a supervisor with a worker and a local Slack in the browser.", "demo --tour"
    ),
    "playground": Subcommand(
        "run:run_playground", playground, "Run a local Slack for testing any bot.", "playground --port 8080"
    ),
}

ACTIONS = tuple(name.removeprefix("daemon ") for name in SUBCOMMANDS if name.startswith("daemon "))


def parser_of(name: str) -> ArgumentParser:
    """The parser of a subcommand, such as `status` or `daemon start`; those of the catalog's commands included."""
    if name not in SUBCOMMANDS:
        from supervisor_core.cli.verbs import verb_parser

        return verb_parser(name)
    subcommand = SUBCOMMANDS[name]
    parser = new_parser(name, subcommand.description, f"supervisor {subcommand.example}")
    subcommand.configure(parser)
    return parser


class _Parser(ArgumentParser):
    """A parser whose errors name the nearest option or word. Options are never abbreviated."""

    def error(self, message: str) -> Never:
        import re

        from supervisor_core.common.text import nearest

        options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        words = [str(choice) for action in self._actions for choice in action.choices or ()]
        wrong = re.search(r"unrecognized arguments: .*?(--[^\s=]+)", message)
        known = options if wrong else words
        wrong = wrong or re.search(r"invalid choice: '([^']*)'", message)
        near = nearest(wrong[1], known) if wrong else None
        super().error(f"{message}. Did you mean {near}?" if near else message)


def new_parser(name: str, description: str, *examples: str) -> ArgumentParser:
    """A parser with what all subcommands have: `--config`, and examples below the options."""
    shown = "\n".join(["example:" if len(examples) == 1 else "examples:", *(f"  {each}" for each in examples)])
    parser = _Parser(
        prog=f"supervisor {name}",
        allow_abbrev=False,
        description=description,
        epilog=shown,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="default: $SUPERVISOR_CONFIG, else ./config.yaml")
    return parser


MOST = 1_000_000
HIGHEST_PORT = 65535
MOST_LATENCY = 60_000  # milliseconds
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""From harmless to worst."""


def count(text: str) -> int:
    return _number(text, 0)


def rows(text: str) -> int:
    return _number(text, 1)


def port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"must be a port from 0 (any free one) to {HIGHEST_PORT}, not {text!a}")
    return int(text)


def latency(text: str) -> float:
    """Seconds, from a number of milliseconds below one minute."""
    if not text.isascii() or not text.isdigit() or int(text) >= MOST_LATENCY:
        raise ArgumentTypeError(f"must be milliseconds from 0 to {MOST_LATENCY - 1}, not {text!a}")
    return int(text) / 1000


def level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise ArgumentTypeError(f"must be one of {', '.join(LEVELS).lower()}, not {text!a}")
    return text.upper()


def event(text: str) -> str:
    """The name of a log event, or a pattern that matches some."""
    from supervisor_core.common.log_events import NO_EVENT, LogEvent, unknown_pattern
    from supervisor_core.common.text import nearest

    if unknown_pattern(text):
        near = nearest(text, [NO_EVENT, *(each.event for each in LogEvent)])
        hint = f". Did you mean {near}?" if near else "; docs/reference/events.md lists them"
        raise ArgumentTypeError(f"there's no log event {text!a}{hint}")
    return text


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < MOST:
        raise ArgumentTypeError(f"must be a number of seconds above 0, not {text!a}")
    return number


def _number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not least <= number <= MOST:
        raise ArgumentTypeError(f"must be a number from {least} to {MOST}, not {text!a}")
    return number


class OfWorker(Action):
    """Collects `--worker ID` and the options behind it that are about this worker."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        workers = list(getattr(namespace, self.dest) or ())
        name = self.option_strings[0].removeprefix("--")
        if name == self.dest:
            workers.append({name: values})
        elif not workers:
            parser.error(f"{option_string} must follow the --worker that it's about")
        else:
            workers[-1] = {**workers[-1], name: values}
        setattr(namespace, self.dest, workers)
