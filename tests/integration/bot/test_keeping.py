"""Keeping envelopes: what arrives together is written together, each key once, and a bad one keeps no other from it."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.inbound.intake import EnvelopeWriter
from supervisor_core.storage import envelopes
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.store import Ledger

NOT_TEXT = "\ud800"  # half a character: JSON can carry it, no database can


def in_a_loop(test: Callable[[Ledger], Awaitable[None]]) -> Callable[[Ledger], None]:
    @functools.wraps(test)
    def run(ledger: Ledger) -> None:
        async def whole() -> None:
            await test(ledger)

        asyncio.run(whole())

    return run


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "var").mkdir()
    with Ledger(tmp_path / "var" / "ledger.db", "TestHost") as opened:
        yield opened


@contextmanager
def nothing_is_written(ledger: Ledger) -> Iterator[None]:
    """The writer is busy for as long as this lasts."""
    busy, go_on = threading.Event(), threading.Event()

    def hold(_connection: object) -> None:
        busy.set()
        go_on.wait(30)

    held = ledger.submit(hold)
    busy.wait(30)
    try:
        yield
    finally:
        go_on.set()
        held.result(30)


def arrived(key: str, kind: str = "slash_commands") -> StoredEnvelope:
    return StoredEnvelope(key, kind, {"text": f"status {key}"}, datetime.now(UTC))


def kept(ledger: Ledger) -> list[str]:
    return sorted(received.key for received in ledger.read(envelopes.pending_envelopes))


async def begun(keeping: EnvelopeWriter, *received: StoredEnvelope) -> list[asyncio.Task[bool]]:
    """All of them wait to be written."""
    tasks = [asyncio.create_task(keeping.keep(each)) for each in received]
    for _ in range(3):  # until each has been heard of, and the first write is with the ledger
        await asyncio.sleep(0)
    return tasks


@in_a_loop
async def test_the_same_key_twice_in_one_write_is_kept_once(ledger: Ledger) -> None:
    keeping = EnvelopeWriter(ledger)
    with nothing_is_written(ledger):
        tasks = await begun(keeping, arrived("same"), arrived("other"), arrived("same"))
    assert await asyncio.gather(*tasks) == [True, True, False]
    assert kept(ledger) == ["other", "same"]
    twice = (arrived("new"), arrived("new"))
    assert ledger.write(lambda connection: envelopes.store_envelopes(connection, twice)) == [True, False]


@in_a_loop
async def test_nobody_is_told_before_it_is_on_disk(ledger: Ledger) -> None:
    keeping = EnvelopeWriter(ledger)
    with nothing_is_written(ledger):
        (task,) = await begun(keeping, arrived("one"))
        await keeping.quiet(0.01)
        assert not task.done()
        assert kept(ledger) == []
    assert await task
    await keeping.quiet(30)
    assert kept(ledger) == ["one"]


@in_a_loop
async def test_one_that_can_not_be_kept_takes_no_other_with_it(ledger: Ledger) -> None:
    keeping = EnvelopeWriter(ledger)
    with nothing_is_written(ledger):
        tasks = await begun(keeping, arrived("before"), arrived("bad", kind=NOT_TEXT), arrived("after"))
    before, bad, after = await asyncio.gather(*tasks, return_exceptions=True)
    assert (before, after) == (True, True)
    assert isinstance(bad, UnicodeEncodeError)
    assert kept(ledger) == ["after", "before"]
