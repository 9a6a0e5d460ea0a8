"""Nothing is stopped, started or judged while somebody changes the code that the worker runs from."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.code.checkout_lock import checkout_for
from supervisor_core.commands.command import Issuer
from supervisor_core.common.events import EventType
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.workers.restarts import history as starts
from supervisor_core.workers.restarts.history import RestartHistory
from tests.support.daemon.reconciliation import World, a_world, until, waiting

GONE: dict[str, Any] = {}
CHANGES: dict[str, dict[str, Any]] = {
    "stop": {"North": {"enabled": False}},
    "restart": {"North": {"env": {"A": "b"}}},
    "remove": {},
}
DONE = {"stop": ["start", "stop"], "restart": ["start", "stop", "start"], "remove": ["start", "remove"]}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    # A checkout for each, so that only one of them has its code changed.
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
    with a_world(tmp_path, monkeypatch, **both(tmp_path)) as made:
        yield made


def both(folder: Path, north: dict[str, Any] | None = GONE) -> dict[str, Any]:
    """South is left alone; North is as said, or not there at all."""
    said = None if north is None else {"code": {"path": str(folder / "north")}, **north}
    return {"North": said, "South": {"code": {"path": str(folder / "south")}}}


@contextmanager
def an_update(world: World) -> Iterator[None]:
    """Somebody updates the code of North, elsewhere: the checkout is theirs until the end of this block."""
    host, now = world.parts.host, datetime.now(UTC)
    job = Job(1, "TestHost", "t", "North", "update_code", {}, None, Issuer("cli:a", "a"), "cli", JobState.STARTED, now)
    with checkout_for(job, host, lambda: True) as ours:
        assert ours
        yield


async def up(world: World) -> None:
    await world.reconciler.start()
    await until(lambda: world.state("North") == world.state("South") == "running", "both run")


def waits(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether somebody waits for the update."""
    return any("waiting for" in each.getMessage() and "update of North" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("change", CHANGES)
def test_a_planned_change_waits_for_an_update_of_the_code(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    async def story() -> None:
        await up(world)
        old = world.pid("North")
        with an_update(world):
            world.configure(**both(tmp_path, CHANGES[change].get("North")))
            await until(lambda: waits(caplog), f"the {change} waits")
            assert (world.pid("North"), world.adapter.done("North")) == (old, ["start"])
        await until(lambda: world.adapter.done("North") == DONE[change], f"the {change} follows the update")

    with caplog.at_level(logging.INFO):
        world.run_in_threads(story())


def test_a_planned_start_waits_for_an_update_and_others_do_not(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        with an_update(world):
            await world.reconciler.start()
            await until(lambda: waits(caplog), "the start waits")
            await until(lambda: world.runs("South"), "the other is started")
            assert world.adapter.done("North") == []
        await until(lambda: world.runs("North"), "it is started after the update")

    with caplog.at_level(logging.INFO):
        world.run_in_threads(story())


def test_the_end_of_a_worker_that_an_update_has_stopped_is_no_end_by_itself(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        await up(world)
        subscription = world.reconciler.subscribe([EventType.WORKER_STATE_CHANGED])
        with an_update(world):
            world.adapter.die("North")  # its process is gone, and its record not yet
            await until(lambda: waits(caplog), "nobody judges its end")
            world.processes.stop("North")  # now the record is forgotten as well
        await until(lambda: world.runs("North"), "it is started again")
        states = [event.payload["to"] for event in waiting(subscription) if event.subject == "North"]
        assert "backing_off" not in states
        state_dir = world.parts.host.config.state_dir
        assert (starts.read_starts(state_dir, "North"), RestartHistory(state_dir, "North").lives) == ([], [])

    with caplog.at_level(logging.INFO):
        world.run_in_threads(story())


@pytest.mark.parametrize("change", ["start", *CHANGES])
def test_one_that_is_told_to_stop_meanwhile_leaves_it_to_the_next(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    done = ["start"] if change == "start" else DONE[change]

    async def story() -> None:
        if change != "start":
            await up(world)
        before = world.adapter.done("North")
        with an_update(world):
            if change == "start":
                await world.reconciler.start()
            else:
                world.configure(**both(tmp_path, CHANGES[change].get("North")))
            await until(lambda: waits(caplog), f"the {change} waits")
            actor = world.reconciler.workers.get("North")
            assert actor is not None
            await world.reconciler.stop()
            assert world.adapter.done("North") == before, "it was not begun"
            assert (actor.problem, actor.start_error, actor.activity) == ("", "", "")
        if change == "remove":  # its record is in the test alone, where the next daemon does not look
            return
        again = await world.killed()
        await again.start()
        await until(lambda: world.adapter.done("North") == done[len(before) :], f"the {change} is the next one's")

    with caplog.at_level(logging.INFO):
        world.run_in_threads(story())


def test_a_command_that_comes_while_a_change_waits_is_carried_out_after_it(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The start that was planned is not the last word: what a person asks for comes after it, and holds."""

    async def story() -> None:
        await up(world)
        with an_update(world):
            world.configure(**both(tmp_path, {"env": {"A": "b"}}))
            await until(lambda: waits(caplog), "the restart waits")
            task = world.send("pause", "North")
        await until(lambda: world.job(task).outcome is not None, "the command is carried out")
        await until(lambda: world.state("North") == "stopped", "and the worker rests")

    with caplog.at_level(logging.INFO):
        world.run_in_threads(story())
