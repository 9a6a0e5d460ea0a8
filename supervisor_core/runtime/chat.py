"""What a chat is to the daemon: a service that takes commands from people, and what it is given to work with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.explanation import Explanation
from supervisor_core.handlers.newest_lines import Written
from supervisor_core.runtime.event_bus import Subscription
from supervisor_core.runtime.monitoring import Monitoring
from supervisor_core.runtime.services import Service

ReadWritten = Callable[[Sequence[str], int], Awaitable[list[Written]]]
"""The newest lines that these workers wrote, so many of each."""

Explain = Callable[[Collection[str]], Awaitable[list[Explanation]]]
"""Why these workers are as they are, by a live look; those in trouble first."""


class Chat(Service, ABC):
    """The service in which people give commands and see what comes of them."""

    @abstractmethod
    def configured(self, config: SupervisorConfig) -> None:
        """These workers and teams count from now on."""


@dataclass(frozen=True, slots=True)
class ChatDoors:
    """What a chat is given of the daemon."""

    look: Callable[[], Awaitable[list[dict[str, Any]]]]
    """How all workers are, by a live look."""
    filed: Callable[[], None]
    """To be called when a command has been filed."""
    monitoring: Monitoring
    versions: Callable[[], Awaitable[Mapping[str, str]]]
    """Which commit each worker's checkout stands at, of those that can be known."""
    heard: Callable[[], Subscription]
    """All that happens on this host from now on: hints that a new look shows something new."""
    written: ReadWritten
    explain: Explain


MakeChat = Callable[[ChatDoors], Chat]
