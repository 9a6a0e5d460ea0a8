"""Services: each fails alone, is tried again with growing patience, and is named when it does not stop.

The loop's clock is virtual: where all wait, it jumps to the next moment at which something is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from supervisor_core.common.service import (
    BEAT_SECONDS,
    CANCEL_SECONDS,
    PATIENCE_SECONDS,
    Pulse,
    Service,
    ServiceRegistry,
    ServiceState,
    wait_until,
)
from tests.support.daemon.virtual_time import VirtualLoop

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class Steady(Service):
    """A service that does what it should; others differ in one thing."""

    name = "steady"

    def __init__(self) -> None:
        super().__init__()
        self.pulse = Pulse(lambda: asyncio.get_running_loop().time())
        self.calls: list[str] = []
        self.begun_at: list[float] = []
        self.trouble = ""

    async def initialise(self) -> None:
        self.calls.append("initialise")
        self.begun_at.append(now())

    async def run(self, stopping: asyncio.Event) -> None:
        self.calls.append("run")
        await self.beating(stopping)

    async def beating(self, stopping: asyncio.Event) -> None:
        """As a loop that only waits does."""
        while not stopping.is_set():
            self.pulse.beat(within=BEAT_SECONDS)
            await wait_until(None, stopping, BEAT_SECONDS)

    async def shut_down(self) -> None:
        self.calls.append("shut_down")

    def problem(self) -> str:
        return self.trouble


class Failing(Steady):
    """Fails at a place, so many times, after so many seconds."""

    name = "failing"

    def __init__(self, where: str, times: int = 10**9, after: float = 0.0) -> None:
        super().__init__()
        self._where, self._times, self._after = where, times, after

    async def _maybe(self, where: str) -> None:
        if where == self._where and self._times > 0:
            self._times -= 1
            await asyncio.sleep(self._after)
            raise OSError(28, "No space left on device")

    async def initialise(self) -> None:
        await super().initialise()
        await self._maybe("initialise")

    async def run(self, stopping: asyncio.Event) -> None:
        self.calls.append("run")
        await self._maybe("run")
        await self.beating(stopping)

    async def shut_down(self) -> None:
        await super().shut_down()
        await self._maybe("shut_down")


class Scene:
    def __init__(self, *services: Steady) -> None:
        self.services = services
        self.registry = ServiceRegistry(services, [("slack", "no token")])
        self.stopping = asyncio.Event()

    async def start(self) -> None:
        async with asyncio.timeout(1000):
            await self.registry.start(self.stopping)

    async def stop(self, seconds: float = 5) -> list[str]:
        self.stopping.set()
        return await self.registry.stop(seconds)

    def report(self, name: str) -> Any:
        return next(report for report in self.registry.reports() if report.name == name)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("supervisor_core"), "propagate", True)


def test_a_service_goes_its_way_from_starting_to_stopped() -> None:
    async def story() -> None:
        service = Steady()
        scene = Scene(service)
        assert scene.report("steady").state is ServiceState.STARTING
        await scene.start()
        report = scene.report("steady").as_json()
        assert (report["state"], report["health"], report["reason"]) == ("running", "healthy", "running")
        assert report["last_health_at"].endswith("Z")
        service.trouble = "the drive is away"
        assert (scene.report("steady").health, scene.report("steady").reason) == ("degraded", "the drive is away")
        assert scene.report("slack").as_json()["state"] == "disabled"
        assert await scene.stop() == []
        assert scene.report("steady").state is ServiceState.STOPPED
        assert service.calls == ["initialise", "run", "shut_down"]

    run(story())


@pytest.mark.parametrize("where", ["initialise", "run"])
def test_one_that_raises_at_once_is_seen_and_pulls_no_other_down(where: str) -> None:
    async def story() -> None:
        failing, steady = Failing(where), Steady()
        scene = Scene(failing, steady)
        await scene.start()
        await asyncio.sleep(0)
        report = scene.report("failing")
        assert (report.state, report.health) == (ServiceState.ERROR, "degraded")
        assert report.last_error == "OSError: [Errno 28] No space left on device"
        assert "retrying in 1 s" in report.reason
        assert scene.report("steady").state is ServiceState.RUNNING
        assert failing.calls.count("shut_down") == 1, "it lets go of what it had, however it failed"
        assert await scene.stop() == []
        assert steady.calls == ["initialise", "run", "shut_down"]

    run(story())


def test_it_is_tried_again_ever_more_patiently_and_never_quickly_again_while_it_goes_on_failing() -> None:
    async def story() -> None:
        failing = Failing("initialise", after=0.01)
        scene = Scene(failing)
        await scene.start()
        await asyncio.sleep(400)
        waits = [round(after - before) for before, after in zip(failing.begun_at, failing.begun_at[1:], strict=False)]
        assert waits[:6] == [1, 2, 4, 8, 16, 32]
        assert set(waits[6:]) == {60}
        assert len(waits) > 8
        assert await scene.stop() == []

    run(story())


def test_one_that_ends_though_nobody_asked_has_failed() -> None:
    class Ending(Steady):
        async def run(self, stopping: asyncio.Event) -> None:
            return

    async def story() -> None:
        scene = Scene(Ending())
        await scene.start()
        await asyncio.sleep(0.5)
        assert "ended unexpectedly" in scene.report("steady").last_error
        await scene.stop()

    run(story())


def test_one_that_raises_while_it_shuts_down_has_stopped_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        scene = Scene(Failing("shut_down"), Steady())
        await scene.start()
        before = now()
        assert await scene.stop() == []
        assert now() - before < 1
        report = scene.report("failing")
        assert report.state is ServiceState.STOPPED
        assert "No space left" in str(report.last_error)

    run(story())
    assert "service failing failed" in caplog.text


def test_a_stop_ends_the_wait_for_the_next_try() -> None:
    async def story() -> None:
        scene = Scene(Failing("initialise"))
        await scene.start()
        await asyncio.sleep(100)
        before = now()
        assert await scene.stop(5) == []
        assert now() - before < 1

    run(story())


class Laggard(Steady):
    """Goes on though it was asked to stop; stubborn: also though it was cut off."""

    name = "laggard"

    def __init__(self, *, stubborn: bool) -> None:
        super().__init__()
        self.release = asyncio.Event()
        self._stubborn = stubborn

    async def run(self, stopping: asyncio.Event) -> None:
        await self.release.wait()

    async def shut_down(self) -> None:
        await super().shut_down()
        if self._stubborn:
            await self.release.wait()


@pytest.mark.parametrize("stubborn", [False, True])
def test_one_that_does_not_stop_is_named_and_not_waited_for(stubborn: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        laggard = Laggard(stubborn=stubborn)
        scene = Scene(laggard, Steady())
        await scene.start()
        before = now()
        assert await scene.stop(5) == ["laggard"]
        assert now() - before <= 5 + CANCEL_SECONDS + 0.1
        assert laggard.calls[-1] == "shut_down"
        report = scene.report("laggard")
        assert (report.state, report.last_error) == (ServiceState.ERROR, "shutdown timeout")
        assert report.reason == "didn't stop within 5 s and was cancelled"
        assert scene.report("steady").state is ServiceState.STOPPED
        laggard.release.set()
        await asyncio.sleep(1)
        assert scene.report("laggard").last_error == "shutdown timeout", "it is not overwritten by what it still does"

    run(story())
    assert "laggard didn't stop within 5 s" in caplog.text


def test_one_that_hangs_is_degraded_from_its_first_missing_beat_until_it_goes_on() -> None:
    class Hanging(Steady):
        def __init__(self) -> None:
            super().__init__()
            self.release = asyncio.Event()

        async def run(self, stopping: asyncio.Event) -> None:
            self.pulse.beat()
            await self.release.wait()
            await self.beating(stopping)

    async def story() -> None:
        hanging, steady = Hanging(), Steady()
        steady.name = "other"
        scene = Scene(hanging, steady)
        await scene.start()
        began = scene.report("steady").last_health_at
        await asyncio.sleep(PATIENCE_SECONDS - 1)
        assert (scene.report("steady").health, scene.report("steady").last_health_at) == ("healthy", began)
        await asyncio.sleep(2)
        report = scene.report("steady")
        assert (report.state, report.health, report.late) == (ServiceState.RUNNING, "degraded", True)
        assert report.reason == f"unresponsive for 61 s, since {began:%H:%M:%S} UTC"
        assert report.last_health_at == began, "it is not stamped by whoever asks"
        assert scene.report("other").health == "healthy"
        hanging.release.set()
        await asyncio.sleep(1)
        assert (scene.report("steady").health, scene.report("steady").late) == ("healthy", False)
        assert await scene.stop() == []

    run(story())


def test_each_loop_of_a_service_beats_by_itself_and_one_that_rests_is_not_missed() -> None:
    time = 0.0
    pulse = Pulse(lambda: time)
    pulse.begin()
    pulse.beat(10, "connection")
    pulse.beat(0, "messages")
    time = PATIENCE_SECONDS + 5
    assert pulse.late().startswith("messages: unresponsive for 65 s, since ")
    time += 10
    assert "; messages: " in pulse.late() or pulse.late().startswith("connection: ")
    pulse.rest("messages")
    pulse.beat(0, "connection")
    assert pulse.late() == ""


def test_asked_to_stop_while_one_is_still_getting_ready_the_start_comes_back() -> None:
    class Slow(Steady):
        async def initialise(self) -> None:
            await super().initialise()
            await asyncio.sleep(30)

    async def story() -> None:
        scene = Scene(Slow())
        starting = asyncio.ensure_future(scene.start())
        await asyncio.sleep(1)
        scene.stopping.set()
        await starting
        assert await scene.stop(60) == []

    run(story())


class Wait:
    """A wait for something, and what is left of it."""

    def __init__(self) -> None:
        self.woken, self.stopping = asyncio.Event(), asyncio.Event()

    async def until(self, seconds: float | None = 60.0) -> tuple[bool, float]:
        """Whether it was asked to stop, and how long that took. No task is left."""
        begun, before = now(), asyncio.all_tasks()
        stopped = await wait_until(self.woken, self.stopping, seconds)
        assert asyncio.all_tasks() == before
        return stopped, now() - begun


def waited(*events: tuple[float, str], seconds: float | None = 60.0) -> tuple[bool, float]:
    """How a wait ends when these are set after so many seconds, in whole seconds."""

    async def story() -> tuple[bool, float]:
        wait = Wait()
        for after, name in events:
            asyncio.get_running_loop().call_later(after, getattr(wait, name).set)
        stopped, took = await wait.until(seconds)
        return stopped, round(took)

    return run(story())


@pytest.mark.parametrize(
    ("events", "stopped", "after"),
    [
        ([(1, "woken"), (2, "stopping")], False, 1),
        ([(2, "woken"), (1, "stopping")], True, 1),
        ([(1, "woken"), (1, "stopping")], True, 1),
        ([], False, 60),
    ],
    ids=["woken first", "stopping first", "both", "timeout"],
)
def test_a_wait_ends_with_the_first_of_its_reasons(
    events: list[tuple[float, str]], stopped: bool, after: float
) -> None:
    assert waited(*events) == (stopped, after)


@pytest.mark.parametrize("woken", [False, True], ids=["while it waits", "in the moment in which it is woken"])
def test_a_wait_never_swallows_a_cancellation(woken: bool) -> None:
    """`asyncio.wait_for` did when what it waited for came at the same moment."""

    async def story() -> None:
        for turns in range(6):
            wait = Wait()
            task = asyncio.ensure_future(wait.until())
            await asyncio.sleep(1)
            if woken:
                wait.woken.set()
                for _ in range(turns):  # between the event and the end of the wait
                    await asyncio.sleep(0)
            was_over = task.done()
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() or was_over, turns
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run(story())
