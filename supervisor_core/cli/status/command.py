"""`supervisor status`: the live state, from the daemon or a look of our own. It imports nothing that it doesn't use."""

from __future__ import annotations

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.raw import read_raw, state_dir_of
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from supervisor_core.config.raw import RawConfig

ANSWER_SECONDS = 2.0
EVERYBODY = "all"


def run(options: argparse.Namespace) -> int:
    """Show the status; the exit code says whether everything is healthy."""
    form = "json" if options.json else "plain" if options.plain else ""
    target = options.worker or (options.target if options.target != EVERYBODY else None)
    return show(options.config, target, form, services=options.services)


def show(config: str | None, target: str | None, form: str = "", *, services: bool = False) -> int:
    """Show the status of everything or of a target, as tables, `plain` lines or `json`."""
    raw = read_quickly(config)
    status = ask_status(state_dir_of(raw), config)
    if target:
        from supervisor_core.cli.status.targets import narrow

        narrow(status, target, raw)
    print(_form(status, form, services=True if services else False if target else None))
    return 0 if status["healthy"] else 1


def read_quickly(config: str | None) -> RawConfig:
    """The raw configuration; only for a broken file is more imported, to use the last good one."""
    try:
        raw = read_raw(config)
        state_dir_of(raw)
    except ConfigError:
        from supervisor_core.cli.host import read_config

        return read_config(config)
    return raw


def ask_status(state_dir: str, config: str | None) -> dict[str, Any]:
    """The daemon's answer; without one, a look of our own."""
    try:
        return ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except NotRunningError:
        state = ""
    except UnresponsiveError:
        state = "unresponsive"
    from supervisor_core.cli.status.without_daemon import status_without_daemon

    return status_without_daemon(config, state)


def _form(status: dict[str, Any], form: str, *, services: bool | None) -> str:
    if form == "json":
        import json

        return json.dumps(status, indent=2)
    if form == "plain":
        from supervisor_core.cli.status.views import plain_lines

        return "\n".join(plain_lines(status))
    from datetime import UTC, datetime

    from supervisor_core.cli.status.views import StatusText
    from supervisor_core.cli.table import terminal_width, wants_colour

    return StatusText(terminal_width(), datetime.now(UTC), coloured=wants_colour()).status(status, services=services)
