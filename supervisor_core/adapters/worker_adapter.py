"""The port to all workers of this host, for whoever brings them into line: each by its id, from any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from supervisor_core.adapters.processes import FoundWorker
from supervisor_core.adapters.processes_stop import StopReport
from supervisor_core.adapters.processes_values import ProcessIdentity
from supervisor_core.config import Worker


class WorkerEnded(NamedTuple):
    """A worker's process has ended; a hint to look, since what it started may live on."""

    worker_id: str
    identity: ProcessIdentity
    exit_code: int | None
    """Negative for a signal; None where nobody knows: only the parent of a process learns it."""


class WorkerAdapter(Protocol):
    """What can be done with the workers of this host.

    Calls may block, and belong on no event loop. They may come from many threads at once, and those for different
    workers run at the same time. A worker that was never added is a `UsageError`; after `close` all but
    `unsubscribe` and `close` are a `RefusedError`.
    """

    def add(self, worker: Worker) -> None:
        """Know this worker from now on. Again, with other settings: from now on these count. Starts nothing."""

    def remove(self, worker_id: str) -> StopReport:
        """End all of it and forget it. It is forgotten only where nothing survived, and nobody added it anew."""

    def start(self, worker_id: str) -> ProcessIdentity:
        """Start it, and see it alive after its grace period; what is left of an earlier life is ended first.

        `RefusedError` where it, or something of it, may be running; `LaunchError` where it did not live so long.
        """

    def stop(self, worker_id: str) -> StopReport:
        """End all of it. To stop what does not run is success; what survives is in the report.

        `RefusedError` where nobody can tell whether it runs: then nothing was signalled.
        """

    def start_all(self) -> dict[str, ProcessIdentity | Exception]:
        """Start those that do not run, and what came of each: its process, or why it is not there.

        Those that the configuration disables or quarantines stay as they are.
        """

    def state(self, worker_id: str) -> FoundWorker:
        """Look for it. What can't be looked at is unverifiable, never stopped."""

    def states(self) -> dict[str, FoundWorker]:
        """Look for each of them."""

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> int:
        """Hear of each exit once and at once, in a thread of the adapter; the answer is for `unsubscribe`.

        Told is of processes that a look or a start here has seen running, whoever started and whoever ended them.
        """

    def unsubscribe(self, subscription: int) -> None:
        """Hear no more; one that is not there any more is no mistake."""

    def close(self) -> None:
        """Tell of no more exits. The workers go on."""
