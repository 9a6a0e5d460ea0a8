"""Events and their bus: nobody waits for a slow reader, who loses the oldest and knows how many."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from supervisor_core.common.events import Event, EventBus, EventType, Subscription

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
EVENTS, THREADS = 10_000, 4
LONG = 30.0
"""Seconds; a wait that a test expects to end by an event, and not by the clock."""


def event(subject: str = "W", kind: EventType = EventType.WORKER_STARTED, **payload: object) -> Event:
    return Event(kind, subject, NOW, payload)


def subjects(subscription: Subscription) -> list[str]:
    """The subjects of all that waits."""
    found = []
    while (each := subscription.get(0)) is not None:
        found.append(each.subject)
    return found


@contextmanager
def switching_all_the_time() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


@contextmanager
def threads(*work: Callable[[], object]) -> Iterator[None]:
    """These at work in threads of their own, which have ended when this is over."""
    running = [threading.Thread(target=each) for each in work]
    for each in running:
        each.start()
    try:
        yield
    finally:
        for each in running:
            each.join(LONG)
            assert not each.is_alive()


def test_an_event_can_not_be_changed_not_even_deep_in_its_payload() -> None:
    steps = [{"name": "one"}]
    made = event(steps=steps, pid=1)
    steps[0]["name"] = "two"
    steps.append({})
    assert made.payload["steps"] == ({"name": "one"},)
    with pytest.raises(FrozenInstanceError):
        made.subject = "X"  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.payload["pid"] = 2  # type: ignore[index]
    with pytest.raises(TypeError):
        made.payload["steps"][0].update(name="three")


def test_an_event_names_its_subject_as_other_buses_do() -> None:
    made = Event(EventType.SUPERVISOR_STARTED, "TestHost", NOW, {"status": "ACTIVE"})
    assert (made.event_type, made.entity_type, made.entity_id) == ("supervisor.started", "supervisor", "TestHost")
    assert json.loads(json.dumps(made.payload)) == {"status": "ACTIVE"}
    kinds = {str(each): Event(each, "X", NOW).entity_type for each in EventType}
    assert {kind.partition(".")[0]: entity for kind, entity in kinds.items()} == {
        "worker": "worker",
        "command": "worker",
        "reconcile": "supervisor",
        "supervisor": "supervisor",
    }


def test_an_event_is_told_as_json() -> None:
    made = event(steps=[{"at": NOW, "n": 1}], ok=True, nothing=None, share=0.5)
    said = made.as_json()
    moment = "2026-02-05T14:30:15.234567Z"
    assert json.loads(json.dumps(said)) == {
        "type": "worker.started",
        "subject": "W",
        "at": moment,
        "payload": {"steps": [{"at": moment, "n": 1}], "ok": True, "nothing": None, "share": 0.5},
    }
    said["payload"]["steps"].clear()
    assert len(made.payload["steps"]) == 1


def test_the_types_are_those_that_others_rely_on() -> None:
    assert {str(each) for each in EventType} == {
        *("worker.added", "worker.removed", "worker.updated", "worker.started", "worker.stopped"),
        *("worker.state_changed", "reconcile.completed", "reconcile.failed", "supervisor.started"),
        *("supervisor.stopped", "supervisor.paused", "supervisor.resumed", "command.started"),
        *("command.done", "command.interrupted"),
    }


def test_the_time_of_an_event_is_utc_and_a_naive_one_is_refused() -> None:
    assert Event(EventType.WORKER_ADDED, "W", NOW.astimezone(timezone(timedelta(hours=9)))).at.tzinfo is UTC
    with pytest.raises(ValueError, match="no time zone"):
        Event(EventType.WORKER_ADDED, "W", NOW.replace(tzinfo=None))


def test_every_subscriber_gets_every_event_in_order() -> None:
    bus = EventBus()
    one, other = bus.subscribe(), bus.subscribe()
    for each in "abc":
        bus.publish(event(each))
    assert subjects(one) == subjects(other) == ["a", "b", "c"]
    assert (one.lost, other.lost, bus.lost) == (0, 0, 0)


def test_a_subscriber_gets_the_types_that_it_asked_for() -> None:
    bus = EventBus()
    commands, one = (
        bus.subscribe(types=[each for each in EventType if each.startswith("command.")]),
        bus.subscribe(types=["worker.started"]),
    )
    for kind in EventType:
        bus.publish(event(str(kind), kind))
    assert subjects(commands) == ["command.started", "command.done", "command.interrupted"]
    assert subjects(one) == ["worker.started"]


def test_a_slow_one_loses_its_oldest_events_and_the_others_none() -> None:
    bus = EventBus()
    slow, quick = bus.subscribe(maxsize=3, name="slow"), bus.subscribe(maxsize=10)
    for number in range(10):
        bus.publish(event(str(number)))
    assert [(each.name, each.lost) for each in bus.subscriptions] == [("slow", 7), ("", 0)]
    assert subjects(slow) == ["7", "8", "9"]
    assert len(subjects(quick)) == 10
    slow.close()
    assert bus.lost == 7, "what was lost is not forgotten with who lost it"


def test_a_thread_that_waits_gets_the_next_event() -> None:
    bus = EventBus()
    waiting, found = bus.subscribe(), list[Event | None]()
    with threads(lambda: found.append(waiting.get(LONG))):
        bus.publish(event("a"))
    assert [each.subject for each in found if each] == ["a"]


@pytest.mark.parametrize("close", [lambda bus, _: bus.close(), lambda _, subscription: subscription.close()])
def test_closing_wakes_all_threads_and_coroutines_that_wait(close: Callable[[EventBus, Subscription], None]) -> None:
    bus = EventBus()
    shared, found = bus.subscribe(), list[Event | None]()

    async def read() -> list[Event]:
        return [each async for each in shared]

    def in_a_loop() -> None:
        found.extend(asyncio.run(read()))
        found.append(None)

    def take() -> None:
        found.append(shared.get())

    with threads(take, take, in_a_loop):
        close(bus, shared)
    assert found == [None, None, None]
    assert shared.closed
    assert bus.subscriptions == ()


async def texts(subscription: Subscription) -> list[str]:
    return [each.subject async for each in subscription]


def test_what_waits_at_the_end_can_still_be_read_and_nothing_comes_after_it() -> None:
    bus = EventBus()
    with bus.subscribe() as subscription:
        bus.publish(event("a"))
    bus.publish(event("b"))
    assert subscription.closed
    assert subjects(subscription) == ["a"]
    assert subscription.get() is None, "and nobody waits for ever"
    subscription.close()


def test_a_closed_bus_takes_events_for_nobody_and_subscribers_come_to_an_end_at_once() -> None:
    bus = EventBus()
    bus.close()
    bus.close()
    bus.publish(event())
    assert asyncio.run(texts(bus.subscribe())) == []
    assert bus.subscriptions == ()


def publish(bus: EventBus, name: str, count: int) -> None:
    for number in range(count):
        bus.publish(event(name, number=number))


def test_ten_thousand_events_of_many_threads_arrive_in_the_order_of_each_or_are_counted_as_lost() -> None:
    """Beside readers that keep up, one that never reads, one that is slow, and some that come and go."""
    bus = EventBus()
    share = EVENTS // THREADS
    quick, never, slow = bus.subscribe(maxsize=EVENTS), bus.subscribe(maxsize=10), bus.subscribe(maxsize=50)
    in_loop, got, slowly = bus.subscribe(maxsize=EVENTS), list[Event](), list[Event]()
    looped: list[Event] = []
    finished = threading.Event()

    def read(subscription: Subscription, into: list[Event]) -> None:
        while (each := subscription.get()) is not None:
            into.append(each)

    async def read_in_loop() -> None:
        looped.extend([each async for each in in_loop])

    def come_and_go() -> None:
        while not finished.is_set():
            with bus.subscribe(maxsize=1) as passing:
                passing.get(0)

    publishers = [threading.Thread(target=publish, args=(bus, str(number), share)) for number in range(THREADS)]
    with (
        switching_all_the_time(),
        threads(
            lambda: read(quick, got),
            lambda: read(slow, slowly),
            lambda: asyncio.run(read_in_loop()),
            come_and_go,
        ),
    ):
        for each in publishers:
            each.start()
        for each in publishers:
            each.join(LONG)
        finished.set()
        bus.close()
    for received in (got, looped):
        assert len(received) == EVENTS
        assert in_order(received, share)
    assert len(slowly) + slow.lost == EVENTS
    assert never.lost == EVENTS - 10
    assert len(subjects(never)) == 10
    assert (quick.lost, in_loop.lost) == (0, 0)


def in_order(received: list[Event], share: int) -> bool:
    """Whether the events of each thread are there, in the order in which it published them."""
    names = [str(number) for number in range(THREADS)]
    told = {name: [each.payload["number"] for each in received if each.subject == name] for name in names}
    return all(numbers == list(range(share)) for numbers in told.values())


def test_a_burst_does_not_keep_others_from_the_loop() -> None:
    async def work() -> int:
        bus, turns = EventBus(), 0
        with bus.subscribe() as subscription:
            for number in range(100):
                bus.publish(event(str(number)))
            reading = asyncio.create_task(texts(subscription))
            while subscription.waiting:
                await asyncio.sleep(0)
                turns += 1
        await reading
        return turns

    assert asyncio.run(work()) >= 100


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_a_reader_that_is_cancelled_at_any_turn_loses_no_event_and_leaves_nothing_behind(
    before: int, after: int
) -> None:
    trouble: list[dict[str, Any]] = []

    async def work() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
        bus = EventBus()
        with bus.subscribe() as subscription:
            reading = asyncio.ensure_future(anext(subscription))
            for _ in range(before):
                await asyncio.sleep(0)
            bus.publish(event("a"))
            for _ in range(after):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            read = [] if reading.cancelled() else [reading.result().subject]
            assert asyncio.all_tasks() == {asyncio.current_task()}
        return read + await texts(subscription)

    assert asyncio.run(work()) == ["a"]
    assert trouble == []
