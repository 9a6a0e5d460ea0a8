"""What a handler works with: the doors of its host, and the one signature that all handlers have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from supervisor_core.adapters.drive import Drive
from supervisor_core.adapters.inbox import Inbox
from supervisor_core.adapters.pauses import Pauses
from supervisor_core.adapters.processes import ProcessDoor
from supervisor_core.adapters.quarantines import Quarantines
from supervisor_core.config import SupervisorConfig

if TYPE_CHECKING:
    from supervisor_core.ledger.store import Ledger


def _to_nobody(_words: str) -> None:
    """Nobody waits to hear it."""


@dataclass(frozen=True, slots=True)
class Host:
    """The doors of this host. Handlers get them here and open none of their own."""

    config: SupervisorConfig
    drive: Drive
    inbox: Inbox
    pauses: Pauses
    processes: ProcessDoor
    quarantines: Quarantines
    ledger: Ledger | None = None
    """What was done before; None for whoever only looks at workers."""
    deadline: float | None = None
    """The moment of the monotonic clock by which a look at code must end; None: each call has only its own limit."""
    unlocked: Callable[[], AbstractContextManager[None]] = nullcontext
    """Gives the checkout of a job that changes code to others while a remote is asked: their pauses and restarts don't
    wait for it. What was seen of the checkout before must be looked at again."""
    progress: Callable[[str], None] = _to_nobody
    """Says what the handler is doing now, in a few words: `stopping OrionMX, pid 4711`. It comes back soon and without
    an error, whatever becomes of the words."""

    def now(self) -> datetime:
        """The wall clock, in aware UTC."""
        return datetime.now(UTC)
