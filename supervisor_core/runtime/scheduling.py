"""What the scheduler is to the daemon: a service that can be woken, and what it is given to work with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from supervisor_core.domain.baking import Watched
from supervisor_core.domain.conditions import Sight
from supervisor_core.domain.host_conditions import Found
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.services import Service


class SchedulerService(Service, ABC):
    """The service that deals with what comes due."""

    @abstractmethod
    def wake(self) -> None:
        """Another program has written something: look now."""

    @abstractmethod
    def see(self, sights: Iterable[Sight]) -> None:
        """Workers were just looked at; to be called on the event loop, and at once."""

    @abstractmethod
    def observe(self, seen: Iterable[Found]) -> None:
        """Parts of the host were just looked at; to be called on the event loop."""


@dataclass(frozen=True, slots=True)
class SchedulerDoors:
    """What the scheduler is given of the daemon."""

    blocking: Blocking
    filed: Callable[[], None]
    """To be called when commands have been filed."""
    look: Callable[[Collection[str]], Mapping[str, Watched]]
    """How these workers are right now; it blocks."""
    resting: Callable[[], bool] = lambda: False
    """Whether monitoring is paused."""
    look_again: Callable[[], None] = lambda: None
    """Have unwell workers looked at: to be called on the event loop, at each check."""


MakeScheduler = Callable[[SchedulerDoors], SchedulerService]
