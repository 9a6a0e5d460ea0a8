"""`supervisor status`: the live state, verified. It asks the daemon, and imports nothing that it does not use."""

from __future__ import annotations

import os
import sys
import time

from supervisor_core.config.raw import read_raw, state_dir_of
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

ANSWER_SECONDS = 2.0
EVERYBODY = "all"


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--plain", action="store_true", help="key=value, a line each")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="a worker, team:NAME, a pattern or all; the exit code is then the health of those workers alone",
    )
    which.add_argument("--worker", metavar="ID", help="this worker alone; the exit code is its health alone")


def run(options: argparse.Namespace) -> int:
    """Ask, show, and say by the exit code whether all is well."""
    raw = read_raw(options.config)
    status = ask_status(state_dir_of(raw), options.config)
    target = options.worker or options.target
    narrowed = bool(target and (options.worker or target != EVERYBODY))
    if narrowed:
        from supervisor_core.cli.status.targets import narrow

        narrow(status, target, raw)
    print(_form(status, options, services=not narrowed))
    return 0 if status["healthy"] else 1


def ask_status(state_dir: str, config: str | None) -> dict[str, Any]:
    """What the daemon says; without one, a look of our own."""
    try:
        return ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except NotRunningError:
        state = ""
    except UnresponsiveError:
        state = "unresponsive"
    from supervisor_core.cli.status.without_daemon import status_without_daemon

    return status_without_daemon(config, state)


def _form(status: dict[str, Any], options: argparse.Namespace, *, services: bool) -> str:
    if options.json:
        import json

        return json.dumps(status, indent=2)
    if options.plain:
        from supervisor_core.cli.status.views import plain_lines

        return "\n".join(plain_lines(status))
    from supervisor_core.cli.status.views import StatusText

    terminal = sys.stdout.isatty()
    width = os.get_terminal_size().columns or None if terminal else None
    coloured = terminal and not (os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt")
    return StatusText(width, time.strftime("%Y-%m-%d", time.gmtime()), coloured=coloured).status(
        status, services=services
    )
