"""From a look at a worker, and what its actor knows, to what its condition follows from; and when to look next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from supervisor_core.adapters.processes import FoundWorker
from supervisor_core.adapters.worker_adapter import WorkerEnded
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.conditions import Sight, changes_at
from supervisor_core.domain.restarts import exit_in_words
from supervisor_core.runtime.actor import WorkerActor
from supervisor_core.runtime.agenda import Agenda
from supervisor_core.runtime.observing import Seen

GONE = "it is not in the configuration any more"

Ending = tuple[datetime | None, str]
"""When a process ended, and how in words, as far as somebody heard it."""

Tell = Callable[[Sequence[Sight]], None]
"""Whoever follows the conditions of workers; called on the event loop."""


class Sightings:
    """Hands on what each look shows. On the event loop alone."""

    def __init__(self, tell: Tell = lambda _: None) -> None:
        self._tell = tell
        self._ends: dict[str, tuple[WorkerEnded, datetime]] = {}
        self.agenda = Agenda()
        """Who must be looked at when, although nothing happens."""

    def heard(self, ended: WorkerEnded) -> None:
        """A process has ended just now."""
        self._ends[ended.worker_id] = ended, datetime.now(UTC)

    def forget(self, worker_id: str) -> None:
        """It was removed."""
        self._ends.pop(worker_id, None)
        self.agenda.forget(worker_id)

    def show(self, config: SupervisorConfig, looked: Iterable[tuple[WorkerActor, Seen]]) -> None:
        """The newest look at each of these."""
        now, sights = datetime.now(UTC), []
        for actor, seen in looked:
            sights.append(sight_of(config, actor, seen, self._end_of(seen), now))
            self.agenda.note(seen.worker.id, changes_at(seen.observation, seen.at))
        self._tell(sights)

    def _end_of(self, seen: Seen) -> Ending:
        """How and when the process of its record ended, where that was heard."""
        heard, record = self._ends.get(seen.worker.id), seen.found.record
        if heard is None or record is None or record.identity != heard[0].identity:
            return None, ""
        code = heard[0].exit_code
        return heard[1], "" if code is None else f"it {exit_in_words(code)}"


def sight_of(config: SupervisorConfig, actor: WorkerActor, seen: Seen, end: Ending, now: datetime) -> Sight:
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


def _rests(config: SupervisorConfig, seen: Seen) -> str:
    """Why nobody wants it to run; empty where somebody does."""
    worker = config.workers.get(seen.worker.id)
    if worker is None:
        return GONE
    if seen.pause is not None:
        return str(seen.pause)
    if not worker.enabled:
        return "not enabled in the configuration"
    return "quarantined in the configuration" if worker.quarantined else ""
