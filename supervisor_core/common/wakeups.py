"""Fewer wake-ups of an idle daemon: waits that end at the same moments, and calls that share a thread."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from supervisor_core.common.service import SPARE, Blocking

T = TypeVar("T")

COMMON_SECONDS = 5.0
"""The distance between the moments at which long waits end."""

SLACK_SECONDS = 0.5
"""A wait may be longer by this time. Otherwise a timer that fires a little early would wait twice."""

SLOW_SECONDS = 0.05
"""A call that takes longer doesn't delay the others of its moment any more."""


def in_step(seconds: float, now: float | None = None) -> float:
    """The seconds until the last common moment within this wait. A short wait stays as it is.

    `now` is the time of the event loop. Services that all wake every 5 s then wake the program once.
    """
    if seconds < COMMON_SECONDS:
        return seconds
    moment = asyncio.get_running_loop().time() if now is None else now
    return (moment + seconds + SLACK_SECONDS) // COMMON_SECONDS * COMMON_SECONDS - moment


_Call = tuple[Callable[[], Any], asyncio.Future[Any]]
_Ended = tuple[asyncio.Future[Any], Any, BaseException | None]


class SharedThread(Blocking):
    """For calls that are mostly quick: they run in one thread, in their order, and their callers continue together.

    If a call is slow, another thread takes the rest. Belongs to one event loop.
    """

    def __init__(self, limit: int = SPARE, name: str = "shared") -> None:
        super().__init__(limit, name)
        self._calls: deque[_Call] = deque()
        self._quick = 0
        """The threads that aren't slow: one of them takes each call."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 (whatever `work` takes)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()
        self._calls.append((lambda: context.run(work, *arguments), future))
        self._go_on()
        return await future

    def _go_on(self) -> None:
        if self._calls and not self._quick:
            self._quick += 1
            task = asyncio.get_running_loop().create_task(self._run(), context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        """Run calls until none is left. What has ended is told at the end, or when one of them is slow."""
        ended: deque[_Ended] = deque()
        slow = False

        def leave() -> None:
            nonlocal slow
            slow = True
            self._quick -= 1
            _tell(ended)
            self._go_on()

        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, leave)
        try:
            await super().__call__(_run_all, self._calls, ended, lambda: slow)
        except Exception as error:  # noqa: BLE001 (the system has no thread for those who wait, and they are told)
            while self._calls:
                ended.append((self._calls.popleft()[1], None, error))
        finally:
            timer.cancel()
            if slow:
                _tell(ended)
            else:
                leave()


def _run_all(calls: deque[_Call], ended: deque[_Ended], is_slow: Callable[[], bool]) -> None:
    while calls and not is_slow():  # else the end of the slow call would be told after the next one alone
        try:
            call, future = calls.popleft()
        except IndexError:  # another thread has taken the last one
            return
        try:
            ended.append((future, call(), None))
        except BaseException as error:  # noqa: BLE001 (the edge of the thread: the caller gets it)
            ended.append((future, None, error))


def _tell(ended: deque[_Ended]) -> None:
    while ended:
        future, value, error = ended.popleft()
        if future.done():  # cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
