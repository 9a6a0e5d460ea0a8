"""Events as frozen values, and the bus that hands them to subscribers.

A publisher never waits. Each subscriber has a bounded queue; a slow one loses its *oldest* events and is told how many.
An event is a hint to look, never the only place where a thing is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
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


def _freeze(value: object) -> Any:  # noqa: ANN401 (JSON of any shape)
    if isinstance(value, Mapping):
        return FrozenDict({str(key): _freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(_freeze, value))
    if value is None or isinstance(value, str | int | float | datetime):
        return value
    raise TypeError(f"{value!r} can't be in an event, which holds text, numbers, times, lists and mappings")


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
        object.__setattr__(self, "payload", _freeze(self.payload))

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
        return self.subject

    def as_json(self) -> dict[str, Any]:
        """A new dictionary, with times as text."""
        payload = json.loads(json.dumps(self.payload, default=to_text))
        return {"type": str(self.type), "subject": self.subject, "at": to_text(self.at), "payload": payload}


class SystemEvent(Event):
    """An `Event` of now, from the parts by which other buses know it."""

    __slots__ = ()

    def __init__(
        self, event_type: str, entity_type: str, entity_id: str, payload: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(EventType(event_type), entity_id, datetime.now(UTC), payload or {})
        if entity_type != self.entity_type:
            raise ValueError(f"{event_type} is an event of a {self.entity_type}, not of a {entity_type}")


QUEUE_SIZE = 200
"""Events that wait for one subscriber: a restart of some dozens of workers, and little memory."""


class Subscription:
    """One subscriber's events, in the order in which they were published by each thread.

    Read it by `async for`, or by `get` from a thread. After `close`, the waiting events can still be read.
    """

    def __init__(self, bus: EventBus, name: str, maxsize: int, types: frozenset[EventType] | None) -> None:
        self.name = name
        self.lost = 0
        """The number of events that it was too slow for."""
        self.closed = False
        self._bus = bus
        self._maxsize = maxsize
        self._types = types
        self._changed = threading.Condition()
        self._queue: deque[Event] = deque()
        self._readers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        """Coroutines that wait for an event."""

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; None if none came in so many seconds, or if it's closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self.closed, timeout)
            return self._queue.popleft() if self._queue else None

    def close(self) -> None:
        """Close the subscription and wake its readers. Repeating it is harmless."""
        with self._changed:
            self.closed = True
            self._wake_readers()
        self._bus.forget(self)  # last, since only now it loses no more

    def offer(self, event: Event) -> None:
        """Called by the bus: queue an event, in the place of the oldest if the queue is full."""
        if self._types is not None and event.type not in self._types:
            return
        with self._changed:
            if self.closed:
                return
            if len(self._queue) >= self._maxsize:
                self._queue.popleft()
                self.lost += 1
            self._queue.append(event)
            self._wake_readers()

    def _wake_readers(self) -> None:
        self._changed.notify_all()
        for loop, woken in self._readers:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        # One turn of the loop before each event is taken: a burst doesn't keep others from the loop, and a cancelled
        # reader loses no event.
        await asyncio.sleep(0)
        while True:
            with self._changed:
                if self._queue:
                    return self._queue.popleft()
                if self.closed:
                    raise StopAsyncIteration
                reader = asyncio.get_running_loop(), asyncio.Event()
                self._readers.append(reader)
            try:
                await reader[1].wait()
            finally:
                with self._changed:
                    self._readers.remove(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventBus:
    """Delivers each event to all subscribers. It starts no thread and no task, and stores nothing."""

    def __init__(self) -> None:
        self.subscriptions: tuple[Subscription, ...] = ()  # replaced whole, so that `publish` reads it without a lock
        self._changing = threading.Lock()
        self._lost_before = 0
        self._closed = False

    @property
    def lost(self) -> int:
        """The number of lost events of all subscribers, past ones included."""
        with self._changing:
            return self._lost_before + sum(subscription.lost for subscription in self.subscriptions)

    def publish(self, event: Event) -> None:
        """Deliver an event. From any thread; it never waits for a reader, and never fails."""
        for subscription in self.subscriptions:
            subscription.offer(event)

    def subscribe(
        self, maxsize: int = QUEUE_SIZE, types: Iterable[EventType | str] | None = None, *, name: str = ""
    ) -> Subscription:
        """Subscribe to all events from now on, or to some types. `name` appears in reports of lost events.

        On a closed bus, the subscription has already ended.
        """
        if maxsize < 1:
            raise ValueError(f"maxsize is {maxsize!r}; a queue holds at least one event")
        selected = None if types is None else frozenset(map(EventType, types))
        subscription = Subscription(self, name, maxsize, selected)
        with self._changing:
            subscription.closed = self._closed
            if not self._closed:
                self.subscriptions = (*self.subscriptions, subscription)
        return subscription

    def close(self) -> None:
        """End all subscriptions: each reader gets its waiting events, then the end. Repeating it is harmless."""
        with self._changing:
            self._closed = True
        for subscription in self.subscriptions:
            subscription.close()

    def forget(self, subscription: Subscription) -> None:
        """Called by a closed subscription."""
        with self._changing:
            if subscription in self.subscriptions:
                self._lost_before += subscription.lost
                self.subscriptions = tuple(other for other in self.subscriptions if other is not subscription)
