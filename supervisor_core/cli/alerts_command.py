"""`supervisor alerts`: the alerts there are; `acknowledge` and `snooze` do something about one, as `cli:name`.

The way in when Slack is away: whoever can run this on the host holds the host.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.table import folded_table, table
from supervisor_core.cli.who import shell_issuer
from supervisor_core.config import SupervisorConfig, load_supervisor_config
from supervisor_core.desk.alerts import Alerts, Request
from supervisor_core.domain.alerts import Alert
from supervisor_core.domain.durations import MINUTE, format_duration
from supervisor_core.domain.errors import UsageError
from supervisor_core.domain.flips import Uptime
from supervisor_core.domain.history import percent
from supervisor_core.domain.jobs import new_task_id
from supervisor_core.domain.suppressions import EVERYTHING, Hush, Suppression
from supervisor_core.domain.times import to_text
from supervisor_core.ledger import uptimes
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask
from supervisor_core.runtime.host import opened_ledger

DOOR = "cli"
HEAD = ("ALERT", "STATE", "SEVERITY", "TARGET", "CONDITION", "SINCE", "WHY")


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("what", nargs="?", choices=["acknowledge", "snooze"], help="left out: list those there are")
    parser.add_argument("alert", nargs="?", metavar="ID", help="the alert")
    parser.add_argument("--uptime", action="store_true", help="how long each worker was at work: 24 h, 7 and 30 days")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> int:
    """List, or do something about one."""
    if options.what and not options.alert:
        raise UsageError(f"Which one? `supervisor alerts {options.what} ID`; `supervisor alerts` lists them.")
    config = load_supervisor_config(options.config)
    with opened_ledger(config) as ledger:
        alerts = Alerts(ledger)
        if options.uptime:
            now, workers = datetime.now(UTC), tuple(config.workers)
            worked = ledger.read(lambda connection: uptimes.of_workers(connection, ledger.supervisor_id, workers, now))
            return _uptime(worked, as_json=options.json)
        if options.what is None:
            return _list(alerts, as_json=options.json)
        asked = request_of()
        do = alerts.acknowledge if options.what == "acknowledge" else alerts.snooze
        alert = do(options.alert, asked)
    wake(config)
    if options.json:
        print(json.dumps(document(alert, {})))
    else:
        print(f"{alert.state}: {alert.target.id} is {alert.condition}: {alert.reason}")
    return 0


def request_of(reason: str = "") -> Request:
    """Whoever sits at this shell asks for it."""
    return Request(shell_issuer(), DOOR, new_task_id(datetime.now(UTC)), reason)


def wake(config: SupervisorConfig) -> None:
    """Have a running daemon look now; without one it is found at its next start."""
    try:
        ask(str(config.state_dir), {"do": "wake"})
    except (NotRunningError, UnresponsiveError):
        return


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


def _list(alerts: Alerts, *, as_json: bool) -> int:
    found, muted = alerts.shown(), alerts.muted()
    if as_json:
        print(json.dumps([document(alert, muted) for alert in found], indent=2))
        return 0
    if not found:
        print("No alert is open.")
    else:
        width = os.get_terminal_size().columns if sys.stdout.isatty() else None
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
