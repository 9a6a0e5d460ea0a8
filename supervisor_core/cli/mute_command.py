"""`supervisor mute` and `unmute`: alerts about workers are quiet for a while, and told again; as `cli:name`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from supervisor_core.cli.alerts_command import request_of, wake
from supervisor_core.config import load_supervisor_config
from supervisor_core.desk.alerts import Alerts
from supervisor_core.domain.command import Command
from supervisor_core.domain.durations import HOUR, format_duration
from supervisor_core.domain.errors import UsageError
from supervisor_core.domain.grammar import parse
from supervisor_core.domain.suppressions import EVERYTHING
from supervisor_core.domain.targets import ALL
from supervisor_core.domain.times import to_text
from supervisor_core.gateway import grammar_context
from supervisor_core.runtime.host import opened_ledger


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options; the words are those of the command in Slack."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="TARGET 2h REASON…, as in Slack; one hour if left out")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> int:
    """Mute: for an hour where nothing is said."""
    return from_words("mute", options)


def from_words(name: str, options: argparse.Namespace) -> int:
    """Do what these words say."""
    context = grammar_context(load_supervisor_config(options.config))
    return act(parse(" ".join([name, *options.words]), context), options.config, as_json=options.json)


def act(command: Command, config_path: str | None, *, as_json: bool) -> int:
    """Do it, and tell what came of it."""
    config = load_supervisor_config(config_path)
    if not command.workers:
        raise UsageError(f"Whom? `supervisor {command.name} WORKER`; `all` means every one.")
    with opened_ledger(config) as ledger:
        alerts = Alerts(ledger)
        said = _unmuted(alerts, command) if command.name == "unmute" else _muted(alerts, command)
    wake(config)
    print(json.dumps(said) if as_json else said["message"])
    return 0


def _muted(alerts: Alerts, command: Command) -> dict[str, Any]:
    seconds = int(command.params["seconds"])
    made = alerts.mute(command.workers, seconds, request_of(str(command.params.get("reason") or "")))
    workers, until = [each.target.id for each in made], made[0].until
    hour = " An hour is what it is where nobody says how long." if seconds == HOUR else ""
    lasts = f"muted for {format_duration(seconds)}, until {until:%Y-%m-%d %H:%M} UTC."
    message = f"{', '.join(workers)}: {lasts}{hour} What still holds by then is said then."
    return {"success": True, "workers": workers, "until": to_text(until), "message": message}


def _unmuted(alerts: Alerts, command: Command) -> dict[str, Any]:
    request = request_of(str(command.params.get("reason") or ""))
    ended = alerts.unmute(command.workers, request, everything=command.target == ALL)
    message = f"Alerts about {', '.join(ended)} are told again." if ended else "Nobody of these is muted."
    if (still := alerts.muted().get(EVERYTHING.id)) is not None:
        message = f"Everything is in maintenance until {still.ends_at:%Y-%m-%d %H:%M} UTC: `unmute all` ends that."
    return {"success": True, "workers": ended, "message": message}
