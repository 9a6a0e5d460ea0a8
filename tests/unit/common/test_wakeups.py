"""Waits that end at common moments, and calls that share a thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from supervisor_core.common.wakeups import COMMON_SECONDS, SLACK_SECONDS, SharedThread, in_step


@pytest.mark.parametrize("now", [0.0, 1.3, 4.6, 4.9999, 5.0, 7.5])
@pytest.mark.parametrize("seconds", [5.0, 7.0, 30.0])
def test_long_waits_end_at_the_same_moments(now: float, seconds: float) -> None:
    wait = in_step(seconds, now)
    assert (now + wait) % COMMON_SECONDS == pytest.approx(0.0)
    assert max(seconds - COMMON_SECONDS, 0) < wait <= seconds + SLACK_SECONDS


def test_a_short_wait_stays_as_it_is() -> None:
    assert in_step(0.25, 4.0) == 0.25


def test_calls_of_one_moment_run_in_one_thread_in_their_order() -> None:
    done: list[tuple[int, int]] = []

    async def story() -> list[int]:
        shared = SharedThread()

        def work(number: int) -> int:
            done.append((number, threading.get_ident()))
            return number

        return await asyncio.gather(*(shared(work, number) for number in range(5)))

    assert asyncio.run(story()) == list(range(5))
    assert [number for number, _ in done] == list(range(5))
    assert len({thread for _, thread in done}) == 1


def test_a_slow_call_does_not_delay_the_others() -> None:
    async def story() -> None:
        shared, hanging = SharedThread(), threading.Event()
        slow = [asyncio.create_task(shared(hanging.wait)) for _ in range(2)]
        assert await asyncio.wait_for(shared(lambda: "quick"), 10) == "quick"
        assert not any(each.done() for each in slow)
        hanging.set()
        assert await asyncio.gather(*slow) == [True, True]

    asyncio.run(story())


def test_the_thread_of_a_slow_call_takes_no_other_call_before_its_caller_continues() -> None:
    async def story() -> None:
        shared = SharedThread()
        began, slow, quick, hanging = threading.Event(), threading.Event(), threading.Event(), threading.Event()
        first = asyncio.create_task(shared(slow.wait))
        await shared(lambda: None)  # the first counts as slow now: another thread takes what comes

        def begin_and_wait() -> bool:
            began.set()
            return quick.wait()

        second = asyncio.create_task(shared(begin_and_wait))
        third = asyncio.create_task(shared(hanging.wait))
        await asyncio.to_thread(began.wait)
        slow.set()
        assert await asyncio.wait_for(first, 10)
        assert not third.done()
        quick.set()
        hanging.set()
        assert all(await asyncio.gather(second, third))

    asyncio.run(story())


def test_a_call_for_which_the_system_has_no_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story() -> None:
        shared = SharedThread()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="can't start new thread"):
                    await asyncio.wait_for(shared(lambda: "refused"), 5)
        assert await shared(lambda: "later") == "later"

    asyncio.run(story())


def test_an_error_reaches_its_caller_alone() -> None:
    async def story() -> tuple[object, object]:
        shared = SharedThread()
        return await asyncio.gather(shared(lambda: 1 // 0), shared(lambda: 2), return_exceptions=True)

    error, value = asyncio.run(story())
    assert isinstance(error, ZeroDivisionError)
    assert value == 2


def test_a_call_that_comes_while_another_ends_is_not_lost() -> None:
    async def story() -> int:
        shared, total = SharedThread(), 0
        for number in range(200):
            total += await shared(lambda number=number: number)
            total += sum(await asyncio.gather(shared(lambda: 1), shared(lambda: 1)))
        return total

    assert asyncio.run(story()) == sum(range(200)) + 400
