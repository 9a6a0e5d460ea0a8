"""The daemon's own host, by a look at this moment."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from supervisor_core.code.git import versions
from supervisor_core.code.watch.rules import WatchedWorker
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.conditions import Facts, facts_of
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.reconciler import Reconciler
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.monitoring import set_monitoring
from supervisor_core.daemon.status import statuses_in_motion, watched_workers, worker_documents
from supervisor_core.diagnosis.worker_logs import NewestLines, WorkerLog
from supervisor_core.fleet.hosts import Documents, Hosts
from supervisor_core.host.process_facts.usage import with_usage
from supervisor_core.intake.approvals.observed_state import observer
from supervisor_core.workers.context import DaemonContext, HostContext
from supervisor_core.workers.status import WorkerStatus

if TYPE_CHECKING:
    from supervisor_core.code.change_plan import Commit
    from supervisor_core.diagnosis.why.gathering import Explainer
    from supervisor_core.diagnosis.why.model import Explanation

RECENT = timedelta(seconds=2)
"""The age of an observation that a heartbeat may report. An exit makes a new one at once."""


class LocalHosts(Hosts):
    def __init__(
        self, context: DaemonContext, reconciler: Reconciler, agent: SupervisorAgent, blocking: Blocking
    ) -> None:
        self._context = context
        self._reconciler = reconciler
        self._agent = agent
        self._blocking = blocking
        self._observing = asyncio.Lock()
        self._observed_at = -math.inf
        self._statuses: list[WorkerStatus] = []
        self._read_lines = NewestLines()
        self._explainer: Explainer | None = None

    @property
    def config(self) -> SupervisorConfig:
        return self._context.host.config

    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        self._reconciler.wake(worker_ids)

    async def set_monitoring(self, issuer: Issuer, *, paused: bool) -> str:
        return await set_monitoring(self._agent, self._reconciler.plan_again, issuer, paused=paused)

    async def statuses(self) -> Documents:
        return await self._blocking(worker_documents, self._context, self._reconciler, await self._observe())

    async def detailed_statuses(self) -> Documents:
        documents = await self.statuses()
        commits = await self.versions()  # after the look, which has found out whether the drive hangs
        return await self._blocking(with_usage, documents, commits)

    async def recent_statuses(self) -> list[WorkerStatus]:
        """Each worker's status of the last moments, with what is being done about it."""
        statuses = self._reconciler.observed_since(datetime.now(UTC) - RECENT) or await self._observe()
        return statuses_in_motion(self._context, self._reconciler, statuses)

    async def versions(self) -> dict[str, str]:
        return await self._blocking(versions, self._context.host, self._reconciler.settings())

    async def newest_output(self, worker_ids: Sequence[str], count: int) -> list[WorkerLog]:
        host = self._context.host
        return await self._blocking(self._read_lines, host.drive, host.config, worker_ids, count)

    async def explain(self, worker_ids: Collection[str]) -> list[Explanation]:
        from supervisor_core.diagnosis.why.gathering import Explainer

        statuses = await self._observe()
        documents = await self._blocking(worker_documents, self._context, self._reconciler, statuses)
        if self._explainer is None:
            self._explainer = Explainer(self._context.ledger)
        return await self._blocking(self._explainer, self._context.host, statuses, documents, worker_ids)

    def last_lines(self, worker_id: str, count: int) -> Sequence[str]:
        (log,) = self._read_lines(self._context.host.drive, self.config, [worker_id], count)
        return log.lines

    def watched(self, worker_ids: Collection[str]) -> dict[str, WatchedWorker]:
        return watched_workers(self._context, self._reconciler, worker_ids)

    def facts(self) -> Facts:
        workers = self._reconciler.settings()
        documents = worker_documents(self._context, self._reconciler, self._reconciler.observer.look(workers))
        return facts_of(documents, versions(self._context.host, workers))

    def preview(self, command: Command) -> tuple[dict[str, Any], ...]:
        return observer(self._host_with_ledger)(command)

    def commits(self, worker_ids: Sequence[str], most: int) -> Sequence[Commit]:
        from supervisor_core.code.planning import recent_commits

        return recent_commits(self._host_with_ledger(), worker_ids, most)

    def find_commit(self, worker_ids: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
        from supervisor_core.code.planning import find_commit

        return find_commit(self._host_with_ledger(), worker_ids, name, most)

    def _host_with_ledger(self) -> HostContext:
        return replace(self._context.host, ledger=self._context.ledger)

    async def _observe(self) -> list[WorkerStatus]:
        """The statuses by a look that began after this call. Those who wait for one share the next."""
        called_at = time.monotonic()
        async with self._observing:
            if self._observed_at < called_at:
                observed_at, workers = time.monotonic(), self._reconciler.settings()
                self._statuses = await self._blocking(self._reconciler.observer.look, workers)
                self._observed_at = observed_at
            return self._statuses
