"""What the scheduler is to the daemon: a service that can be woken, and what it is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from supervisor_core.domain.baking import Watched
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.services import Service


class SchedulerService(Service, Protocol):
    """The service that deals with what comes due."""

    def wake(self) -> None:
        """Another program has written something: look now."""


@dataclass(frozen=True, slots=True)
class SchedulerDoors:
    """What the scheduler is given of the daemon."""

    blocking: Blocking
    filed: Callable[[], None]
    """To be called when commands have been filed."""
    look: Callable[[Collection[str]], Mapping[str, Watched]]
    """How these workers are right now; it blocks."""


MakeScheduler = Callable[[SchedulerDoors], SchedulerService]
