"""A worker that can't even be tried, because something of the host is missing, is not held to be at fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from supervisor_core.workers.restarts import history as starts
from supervisor_core.workers.restarts.history import RestartHistory
from tests.support.daemon.reconciliation import World, a_world, until
from tests.support.processes.crashing_worker import (
    HOUR_SECONDS,
    LONG_SECONDS,
    SOON_SECONDS,
    dies,
    ruled,
    seconds_until_it_runs,
    up,
)


class Missing(NamedTuple):
    """What is missing, how it comes to be, and what the supervisor says about it."""

    take: Callable[[Path], object]
    give_back: Callable[[Path], object]
    words: str


def _a_file_for_the_folder(folder: Path) -> None:
    output = folder / OUTPUT
    output.parent.mkdir(exist_ok=True)
    if output.exists():
        output.rename(output.with_name("away"))
    output.write_text("somebody's notes")


OUTPUT = "var/output"
MISSING = {
    "its folder": Missing(
        lambda folder: (folder / "place").rename(folder / "elsewhere"),
        lambda folder: (folder / "elsewhere").rename(folder / "place"),
        "working directory doesn't exist",
    ),
    "the folder of its output": Missing(_a_file_for_the_folder, lambda folder: (folder / OUTPUT).unlink(), OUTPUT),
    "its program": Missing(
        lambda folder: (folder / "bin" / "work").rename(folder / "bin" / "away"),
        lambda folder: (folder / "bin" / "away").rename(folder / "bin" / "work"),
        "program doesn't exist",
    ),
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("place", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "work").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "work").chmod(0o755)
    place: dict[str, Any] = {"cwd": str(tmp_path / "place"), "command": [str(tmp_path / "bin" / "work")]}
    with a_world(tmp_path, monkeypatch, North={**ruled(), **place}) as made:
        yield made


@pytest.mark.parametrize("before", ["it never ran", "it has ended"])
@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_counts_against_nobody_and_it_is_started_once_that_is_there(
    world: World, tmp_path: Path, what: str, before: str
) -> None:
    missing = MISSING[what]

    async def story() -> None:
        if before == "it has ended":
            await up(world)
            missing.take(tmp_path)
            await dies(world, after=LONG_SECONDS)
        else:
            missing.take(tmp_path)
            await world.reconciler.start()
        tried = len(world.adapter.done("North"))
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        await until(lambda: actor.start_error, "why it does not run is known", SOON_SECONDS)
        assert missing.words in (actor.start_error)
        await asyncio.sleep(HOUR_SECONDS / 2)
        state_dir = world.parts.host.config.state_dir
        assert world.state("North") == "stopped", "it is not given up"
        assert starts.read_starts(state_dir, "North") == []
        assert len(RestartHistory(state_dir, "North").lives) == (1 if before == "it has ended" else 0)
        assert len(world.adapter.done("North")) == tried, "it was not even tried"
        missing.give_back(tmp_path)
        every = world.parts.host.config.supervisor.reconcile_seconds
        assert await seconds_until_it_runs(world) <= every + SOON_SECONDS
        assert actor.start_error == ""

    world.run(story())


def test_its_next_start_after_an_end_is_counted_all_the_same(world: World, tmp_path: Path) -> None:
    async def story() -> None:
        await up(world)
        MISSING["its folder"].take(tmp_path)
        await dies(world, after=LONG_SECONDS)
        await asyncio.sleep(HOUR_SECONDS / 2)
        MISSING["its folder"].give_back(tmp_path)
        await seconds_until_it_runs(world)
        assert len(starts.read_starts(world.parts.host.config.state_dir, "North")) == 1

    world.run(story())


def test_the_start_that_follows_a_failed_one_is_counted_also_where_it_could_not_be_tried_at_first(
    world: World, tmp_path: Path
) -> None:
    async def story() -> None:
        world.adapter.break_start("North", "the program is broken")
        await world.reconciler.start()
        await until(lambda: world.state("North") == "backing_off", "it waits", SOON_SECONDS)
        MISSING["its folder"].take(tmp_path)
        await asyncio.sleep(HOUR_SECONDS / 2)
        world.adapter.break_start("North", "")
        MISSING["its folder"].give_back(tmp_path)
        await seconds_until_it_runs(world)
        assert len(starts.read_starts(world.parts.host.config.state_dir, "North")) == 1

    world.run(story())
