"""From a look at a worker to what the plan needs of it, and to its place in the picture of all workers.

Who must be looked at when: the moments at which a worker's condition may change although nothing happens.

It is in memory alone: whoever begins looks at all workers first, and knows all of it again.

From a look at a worker, and what its actor knows, to what its condition follows from; and when to look next.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import Worker
from supervisor_core.daemon.reconciliation.actor import WorkerActor
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.workers.adapter import WorkerEnded
from supervisor_core.workers.conditions.rules import Sight, changes_at
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.observation import WorkerStatus, process_state
from supervisor_core.workers.planning import Actual, Lifecycle, Wanted
from supervisor_core.workers.restarts.policy import exit_in_words
from supervisor_core.workers.snapshots import ActualState, DesiredState, Reconciliation, WorkerSnapshot


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How far the plan has come with a worker: the version that was brought about, its last round, and how many."""

    version: int = 0
    at: datetime | None = None
    count: int = 0

    def again(self, version: int, now: datetime, *, applied: bool) -> Reconciled:
        """After one more round; the version counts as applied once nothing is left to do for it."""
        return Reconciled(version if applied else self.version, now, self.count + 1)


def wanted_of(config: SupervisorConfig, worker: Worker, seen: WorkerStatus) -> Wanted:
    """What is wanted of this worker, by its configuration, by its pause, and by whether it was given up."""
    quarantined = worker.quarantined or seen.quarantine is not None
    return Wanted(worker.enabled, quarantined, seen.pause is not None, config.spec_hash(worker))


def actual_of(seen: WorkerStatus, standing: Lifecycle) -> Actual:
    """What is there of this worker: its processes as they were seen, and what its actor knows besides."""
    state = process_state(seen.found)
    if state is WorkerState.STOPPED and standing.state is WorkerState.BACKING_OFF:
        state = WorkerState.BACKING_OFF
    record = seen.found.record
    spec_hash = record.spec_hash if record is not None and state is WorkerState.RUNNING else ""
    return Actual(state, spec_hash, ended=standing.rests, hung=seen.worker.restart.on_hang and bool(seen.hangs))


def picture_of(config: SupervisorConfig, actor: WorkerActor, seen: WorkerStatus, done: Reconciled) -> WorkerSnapshot:
    """This worker in the picture."""
    worker, found = seen.worker, seen.found
    state, given_up = actor.standing.state, worker.quarantined or actor.standing.quarantined
    configured = config.workers.get(worker.id)
    pid = actor.pid if actor.standing.seen is WorkerState.RUNNING else None
    same = found.identity is not None and found.identity.pid == pid
    return WorkerSnapshot(
        DesiredState(
            config.spec_hash(configured) if configured else "",
            enabled=configured.enabled if configured else False,
            quarantined=given_up,
            paused=seen.pause is not None,
        ),
        ActualState(
            WorkerState.QUARANTINED if given_up and state is WorkerState.STOPPED else state,
            pid,
            seen.observation.started_at if same else None,
            seen.verdict.health,
            seen.verdict.reason,
            seen.at,
            actor.pending,
        ),
        Reconciliation(done.version, done.at, done.count),
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


GONE = "it is not in the configuration any more"

Ending = tuple[datetime | None, str]
"""When a process ended, and how in words, as far as somebody heard it."""

Tell = Callable[[Sequence[Sight]], None]
"""Whoever follows the conditions of workers; called on the event loop."""


class StatusPublisher:
    """Hands on what each look shows. On the event loop alone."""

    def __init__(self, tell: Tell = lambda _: None) -> None:
        self._tell = tell
        self._ends: dict[str, tuple[WorkerEnded, datetime]] = {}
        self.agenda = ObservationSchedule()
        """Who must be looked at when, although nothing happens."""

    def heard(self, ended: WorkerEnded) -> None:
        """A process has ended just now."""
        self._ends[ended.worker_id] = ended, datetime.now(UTC)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._ends.pop(worker_id, None)
        self.agenda.forget(worker_id)

    def show(self, config: SupervisorConfig, looked: Iterable[tuple[WorkerActor, WorkerStatus]]) -> None:
        """The newest look at each of these."""
        now, sights = datetime.now(UTC), []
        for actor, seen in looked:
            sights.append(sight_of(config, actor, seen, self._end_of(seen), now))
            self.agenda.note(seen.worker.id, changes_at(seen.observation, seen.at))
        self._tell(sights)

    def _end_of(self, seen: WorkerStatus) -> Ending:
        """How and when the process of its record ended, where that was heard."""
        heard, record = self._ends.get(seen.worker.id), seen.found.record
        if heard is None or record is None or record.identity != heard[0].identity:
            return None, ""
        code = heard[0].exit_code
        return heard[1], "" if code is None else f"it {exit_in_words(code)}"


def sight_of(config: SupervisorConfig, actor: WorkerActor, seen: WorkerStatus, end: Ending, now: datetime) -> Sight:
    """What is known of this worker now."""
    return Sight(
        seen.worker.id,
        now,
        actor.moving or actor.standing.state,
        seen.observation,
        seen.verdict,
        rests=_rests(config, seen),
        died=_died(seen.found),
        ended_at=end[0],
        ending=end[1],
        decision=actor.decision,
        start_error=(actor.start_error or "") if seen.found.identity is None else "",
    )


def _died(found: FoundWorker) -> bool:
    """Whether it was started and is gone, and not because the supervisor itself ended it or tried it out."""
    return (
        found.record is not None and found.record.identity is not None and found.identity is None and not found.ordered
    )


def _rests(config: SupervisorConfig, seen: WorkerStatus) -> str:
    """Why nobody wants it to run; empty where somebody does."""
    worker = config.workers.get(seen.worker.id)
    if worker is None:
        return GONE
    if seen.pause is not None:
        return str(seen.pause)
    if not worker.enabled:
        return "not enabled in the configuration"
    return "quarantined in the configuration" if worker.quarantined else ""
