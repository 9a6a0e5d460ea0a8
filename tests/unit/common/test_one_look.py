"""One look for many: who asks gets one that had not begun before, and shares it with who asks meanwhile."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from supervisor_core.daemon.reconciliation.observer import SharedObservation
from tests.support.daemon.reconciliation import until

ASKERS = 10


class Looks:
    """Looks that end when the test says so; each answers with its number, or fails."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.begun = 0
        self.at_once, self.most_at_once = 0, 0
        self.ends: dict[int, asyncio.Event] = {}
        self.fails: set[int] = set()

    async def __call__(self) -> int:
        number = self.begun = next(self._numbers)
        self.ends[number] = asyncio.Event()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.ends[number].wait()
        finally:
            self.at_once -= 1
        if number in self.fails:
            raise OSError(f"look {number} failed")
        return number


async def begun(looks: Looks, number: int) -> None:
    """Until this look is under way."""
    await until(lambda: looks.begun >= number, f"look {number} has begun")


async def asked(one_look: SharedObservation[int], times: int) -> list[asyncio.Task[int]]:
    """So many have asked, and wait."""
    askers = [asyncio.create_task(one_look()) for _ in range(times)]
    for _ in range(3):  # each gets as far as it can
        await asyncio.sleep(0)
    return askers


def test_who_asks_while_a_look_is_under_way_gets_one_that_began_after_the_question() -> None:
    async def story() -> None:
        looks = Looks()
        one_look = SharedObservation(looks)
        (first,) = await asked(one_look, 1)
        await begun(looks, 1)
        (second,) = await asked(one_look, 1)
        looks.ends[1].set()
        assert await first == 1
        await begun(looks, 2)
        assert not second.done(), "the look that was under way says nothing to it"
        looks.ends[2].set()
        assert await second == 2

    asyncio.run(story())


def test_all_who_ask_meanwhile_share_one_look_and_there_is_one_at_a_time() -> None:
    async def story() -> None:
        looks = Looks()
        one_look = SharedObservation(looks)
        (first,) = await asked(one_look, 1)
        await begun(looks, 1)
        others = await asked(one_look, ASKERS)
        assert looks.begun == 1, "the next one waits for the end of this one"
        looks.ends[1].set()
        await begun(looks, 2)
        looks.ends[2].set()
        assert await asyncio.gather(first, *others) == [1, *[2] * ASKERS]
        assert (looks.begun, looks.most_at_once) == (2, 1)

    asyncio.run(story())


def test_an_error_reaches_all_who_share_the_look_and_the_next_question_is_answered_anew() -> None:
    async def story() -> None:
        looks = Looks()
        looks.fails = {1, 2}
        one_look = SharedObservation(looks)
        (first,) = await asked(one_look, 1)
        await begun(looks, 1)
        others = await asked(one_look, ASKERS)
        looks.ends[1].set()
        with pytest.raises(OSError, match="look 1 failed"):
            await first
        await begun(looks, 2)
        looks.ends[2].set()
        came = await asyncio.gather(*others, return_exceptions=True)
        assert [str(each) for each in came] == ["look 2 failed"] * ASKERS
        (again,) = await asked(one_look, 1)
        await begun(looks, 3)
        looks.ends[3].set()
        assert await again == 3

    asyncio.run(story())


@pytest.mark.parametrize("when", ["while its look waits", "while it is under way"])
def test_who_no_longer_waits_takes_the_look_from_nobody(when: str) -> None:
    async def story() -> None:
        looks = Looks()
        one_look = SharedObservation(looks)
        (before,) = await asked(one_look, 1)
        await begun(looks, 1)
        impatient, patient = await asked(one_look, 2)
        if when == "while it is under way":
            looks.ends[1].set()
            await begun(looks, 2)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        looks.ends[1].set()
        await begun(looks, 2)
        looks.ends[2].set()
        assert (await before, await patient) == (1, 2)

    asyncio.run(story())


def test_a_look_that_is_wanted_by_nobody_any_more_keeps_the_next_from_nothing() -> None:
    async def story() -> None:
        looks = Looks()
        one_look = SharedObservation(looks)
        (only,) = await asked(one_look, 1)
        await begun(looks, 1)
        only.cancel()
        (later,) = await asked(one_look, 1)
        looks.ends[1].set()
        await begun(looks, 2)
        looks.ends[2].set()
        assert await later == 2

    asyncio.run(story())
