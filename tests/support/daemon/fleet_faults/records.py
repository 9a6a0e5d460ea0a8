"""The records of a fleet after a story: ledgers, what the workers noted themselves, and what Slack shows. Pure values,
read once; `rules.py` judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import NullPool, create_engine, select

from slack_playground import Playground
from slack_playground.people import transcript
from supervisor_core.storage.tables import alerts, audit_log, jobs
from tests.support.daemon.fleet_faults.effects import START, STOP
from tests.support.daemon.fleet_faults.traffic import SentCommand, Traffic
from tests.support.daemon.fleet_homes import DatabaseHome, FleetHomes
from tests.support.homes import Home

Row = Mapping[str, Any]

NOTES = ".notes"
NOTING = (
    f"note() {{{{ echo $1 $$$$ >> {{worker_id}}{NOTES}; }}}}; "
    f"trap 'grep -qx \"{START} $$$$\" {{worker_id}}{NOTES} || note {START}; note {STOP}; kill $!; exit 0' TERM; "
    f"note {START}; sleep 100000 & wait"
)
"""One that is stopped before it has a trap notes neither its start nor its stop."""

NOTING_WORKER = {
    "command": ["/bin/sh", "-c", NOTING],
    "start_grace_seconds": 0.2,
    "stop_timeout_seconds": 20,
    "heartbeat_max_age_seconds": 0,
}
"""A worker that notes each of its starts and stops in a file, so that the effects of commands can be counted."""


@dataclass(frozen=True)
class LedgerRecord:
    """The rows of one ledger, in the order in which they were written."""

    jobs: Sequence[Row]
    audit: Sequence[Row]
    alerts: Sequence[Row]


@dataclass(frozen=True)
class SlackMessage:
    """A message of the bot in the channel."""

    subject: str
    """The command or alert that it's about."""
    text: str
    in_thread: bool = False


@dataclass(frozen=True)
class Fault:
    """Something that failed."""

    name: str
    target: str
    """The host, or the server, that an alert about it names."""
    begun: datetime
    ended: datetime


@dataclass(frozen=True)
class FleetRecord:
    """Everything that there is on record."""

    sent: Sequence[SentCommand]
    hub: LedgerRecord
    hosts: Mapping[str, LedgerRecord]
    notes: Mapping[str, Sequence[str]]
    """What each worker, by its address, noted: `start` and `stop`, in this order."""
    messages: Sequence[SlackMessage]
    faults: Sequence[Fault] | None
    """None if alerts aren't judged."""


def read(traffic: Traffic, faults: Sequence[Fault] | None = None) -> FleetRecord:
    """Everything that is on record now, after these faults."""
    fleet = traffic.fleet
    return FleetRecord(
        tuple(traffic.sent),
        _ledger(fleet.hub),
        {name: _ledger(host) for name, host in fleet.hosts.items()},
        _notes(fleet),
        _messages(traffic.slack),
        faults,
    )


def _ledger(home: Home) -> LedgerRecord:
    file = f"sqlite:///file:{home.state_dir / 'ledger.db'}?mode=ro&uri=true"
    engine = create_engine(home.url if isinstance(home, DatabaseHome) else file, poolclass=NullPool)
    with engine.connect() as connection:
        found = [
            [dict(row) for row in connection.execute(select(table).order_by(*order)).mappings()]
            for table, order in (
                (jobs, (jobs.c.job_id,)),
                (audit_log, (audit_log.c.supervisor_id, audit_log.c.audit_id)),
                (alerts, (alerts.c.opened_at,)),
            )
        ]
    return LedgerRecord(*found)


def _notes(fleet: FleetHomes) -> dict[str, list[str]]:
    found = {}
    for name, host in fleet.hosts.items():
        for worker in host.worker_ids:
            path = host.folder / f"{worker}{NOTES}"
            lines = path.read_text().splitlines() if path.exists() else []
            found[f"{name}/{worker}"] = [line.split()[0] for line in lines]
    return found


def _messages(slack: Playground) -> list[SlackMessage]:
    found, space = [], slack.server.world.workspace
    for message in slack.channel("ops").messages():
        subject = ((message.get("metadata") or {}).get("event_payload") or {}).get("subject", "")
        text = "\n".join(transcript.message_lines(message, space))
        found.append(SlackMessage(str(subject), text, message.get("thread_ts", message["ts"]) != message["ts"]))
    return found
