"""`supervisor alerts`, `mute` and `unmute`, for when Slack is away. Changes are recorded as `cli:name`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.alerts import flips
from supervisor_core.alerts.actions import AlertRequest, AlertService
from supervisor_core.alerts.grouping.rules import STORM, as_people_count
from supervisor_core.alerts.outside.trial import try_receiver
from supervisor_core.alerts.rules import Alert
from supervisor_core.alerts.suppression.rows import EVERYTHING, Hush, Suppression
from supervisor_core.cli import FAILURE, SUCCESS
from supervisor_core.cli.arguments import JSON, Subparsers, add_command
from supervisor_core.cli.host import load_config, shell_issuer, wake
from supervisor_core.cli.output import AMBER, DIM, GREEN, RED, fields_of, fit, print_json, print_table
from supervisor_core.commands.command import Command
from supervisor_core.commands.targets import ALL
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import printable
from supervisor_core.common.times import clock_time, format_ago, format_span, with_countdown
from supervisor_core.config.load import SHORTEST_SECRET, SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis.history import percent
from supervisor_core.host.logging.masking import Masking
from supervisor_core.jobs.model import new_task_id
from supervisor_core.workers.conditions import ALERTMANAGER, shown_as


def add_parser(subparsers: Subparsers) -> None:
    description = "List the open alerts, or act on one."
    parser = add_command(subparsers, "alerts", run, description, "alerts acknowledge k3f9x2qa")
    action = "act on one, or send a test alert to the receivers outside Slack; by default: list the open alerts"
    parser.add_argument("action", nargs="?", choices=["acknowledge", "snooze", "test"], help=action)
    parser.add_argument("alert", nargs="?", metavar="ID", help="the alert's id; for test, one receiver's name")
    uptime = "show each worker's uptime over 24 hours, 7 days and 30 days"
    parser.add_argument("--uptime", action="store_true", help=uptime)
    parser.add_argument("--json", action="store_true", help=JSON)


def run(arguments: argparse.Namespace) -> int:
    """List the alerts, act on one, or test the receivers."""
    action, as_json = arguments.action, arguments.json
    if action == "test":
        return _test(load_config(arguments.config), arguments.alert or "", as_json=as_json)
    if action and not arguments.alert:
        raise UsageError(f"Name the alert: `supervisor alerts {action} ID`. `supervisor alerts` lists the ids.")
    config = load_config(arguments.config)
    if arguments.uptime:
        return _show_uptime(config, as_json=as_json)
    if action is None:
        return show(config, as_json=as_json)
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        change = alerts.acknowledge if action == "acknowledge" else alerts.snooze
        alert = change(arguments.alert, _request())
    wake(config)
    if as_json:
        print_json(_alert_document(alert, {}))
    else:
        condition = shown_as(alert.condition, alert.reason).word
        print(f"{alert.state.capitalize()}: {alert.target.id} is {condition}: {alert.reason}")
    return 0


def _test(config: SupervisorConfig, name: str, *, as_json: bool) -> int:
    """Send a test alert to each receiver, or to one, and print the answers."""
    receivers = [receiver for receiver in config.alerts.outside if name in ("", receiver.label)]
    if not receivers:
        known = ", ".join(receiver.label for receiver in config.alerts.outside)
        raise UsageError(
            f"No receiver {name!a}. There are: {known}." if known else "No receiver of alerts is configured.",
            remedy="" if known else "Set alerts.webhook, alerts.receivers or alerts.notify in the configuration.",
        )
    with ThreadPoolExecutor(len(receivers)) as pool:
        results = list(pool.map(partial(try_receiver, config), receivers))
    # Parts of a URL may be tokens, and a receiver may show them in its answer.
    parts = {part for receiver in receivers for part in re.split(r"[/?&=]", receiver.address.partition("://")[2])[1:]}
    masking = Masking({*config.secrets, *(part for part in parts if len(part) >= SHORTEST_SECRET)})
    documents: list[dict[str, Any]] = [
        {
            "receiver": result.receiver.label,
            "format": result.receiver.format,
            "url": result.receiver.shown,
            "ok": result.ok,
            "answer": result.answer.words,
            "body": masking.text(result.answer.excerpt),
        }
        for result in results
    ]
    if as_json:
        print_json(documents, indented=True)
    else:
        keys = ("receiver", "format", "answer", "body")
        rows = [["ok" if each["ok"] else "failed", *(str(each[key]) for key in keys)] for each in documents]
        colors = [GREEN if result.ok else RED for result in results]
        print_table(("RESULT", *(key.upper() for key in keys)), rows, colors)
    return SUCCESS if all(result.ok for result in results) else FAILURE


def _show_uptime(config: SupervisorConfig, *, as_json: bool) -> int:
    now, workers = datetime.now(UTC), tuple(config.workers)
    with opened_ledger(config) as ledger:
        uptimes = ledger.read(
            lambda connection: flips.uptimes_of_workers(connection, ledger.supervisor_id, workers, now)
        )
    if as_json:
        documents = [
            {"worker_id": worker_id, "uptime": dict(zip(flips.SPANS, (span.share for span in spans), strict=True))}
            for worker_id, spans in uptimes.items()
        ]
        print_json(documents, indented=True)
    else:
        rows = [[worker_id, *map(percent, spans)] for worker_id, spans in uptimes.items()]
        print_table(("WORKER", *(name.upper() for name in flips.SPANS)), rows)
    return 0


def show_command(_command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    return show(config, as_json=as_json)


def show(config: SupervisorConfig, *, as_json: bool) -> int:
    """List the open alerts and the mutes."""
    with opened_ledger(config) as ledger:
        service = AlertService(ledger)
        alerts, muted, now = service.shown(), service.muted(), datetime.now(UTC)
    if as_json:
        print_json([_alert_document(alert, muted) for alert in alerts], indented=True)
        return 0
    if not alerts:
        print("No open alerts.")
    else:
        alerts_for_people = as_people_count(alerts)
        rows, colors = [], []
        for alert in alerts:
            if alert.target.kind != STORM and alert not in alerts_for_people:
                continue
            state, target, by = str(alert.state), alert.target, alert.acknowledged_by
            if by and state == "acknowledged":
                state += f" by {by.name or by.id}"
            name = target.worker or f"{target.kind} of {target.id}"
            rows.append(
                [
                    state,
                    str(alert.severity),
                    ALERTMANAGER.capitalize() if target.kind == ALERTMANAGER else name,
                    shown_as(alert.condition, alert.reason).word,
                    format_ago(alert.opened_at, now),
                    alert.alert_id,
                    with_countdown(alert.reason, now),
                ]
            )
            # dim once somebody looks after it
            colors.append(DIM if alert.state != "open" else RED if alert.severity == "critical" else AMBER)
        print_table(("STATE", "SEVERITY", "TARGET", "CONDITION", "SINCE", "ALERT", "WHY"), rows, colors)
    for worker_id, mute in sorted(muted.items()):
        name = "Everything" if worker_id == EVERYTHING.id else worker_id
        how = "in maintenance" if mute.kind is Hush.MAINTENANCE else "muted"
        until, by_name = clock_time(mute.ends_at, now), mute.by.name or mute.by.id
        print(printable(f"{name} is {how} until {until} by {by_name}{f': {mute.reason}' if mute.reason else ''}"))
    return 0


def _alert_document(alert: Alert, muted: Mapping[str, Suppression]) -> dict[str, Any]:
    by, mute = alert.acknowledged_by, muted.get(alert.target.worker or EVERYTHING.id) or muted.get(EVERYTHING.id)
    return {
        **fields_of(alert, "target"),
        "target_type": alert.target.kind,
        "target_id": alert.target.id,
        "acknowledged_by": {"id": by.id, "name": by.name} if by else None,
        "muted_until": mute.ends_at if mute else None,
    }


def mute_or_unmute(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Mute or unmute the command's workers, and print the result."""
    request, now = _request(str(command.params.get("reason") or "")), datetime.now(UTC)
    document: dict[str, Any] = {"success": True}
    with opened_ledger(config) as ledger:
        alerts = AlertService(ledger)
        if command.name == "unmute":
            workers = alerts.unmute(command.workers, request, everything=command.target == ALL)
            message = f"{', '.join(workers)}: no longer muted." if workers else "Nothing to do: not muted."
            if (maintenance := alerts.muted().get(EVERYTHING.id)) is not None:
                until = clock_time(maintenance.ends_at, now)
                message = f"Everything is in maintenance until {until}. `supervisor unmute all` ends that."
        else:
            seconds = int(command.params["seconds"])
            mutes = alerts.mute(command.workers, seconds, request)
            workers, until = [mute.target.id for mute in mutes], clock_time(mutes[0].until, now)
            document["until"] = mutes[0].until
            message = f"{', '.join(workers)}: muted for {format_span(seconds)}, until {until}. "
            message += "Alerts are still recorded. Alerts still open when the mute ends will be posted."
    wake(config)
    if as_json:
        print_json({**document, "workers": workers, "message": message})
    else:
        print(fit(message))
    return 0


def _request(reason: str = "") -> AlertRequest:
    return AlertRequest(shell_issuer(), "cli", new_task_id(datetime.now(UTC)), reason)
