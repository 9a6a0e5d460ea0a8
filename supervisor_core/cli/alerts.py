"""`supervisor alerts`, `mute` and `unmute`, for when Slack is away. Changes are recorded as `cli:name`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.alerts import flips as uptimes
from supervisor_core.alerts.actions import AlertRequest, AlertService
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.rules import Alert
from supervisor_core.alerts.suppression.rows import EVERYTHING, Hush, Suppression
from supervisor_core.cli.host import load_config, shell_issuer, wake
from supervisor_core.cli.table import folded_table, table, terminal_width
from supervisor_core.commands.command import Command
from supervisor_core.commands.targets import ALL
from supervisor_core.common.errors import UsageError
from supervisor_core.common.times import HOUR, MINUTE, format_duration, to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis.history import percent
from supervisor_core.jobs.model import new_task_id

DOOR = "cli"
HEAD = ("ALERT", "STATE", "SEVERITY", "TARGET", "CONDITION", "SINCE", "WHY")


def run(options: argparse.Namespace) -> int:
    """List, or do something about one."""
    if options.what and not options.alert:
        raise UsageError(f"Which one? `supervisor alerts {options.what} ID`; `supervisor alerts` lists them.")
    config = load_config(options.config)
    if options.what is None and not options.uptime:
        return show(config, as_json=options.json)
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        if options.uptime:
            now, workers = datetime.now(UTC), tuple(config.workers)
            worked = ledger.read(
                lambda connection: uptimes.uptimes_of_workers(connection, ledger.supervisor_id, workers, now)
            )
            return _uptime(worked, as_json=options.json)
        asked = request_of()
        do = alerts.acknowledge if options.what == "acknowledge" else alerts.snooze
        alert = do(options.alert, asked)
    wake(config)
    if options.json:
        print(json.dumps(document(alert, {})))
    else:
        print(f"{alert.state}: {alert.target.id} is {alert.condition}: {alert.reason}")
    return 0


def request_of(reason: str = "") -> AlertRequest:
    """Whoever sits at this shell asks for it."""
    return AlertRequest(shell_issuer(), DOOR, new_task_id(datetime.now(UTC)), reason)


def document(alert: Alert, muted: Mapping[str, Suppression]) -> dict[str, Any]:
    """For programs."""
    by = alert.acknowledged_by
    mute = muted.get(alert.target.worker or EVERYTHING.id) or muted.get(EVERYTHING.id)
    return {
        "alert_id": alert.alert_id,
        "supervisor_id": alert.supervisor_id,
        "target_type": alert.target.kind,
        "target_id": alert.target.id,
        "condition": str(alert.condition),
        "severity": str(alert.severity),
        "state": str(alert.state),
        "reason": alert.reason,
        "opened_at": to_text(alert.opened_at),
        "occurrences": alert.occurrences,
        "acknowledged_by": {"id": by.id, "name": by.name} if by else None,
        "acknowledged_at": to_text(alert.acknowledged_at) if alert.acknowledged_at else None,
        "muted_until": to_text(mute.ends_at) if mute else None,
        "told": str(alert.told) if alert.told else None,
        "told_at": to_text(alert.told_at) if alert.told_at else None,
        "reminders": alert.reminders,
        "escalated": alert.escalated,
        "decided": alert.decided,
        "due_at": to_text(alert.due_at) if alert.due_at else None,
        "parent_id": alert.parent_id,
    }


def show(config: SupervisorConfig, *, as_json: bool) -> int:
    """List the open alerts and the mutes."""
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        found, muted = alerts.shown(), alerts.muted()
    if as_json:
        print(json.dumps([document(alert, muted) for alert in found], indent=2))
        return 0
    if not found:
        print("No alert is open.")
    else:
        width = terminal_width()
        print(folded_table(HEAD, [_row(alert) for alert in found], width))
    for worker_id, mute in sorted(muted.items()):
        why = f": {mute.reason}" if mute.reason else ""
        name = "everything" if worker_id == EVERYTHING.id else worker_id
        how = "in maintenance" if mute.kind is Hush.MAINTENANCE else "muted"
        print(f"{name} is {how} until {mute.ends_at:%Y-%m-%d %H:%M} UTC by {mute.by.name or mute.by.id}{why}")
    return 0


def _uptime(worked: Mapping[str, Sequence[Uptime]], *, as_json: bool) -> int:
    if as_json:
        shares = {
            worker_id: {name: part.share for name, part in zip(uptimes.SPANS, parts, strict=True)}
            for worker_id, parts in worked.items()
        }
        print(json.dumps([{"worker_id": worker_id, "uptime": each} for worker_id, each in shares.items()], indent=2))
        return 0
    head = ("WORKER", *(name.upper() for name in uptimes.SPANS))
    print(table(head, [[worker_id, *map(percent, parts)] for worker_id, parts in worked.items()]))
    return 0


def _row(alert: Alert) -> list[str]:
    by = f" by {alert.acknowledged_by.name or alert.acknowledged_by.id}" if alert.acknowledged_by else ""
    seconds = int((datetime.now(UTC) - alert.opened_at).total_seconds())
    since = f"{format_duration(seconds)} ago" if seconds >= MINUTE else "just now"
    whose = alert.target.worker or f"{alert.target.kind} of {alert.target.id}"
    return [
        alert.alert_id,
        f"{alert.state}{by if alert.state == 'acknowledged' else ''}",
        str(alert.severity),
        whose,
        str(alert.condition),
        since,
        alert.reason,
    ]


def mute_or_unmute(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Mute or unmute the command's workers, and print the result."""
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        said = _unmuted(alerts, command) if command.name == "unmute" else _muted(alerts, command)
    wake(config)
    print(json.dumps(said) if as_json else said["message"])
    return 0


def _muted(alerts: AlertService, command: Command) -> dict[str, Any]:
    seconds = int(command.params["seconds"])
    made = alerts.mute(command.workers, seconds, request_of(str(command.params.get("reason") or "")))
    workers, until = [each.target.id for each in made], made[0].until
    hour = " An hour is what it is where nobody says how long." if seconds == HOUR else ""
    lasts = f"muted for {format_duration(seconds)}, until {until:%Y-%m-%d %H:%M} UTC."
    message = f"{', '.join(workers)}: {lasts}{hour} What still holds by then is said then."
    return {"success": True, "workers": workers, "until": to_text(until), "message": message}


def _unmuted(alerts: AlertService, command: Command) -> dict[str, Any]:
    request = request_of(str(command.params.get("reason") or ""))
    ended = alerts.unmute(command.workers, request, everything=command.target == ALL)
    message = f"Alerts about {', '.join(ended)} are told again." if ended else "Nobody of these is muted."
    if (still := alerts.muted().get(EVERYTHING.id)) is not None:
        message = f"Everything is in maintenance until {still.ends_at:%Y-%m-%d %H:%M} UTC: `unmute all` ends that."
    return {"success": True, "workers": ended, "message": message}
