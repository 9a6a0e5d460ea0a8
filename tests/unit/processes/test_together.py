"""Works of a group: what they need at the same time is done once, and none waits for another's."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

import pytest

from supervisor_core.common.service import Blocking, Grouped
from supervisor_core.host.files import read_json
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.processes.together import Ended, FileKept, Result, SharedNeed, Steps, stepwise, together

LONG_SECONDS = 600.0


class Doubled(SharedNeed):
    """Twice a number; there's no double of a negative one."""

    asked: list[int]

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def answer(cls, needs: Sequence[Doubled]) -> Sequence[object]:
        cls.asked.append(len(needs))
        return [ValueError("negative") if need.number < 0 else 2 * need.number for need in needs]


@pytest.fixture(autouse=True)
def counted() -> None:
    Doubled.asked = []


@stepwise
def quadrupled(number: int) -> Steps[int]:
    twice: int = yield Doubled(number)
    again: int = yield Doubled(twice)
    return again


def test_what_several_need_is_done_once_for_all() -> None:
    (wave,) = together([quadrupled.steps(number) for number in (1, 2, 3)])
    assert [result.value for result in wave] == [4, 8, 12]
    assert Doubled.asked == [3, 3]


def test_one_alone_is_an_ordinary_call() -> None:
    assert quadrupled(5) == 20
    with pytest.raises(ValueError, match="negative"):
        quadrupled(-1)


def test_an_error_ends_the_work_that_it_belongs_to_alone() -> None:
    results = [result for wave in together([quadrupled.steps(-1), quadrupled.steps(1)]) for result in wave]
    assert {result.place: result.value for result in results} == {0: None, 1: 4}
    assert isinstance(next(each for each in results if each.place == 0).error, ValueError)


def test_a_slow_process_holds_up_no_other_work() -> None:
    slow, quick = (subprocess.Popen(["sleep", "600"]) for _ in range(2))

    def waits(process: subprocess.Popen[bytes]) -> Steps[int]:
        identity = identify(process.pid)
        assert identity is not None
        left = yield Ended((identity,), LONG_SECONDS)
        assert left == ()
        return process.pid

    try:
        quick.kill()
        waves = together([waits(slow), waits(quick)])
        assert [result.value for result in next(waves)] == [quick.pid]
        slow.kill()
        assert [result.value for result in next(waves)] == [slow.pid]
    finally:
        for process in (slow, quick):
            process.kill()
            process.wait()


def test_a_wait_without_processes_is_a_pause_and_ends_by_its_time() -> None:
    def pauses() -> Steps[str]:
        left = yield Ended((), 0.01)
        return f"left: {left}"

    assert [wave[0].value for wave in together([pauses()])] == ["left: ()"]


def test_each_work_has_a_context_of_its_own() -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")

    def named(own: str) -> Steps[str]:
        name.set(own)
        yield Doubled(1)
        return name.get()

    (wave,) = together([named("a"), named("b")])
    assert [result.value for result in wave] == ["a", "b"]
    assert name.get() == "nobody"


def test_files_of_a_group_are_whole_and_the_error_of_one_is_its_own(tmp_path: Path) -> None:
    def keeps(name: str, value: object) -> Steps[None]:
        yield FileKept(tmp_path / name, {"value": value})

    (tmp_path / "folder").mkdir()
    results = [each for wave in together([keeps("a", 1), keeps("folder", 2), keeps("b", 3)]) for each in wave]
    assert {result.place for result in results if result.error is not None} == {1}
    assert [read_json(tmp_path / name) for name in ("a", "b")] == [{"value": 1}, {"value": 3}]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "folder"]


def test_calls_of_the_same_moment_share_a_thread_and_later_ones_have_another() -> None:
    calls: list[tuple[list[int], str]] = []

    def work(items: list[int]) -> Iterator[list[Result]]:
        calls.append((items, threading.current_thread().name))
        for place, item in enumerate(items):
            yield [Result(place, 10 * item)]

    async def story() -> None:
        grouped: Grouped[int, int] = Grouped(Blocking(2), work)
        assert await asyncio.gather(*map(grouped, (1, 2, 3))) == [10, 20, 30]
        assert await grouped(4) == 40

    asyncio.run(story())
    assert [items for items, _ in calls] == [[1, 2, 3], [4]]
    assert {thread for _, thread in calls} == {"blocking"}


def test_whoever_has_no_result_is_told_of_the_error() -> None:
    def work(items: list[int]) -> Iterator[list[Result]]:
        yield [Result(0, items[0])]
        raise OSError("the disk is full")

    async def story() -> list[object]:
        grouped: Grouped[int, int] = Grouped(Blocking(2), work)
        return list(await asyncio.gather(grouped(1), grouped(2), return_exceptions=True))

    first, second = asyncio.run(story())
    assert first == 1
    assert isinstance(second, OSError)
