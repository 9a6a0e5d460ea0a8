"""The facts that the status page and the metrics show, gathered at one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.flips import ConditionSpan, condition_spans, flips_of_workers
from supervisor_core.alerts.rules import SHOWN, Alert
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.service import ServiceReport, ServiceState
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import CommandSummary
from supervisor_core.storage.steps import PENDING
from supervisor_core.storage.tables import outbox

if TYPE_CHECKING:
    from supervisor_core.daemon.app import Application

HISTORY = timedelta(hours=24)
RECENT_COMMANDS = 12
MOST_PICTURES = 500
"""The most workers with a history. A page with more would take seconds."""

Documents = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class OutboxFacts:
    """The waiting messages of one kind."""

    kind: str
    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    alerts: Sequence[Alert] = ()
    approvals: Sequence[Approval] = ()
    commands: Sequence[CommandSummary] = ()
    waiting: Sequence[OutboxFacts] = ()
    history: Mapping[str, Sequence[ConditionSpan]] = field(default_factory=dict)
    """The conditions of each worker in the last 24 hours."""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WebFacts:
    """Everything that the page and the metrics show."""

    host: str
    at: datetime
    workers: Documents
    services: Sequence[ServiceReport]
    problem: str
    ledger: LedgerFacts
    waiting_rows: int = 0
    """The rows that wait for a shared database."""
    chat: Mapping[str, float] = field(default_factory=dict)
    """Figures of the chat's connection, by the end of their metric's name."""

    @property
    def ready(self) -> bool:
        """True if workers are supervised, and no vital service is starting."""
        return not self.problem and all(each.state is not ServiceState.STARTING for each in self.services)


class FactCollector:
    """Gathers facts. A ledger that can't be read leaves its part empty, and the rest is shown."""

    def __init__(self, daemon: Application) -> None:
        self._daemon = daemon
        self._ledger = daemon.context.ledger

    async def gather(self) -> WebFacts:
        daemon, now = self._daemon, datetime.now(UTC)
        problem = daemon.problem()
        workers = await daemon.hosts.detailed_statuses()
        known = LedgerFacts()
        try:
            if self._ledger.trouble is not None:
                raise self._ledger.trouble
            known = await daemon.blocking(self._read_ledger, [str(worker["id"]) for worker in workers], now)
        except (SupervisorError, SQLAlchemyError) as error:
            problem = problem or describe(error)
        return WebFacts(
            daemon.context.host.config.supervisor.id,
            now,
            workers,
            daemon.reports(),
            problem,
            known,
            daemon.forwarder.waiting_rows if daemon.forwarder else 0,
            daemon.chat.figures() if daemon.chat else {},
        )

    def _read_ledger(self, workers: Sequence[str], now: datetime) -> LedgerFacts:
        def look(connection: Connection) -> LedgerFacts:
            mine = outbox.c.state == PENDING
            query = select(outbox.c.kind, func.count(), func.min(outbox.c.created_at)).where(mine)
            waiting = [
                OutboxFacts(
                    kind, count, max(0.0, (now - oldest).total_seconds()) if isinstance(oldest, datetime) else 0
                )
                for kind, count, oldest in connection.execute(query.group_by(outbox.c.kind).order_by(outbox.c.kind))
            ]
            host, since, history = self._ledger.supervisor_id, now - HISTORY, {}
            if len(workers) <= MOST_PICTURES:
                flips = flips_of_workers(connection, host, since, now)
                history = {name: condition_spans(flips.get(name, ()), since, now) for name in workers}
            size = 0
            for end in ("", "-wal"):
                with contextlib.suppress(OSError):  # a ledger in a database has no file
                    size += Path(self._ledger.name + end).stat().st_size
            return LedgerFacts(
                alerts.in_states(connection, SHOWN, host),
                approvals.in_states(connection, (ApprovalState.PENDING,)),
                jobs.recent(connection, RECENT_COMMANDS),
                waiting,
                history,
                size,
            )

        return self._ledger.read(look)
