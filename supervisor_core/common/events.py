"""Events as frozen values, and the bus that hands them to subscribers.

A publisher never waits. Each subscriber has a bounded queue; a slow one loses its *oldest* events and is told how many.
An event is a hint to look, never the only place where a thing is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, NoReturn, Self

from supervisor_core.common.times import require_aware, to_text


class EventType(StrEnum):
    """The types of events. The subject is a worker's id, of a `supervisor.` event the supervisor's."""

    WORKER_ADDED = "worker.added"
    """A worker was added to the configuration. Payload: `version`."""
    WORKER_REMOVED = "worker.removed"
    """A worker was removed from the configuration."""
    WORKER_UPDATED = "worker.updated"
    """The settings of a worker changed. Payload: `version`."""
    WORKER_STARTED = "worker.started"
    """A process of the worker started. Payload: `pid`."""
    WORKER_STOPPED = "worker.stopped"
    """A process of the worker ended. Payload: `pid`."""
    WORKER_STATE_CHANGED = "worker.state_changed"
    """The state of a worker changed. Payload: `from`, `to`, and details."""
    RECONCILE_COMPLETED = "reconcile.completed"
    """An action succeeded, or a round found nothing to do. Payload: `version`, `actions` by worker."""
    RECONCILE_FAILED = "reconcile.failed"
    """A round or an action failed. Payload: `version`, `actions` by worker, `error`."""
    SUPERVISOR_STARTED = "supervisor.started"
    """The supervisor started. Payload, as for the next three: `timestamp`, `status`, `previous_status`, `reason`."""
    SUPERVISOR_STOPPED = "supervisor.stopped"
    """The supervisor stopped."""
    SUPERVISOR_PAUSED = "supervisor.paused"
    """Monitoring was paused."""
    SUPERVISOR_RESUMED = "supervisor.resumed"
    """Monitoring was resumed."""
    COMMAND_STARTED = "command.started"
    """A job started. Payload: `task_id`, `handler`."""
    COMMAND_DONE = "command.done"
    """A job ended. Payload: `task_id`, `handler`, `success`."""
    COMMAND_INTERRUPTED = "command.interrupted"
    """A job was interrupted. Payload: `task_id`."""


class FrozenDict(dict[str, Any]):
    """A dictionary that never changes, and that every JSON library knows."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("an event never changes")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


@dataclass(frozen=True, slots=True)
class Event:
    """One event. The payload is JSON of any shape and never changes."""

    type: EventType
    subject: str
    at: datetime
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", EventType(self.type))
        object.__setattr__(self, "at", require_aware(self.at))
        object.__setattr__(self, "payload", _freeze(dict(self.payload), "payload"))

    @property
    def event_type(self) -> str:
        """Its type as plain text: `supervisor.started`."""
        return self.type.value

    @property
    def entity_type(self) -> str:
        """The kind of its subject: `supervisor` or `worker`."""
        return "supervisor" if self.type.value.startswith(("supervisor.", "reconcile.")) else "worker"

    @property
    def entity_id(self) -> str:
        """The id of its subject."""
        return self.subject

    def as_json(self) -> dict[str, Any]:
        """A new dictionary for programs, which the caller may do with as it likes."""
        return {
            "type": str(self.type),
            "subject": self.subject,
            "at": to_text(self.at),
            "payload": _thaw(self.payload),
        }


class SystemEvent(Event):
    """An `Event` of now, from the parts by which other buses know it."""

    __slots__ = ()

    def __init__(
        self, event_type: str, entity_type: str, entity_id: str, payload: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(EventType(event_type), entity_id, datetime.now(UTC), payload or {})
        if entity_type != self.entity_type:
            raise ValueError(f"{event_type} is an event of a {self.entity_type}, not of a {entity_type}")


def _freeze(value: object, where: str) -> object:
    """Return a deeply frozen copy."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return require_aware(value)
    if isinstance(value, Mapping):
        return FrozenDict({str(key): _freeze(each, f"{where}.{key}") for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_freeze(each, f"{where}[{place}]") for place, each in enumerate(value))
    raise TypeError(f"{where} is a {type(value).__name__}; an event can hold text, numbers, times, lists and mappings")


def _thaw(value: object) -> object:
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, Mapping):
        return {key: _thaw(each) for key, each in value.items()}
    return [_thaw(each) for each in value] if isinstance(value, tuple) else value


QUEUE_SIZE = 200
"""Events that wait for one subscriber: a restart of some dozens of workers, and little memory."""


class Subscription:
    """One subscriber's events, in the order in which they were published by each thread.

    Read by `async for`, or by `get` from a thread. After `close` what waits can still be read, and then it ends.
    """

    def __init__(
        self, name: str, maxsize: int, types: frozenset[EventType] | None, forget: Callable[[Subscription], None]
    ) -> None:
        self.name = name
        self._forget = forget
        self._maxsize = maxsize
        self._types = types
        self._changed = threading.Condition()
        self._queue: deque[Event] = deque()
        self._sleepers: list[asyncio.Future[None]] = []
        self._lost = 0
        self._closed = False

    @property
    def lost(self) -> int:
        """The number of events that it was too slow for."""
        return self._lost

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def closed(self) -> bool:
        return self._closed

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event, for threads; None where there was none in so many seconds, or where it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed, timeout)
            return self._queue.popleft() if self._queue else None

    def close(self) -> None:
        """Close the subscription and wake its reader. Repeating it is harmless."""
        with self._changed:
            self._closed = True
            sleepers = self._all_awake()
        _wake(sleepers)
        self._forget(self)  # last, since only now it loses no more

    def offer(self, event: Event) -> None:
        """Called by the bus: queue an event, in the place of the oldest where the queue is full."""
        if self._types is not None and event.type not in self._types:
            return
        with self._changed:
            if self._closed:
                return
            if len(self._queue) >= self._maxsize:
                self._queue.popleft()
                self._lost += 1
            self._queue.append(event)
            sleepers = self._all_awake()
        _wake(sleepers)

    def _all_awake(self) -> list[asyncio.Future[None]]:
        """Wake the threads; the coroutines that are to be woken once the lock is free. All: each looks for itself."""
        self._changed.notify_all()
        sleepers, self._sleepers = self._sleepers, []
        return sleepers

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        # One turn of the loop for each event, and before it is taken: a burst must not keep everybody else from the
        # loop, and who is cancelled here loses none.
        await asyncio.sleep(0)
        while True:
            with self._changed:
                if self._queue:
                    return self._queue.popleft()
                if self._closed:
                    raise StopAsyncIteration
                sleeper = asyncio.get_running_loop().create_future()
                self._sleepers.append(sleeper)
            try:
                await sleeper
            finally:
                with self._changed, contextlib.suppress(ValueError):
                    self._sleepers.remove(sleeper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class EventBus:
    """Delivers each event to all subscribers. It starts no thread and no task, and stores nothing."""

    def __init__(self) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()  # replaced whole, so that `publish` reads it without a lock
        self._changing = threading.Lock()
        self._lost_before = 0
        self._closed = False

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        return self._subscriptions

    @property
    def lost(self) -> int:
        """The number of lost events of all subscribers, past ones included."""
        with self._changing:
            return self._lost_before + sum(each.lost for each in self._subscriptions)

    def publish(self, event: Event) -> None:
        """Bring an event to all who want it. From any thread; it never waits for a reader, and never fails."""
        for subscription in self._subscriptions:
            subscription.offer(event)

    def subscribe(
        self, maxsize: int = QUEUE_SIZE, types: Iterable[EventType | str] | None = None, *, name: str = ""
    ) -> Subscription:
        """Subscribe to all events from now on, or to some types. `name` appears in reports of lost events.

        On a closed bus, the subscription has already ended.
        """
        if maxsize < 1:
            raise ValueError(f"maxsize is {maxsize!r}; a queue holds at least one event")
        wanted = None if types is None else frozenset(map(EventType, types))
        subscription = Subscription(name, maxsize, wanted, self._forget)
        with self._changing:
            if not self._closed:
                self._subscriptions = (*self._subscriptions, subscription)
                return subscription
        subscription.close()
        return subscription

    def close(self) -> None:
        """End all subscriptions: each reader gets its waiting events, then the end. Repeating it is harmless."""
        with self._changing:
            self._closed = True
        for subscription in self._subscriptions:
            subscription.close()

    def _forget(self, subscription: Subscription) -> None:
        with self._changing:
            if subscription in self._subscriptions:
                self._lost_before += subscription.lost
                self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)


def _wake(sleepers: Iterable[asyncio.Future[None]]) -> None:
    for sleeper in sleepers:
        with contextlib.suppress(RuntimeError):  # its loop has been closed, and nobody sleeps there any more
            sleeper.get_loop().call_soon_threadsafe(_rouse, sleeper)


def _rouse(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
