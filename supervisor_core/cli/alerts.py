"""`supervisor alerts`, `mute` and `unmute`, for when Slack is away. Changes are recorded as `cli:name`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.alerts import flips as uptimes
from supervisor_core.alerts.actions import AlertRequest, AlertService
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.grouping.rules import STORM, as_people_count
from supervisor_core.alerts.outside.trial import try_receiver
from supervisor_core.alerts.rules import Alert
from supervisor_core.alerts.suppression.rows import EVERYTHING, Hush, Suppression
from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.cli.host import load_config, shell_issuer, wake
from supervisor_core.cli.table import AMBER, DIM, GREEN, RED, fit, print_table
from supervisor_core.commands.command import Command
from supervisor_core.commands.targets import ALL
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import printable
from supervisor_core.common.times import clock_time, format_ago, format_span, to_text, with_countdown
from supervisor_core.config.load import SHORTEST_SECRET, SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis.history import percent
from supervisor_core.host.logging.masking import Masking
from supervisor_core.jobs.model import new_task_id
from supervisor_core.workers.conditions.rules import ALERTMANAGER, shown_as

DOOR = "cli"


def run(options: argparse.Namespace) -> int:
    """List the alerts, act on one, or test the receivers."""
    if options.what == "test":
        return test(load_config(options.config), options.alert or "", as_json=options.json)
    if options.what and not options.alert:
        raise UsageError(f"Name the alert: `supervisor alerts {options.what} ID`. `supervisor alerts` lists the ids.")
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
        print(f"{alert.state.capitalize()}: {alert.target.id} is {condition_word(alert)}: {alert.reason}")
    return 0


def test(config: SupervisorConfig, name: str, *, as_json: bool) -> int:
    """Send a test alert to each receiver, or to one, and print the answers."""
    receivers = [each for each in config.alerts.outside if name in ("", each.label)]
    if not receivers:
        known = ", ".join(each.label for each in config.alerts.outside)
        raise UsageError(
            f"No receiver {name!a}. There are: {known}." if known else "No receiver of alerts is configured.",
            remedy="" if known else "Set alerts.webhook, alerts.receivers or alerts.notify in the configuration.",
        )
    with ThreadPoolExecutor(len(receivers)) as pool:
        results = list(pool.map(partial(try_receiver, config), receivers))
    # Parts of a URL may be tokens, and a receiver may show them in its answer.
    parts = {part for each in receivers for part in re.split(r"[/?&=]", each.address.partition("://")[2])[1:]}
    masking = Masking({*config.secrets, *(part for part in parts if len(part) >= SHORTEST_SECRET)})
    found = [
        {
            "receiver": each.receiver.label,
            "format": each.receiver.format,
            "url": each.receiver.shown,
            "ok": each.ok,
            "answer": each.answer.words,
            "body": masking.text(each.answer.excerpt),
        }
        for each in results
    ]
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        rows = [
            ["ok" if each["ok"] else "failed", *(str(each[key]) for key in ("receiver", "format", "answer", "body"))]
            for each in found
        ]
        head = ("RESULT", "RECEIVER", "FORMAT", "ANSWER", "BODY")
        print_table(head, rows, [GREEN if each.ok else RED for each in results])
    return SUCCESS if all(each.ok for each in results) else FAILURE


def request_of(reason: str = "") -> AlertRequest:
    return AlertRequest(shell_issuer(), DOOR, new_task_id(datetime.now(UTC)), reason)


def document(alert: Alert, muted: Mapping[str, Suppression]) -> dict[str, Any]:
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
        "evidence": list(alert.evidence),
    }


def show(config: SupervisorConfig, *, as_json: bool) -> int:
    """List the open alerts and the mutes."""
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        found, muted, now = alerts.shown(), alerts.muted(), datetime.now(UTC)
    if as_json:
        print(json.dumps([document(alert, muted) for alert in found], indent=2))
        return 0
    if not found:
        print("No open alerts.")
    else:
        counted = as_people_count(found)
        listed = [alert for alert in found if alert.target.kind == STORM or alert in counted]
        rows, colours = [], []
        for alert in listed:
            by = f" by {alert.acknowledged_by.name or alert.acknowledged_by.id}" if alert.acknowledged_by else ""
            target = alert.target.worker or f"{alert.target.kind} of {alert.target.id}"
            rows.append(
                [
                    f"{alert.state}{by if alert.state == 'acknowledged' else ''}",
                    str(alert.severity),
                    ALERTMANAGER.capitalize() if alert.target.kind == ALERTMANAGER else target,
                    condition_word(alert),
                    format_ago(alert.opened_at, now),
                    alert.alert_id,
                    with_countdown(alert.reason, now),
                ]
            )
            # dim once somebody looks after it
            colours.append(DIM if alert.state != "open" else RED if alert.severity == "critical" else AMBER)
        head = ("STATE", "SEVERITY", "TARGET", "CONDITION", "SINCE", "ALERT", "WHY")
        print_table(head, rows, colours)
    for worker_id, mute in sorted(muted.items()):
        why = f": {mute.reason}" if mute.reason else ""
        name = "Everything" if worker_id == EVERYTHING.id else worker_id
        how = "in maintenance" if mute.kind is Hush.MAINTENANCE else "muted"
        print(printable(f"{name} is {how} until {clock_time(mute.ends_at, now)} by {mute.by.name or mute.by.id}{why}"))
    return 0


def _uptime(worked: Mapping[str, Sequence[Uptime]], *, as_json: bool) -> int:
    if as_json:
        shares = [
            {
                "worker_id": worker_id,
                "uptime": {name: part.share for name, part in zip(uptimes.SPANS, parts, strict=True)},
            }
            for worker_id, parts in worked.items()
        ]
        print(json.dumps(shares, indent=2))
        return 0
    head = ("WORKER", *(name.upper() for name in uptimes.SPANS))
    print_table(head, [[worker_id, *map(percent, parts)] for worker_id, parts in worked.items()])
    return 0


def condition_word(alert: Alert) -> str:
    return shown_as(alert.condition, alert.reason).word


def mute_or_unmute(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Mute or unmute the command's workers, and print the result."""
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        request, now = request_of(str(command.params.get("reason") or "")), datetime.now(UTC)
        answer: dict[str, Any]
        if command.name == "unmute":
            workers = alerts.unmute(command.workers, request, everything=command.target == ALL)
            message = f"{', '.join(workers)}: no longer muted." if workers else "Nothing to do: not muted."
            if (still := alerts.muted().get(EVERYTHING.id)) is not None:
                until = clock_time(still.ends_at, now)
                message = f"Everything is in maintenance until {until}. `supervisor unmute all` ends that."
            answer = {"success": True, "workers": workers, "message": message}
        else:
            seconds = int(command.params["seconds"])
            mutes = alerts.mute(command.workers, seconds, request)
            workers, ends_at = [each.target.id for each in mutes], mutes[0].until
            message = f"{', '.join(workers)}: muted for {format_span(seconds)}, until {clock_time(ends_at, now)}. "
            message += "Alerts are still recorded. Alerts still open when the mute ends will be posted."
            answer = {"success": True, "workers": workers, "until": to_text(ends_at), "message": message}
    wake(config)
    print(json.dumps(answer) if as_json else fit(message))
    return 0
