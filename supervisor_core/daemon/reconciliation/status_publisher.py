"""The newest status of each worker: for the plan, for the snapshot, and for everybody who follows its condition."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.reconciliation.actor import WorkerActor
from supervisor_core.workers.adapter import WorkerEnded
from supervisor_core.workers.conditions.rules import changes_at
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.restarts.policy import exit_in_words
from supervisor_core.workers.status import ActualState, DesiredState, ProcessEnd, WorkerStatus


def desired_state(config: SupervisorConfig, actor: WorkerActor, status: WorkerStatus) -> DesiredState:
    """The state that the newest configuration and people want of this worker; nothing of one that was removed."""
    configured = config.workers.get(status.worker_id)
    return DesiredState(
        config.spec_hash(configured) if configured else "",
        enabled=configured.enabled if configured else False,
        quarantined=status.worker.quarantined or actor.standing.quarantined,
        paused=status.pause is not None,
    )


def actual_state(actor: WorkerActor, status: WorkerStatus) -> ActualState:
    """The state of this worker: its processes as they were observed, and what its actor does."""
    standing, found = actor.standing, status.found
    state, running = standing.state, standing.seen is WorkerState.RUNNING
    quarantined = status.worker.quarantined or standing.quarantined
    pid = actor.pid if running else None
    return ActualState(
        WorkerState.QUARANTINED if quarantined and state is WorkerState.STOPPED else state,
        pid,
        status.observation.started_at if found.identity is not None and found.identity.pid == pid else None,
        status.verdict.health,
        status.verdict.reason,
        status.at,
        actor.pending,
        spec_hash=found.record.spec_hash if found.record is not None and running else "",
        ended=standing.rests,
        hung=status.worker.restart.on_hang and bool(status.hangs),
    )


SHORTEST_SECONDS = 0.001


class ObservationSchedule:
    """One moment for each worker. What is noted anew takes the place of what was noted before."""

    def __init__(self) -> None:
        self._moments: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def note(self, worker_id: str, moment: datetime | None) -> None:
        """Look at this worker then; None: nothing can change by itself."""
        if moment is None:
            self._moments.pop(worker_id, None)
        elif self._moments.get(worker_id) != moment:
            self._moments[worker_id] = moment
            heapq.heappush(self._heap, (moment, worker_id))
            if len(self._heap) > 2 * len(self._moments) + 100:  # what was overtaken is let go of now and then
                self._heap = [(at, each) for each, at in self._moments.items()]
                heapq.heapify(self._heap)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._moments.pop(worker_id, None)

    def due(self, now: datetime) -> list[str]:
        """Whose moment has come; each is told once."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            moment, worker_id = heapq.heappop(self._heap)
            if self._moments.get(worker_id) == moment:
                del self._moments[worker_id]
                found.append(worker_id)
        return found

    def wait(self, now: datetime) -> float:
        """Seconds until the first moment; without end where there is none."""
        while self._heap and self._moments.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            return math.inf
        return max((self._heap[0][0] - now).total_seconds(), SHORTEST_SECONDS)


Publish = Callable[[Sequence[WorkerStatus]], None]
"""Follows the conditions of workers; called on the event loop."""


class StatusPublisher:
    """Publishes the newest status of each worker. On the event loop alone."""

    def __init__(self, publish: Publish = lambda _: None) -> None:
        self._publish = publish
        self._ends: dict[str, tuple[WorkerEnded, datetime]] = {}
        self.schedule = ObservationSchedule()

    def note_end(self, ended: WorkerEnded) -> None:
        """A process has ended just now."""
        self._ends[ended.worker_id] = ended, datetime.now(UTC)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._ends.pop(worker_id, None)
        self.schedule.forget(worker_id)

    def publish(self, observed: Iterable[tuple[WorkerActor, WorkerStatus]]) -> None:
        """Publish these, completed with what their actors know."""
        statuses = []
        for actor, status in observed:
            statuses.append(
                replace(
                    status,
                    stage=actor.moving or actor.standing.state,
                    decision=actor.decision,
                    start_error=(actor.start_error or "") if status.found.identity is None else "",
                    end=self._end_of(status),
                )
            )
            self.schedule.note(status.worker_id, changes_at(status.observation, status.at))
        self._publish(statuses)

    def _end_of(self, status: WorkerStatus) -> ProcessEnd | None:
        """The end of the process of its record, where that was heard."""
        heard, record = self._ends.get(status.worker_id), status.found.record
        if heard is None or record is None or record.identity != heard[0].identity:
            return None
        code = heard[0].exit_code
        return ProcessEnd(heard[1], "" if code is None else f"it {exit_in_words(code)}")
