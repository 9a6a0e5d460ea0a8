"""What a supervisor says of itself after a pass: the file's content, and the line that fits its column."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from supervisor_core.domain.health import Health, Verdict, WorkerState
from supervisor_core.domain.texts import one_line
from supervisor_core.domain.times import to_text

LONGEST_SUMMARY = 255
"""Characters: what `status_summary` holds, and a MariaDB in its strict mode refuses one more."""


class SupervisorHeartbeat(NamedTuple):
    """A pass, as it went. `state` is how its worker was at the end, in a word or two."""

    supervisor_id: str
    worker_id: str
    at: datetime
    success: bool
    error: str | None
    actions: tuple[str, ...]
    state: str

    def as_json(self) -> dict[str, Any]:
        """What the heartbeat file says."""
        return {
            "supervisor_id": self.supervisor_id,
            "worker_id": self.worker_id,
            "timestamp": to_text(self.at),
            "success": self.success,
            "error": self.error,
            "actions": list(self.actions),
        }

    def summary(self) -> str:
        """The same in one line, cut to its column; of an error the middle goes and the state stays."""
        if self.success:
            done = f" Actions: {', '.join(self.actions)}" if self.actions else " Actions: none"
            return one_line(f"Supervisor OK - {self.state}.{done}", LONGEST_SUMMARY)
        begin, end = "Supervisor ERROR - ", f". State: {one_line(self.state, LONGEST_SUMMARY // 2)}"
        error = one_line((self.error or "unknown").rstrip("."), LONGEST_SUMMARY - len(begin) - len(end))
        return f"{begin}{error}{end}"


def row_name(worker_id: str) -> str:
    """The supervisor's own row in `workers_t`, which never overwrites the worker's."""
    return f"supervisor_{worker_id}"


def in_words(state: WorkerState, verdict: Verdict, *, paused: bool) -> str:
    """How a worker is, in a word or two: `running, healthy` · `paused` · `stopped, missing`."""
    if paused and state is WorkerState.STOPPED:
        return "paused"
    life = f"{state} and paused" if paused else str(state)
    resting = verdict.fine and verdict.health is Health.UNKNOWN
    return life if resting else f"{life}, {verdict.health}"
