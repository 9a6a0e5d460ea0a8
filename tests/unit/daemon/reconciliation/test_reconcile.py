"""The reconciler: what is wanted of workers comes about, and the picture of them is true, whole and never changes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.common.events import EventType
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.status import Snapshot, WorkerSnapshot
from tests.support.daemon.reconciliation import World, a_world, until, waiting
from tests.support.sampling import rounds

CHANGES = rounds(10_000, sample=2_000)
SEEN = 10
"""So many different pictures each reader sees at least."""
NOTHING: dict[str, Any] = {}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North={}, South={}) as made:
        yield made


async def up(world: World) -> None:
    """Both run, and the picture says so."""
    await world.reconciler.start()
    await until(lambda: world.runs("North", "South"), "both run")
    await until(lambda: world.state("North") == world.state("South") == "running", "the picture says so")


def test_new_workers_are_started(world: World) -> None:
    async def story() -> None:
        await up(world)
        assert (world.adapter.done("North"), world.adapter.done("South")) == (["start"], ["start"])

    world.run(story())


def test_the_picture_of_a_started_worker_names_its_process_and_the_version_that_is_in_force_at_once(
    world: World,
) -> None:
    async def story() -> None:
        await world.reconciler.start()
        await until(lambda: world.runs("North"))
        await until(lambda: world.pictured("North").actual.pid == world.pid("North"), "it is in the picture", 1)
        await until(lambda: world.pictured("North").desired_version == 1, "it counts as applied", 1)

    world.run(story())


def test_a_worker_that_runs_already_is_taken_over_and_not_doubled(world: World) -> None:
    async def story() -> None:
        world.adapter.start_by_hand("North")
        before = world.pid("North")
        await up(world)
        assert world.pid("North") == before
        assert world.adapter.done("North") == []

    world.run(story())


def test_the_end_of_a_worker_that_was_taken_over_is_noticed_at_once(world: World) -> None:
    async def story() -> None:
        world.adapter.start_by_hand("North")
        await up(world)
        world.adapter.die("North")
        await until(lambda: world.state("North") == "backing_off", "its end is noticed long before the next round", 1)

    world.run(story())


def test_the_next_daemon_knows_from_its_first_look_which_failed_run_a_worker_follows(world: World) -> None:
    """Otherwise the alert of a crash loop would close right after each restart of the daemon."""

    async def story() -> None:
        await up(world)
        old = world.pid("North")
        await asyncio.sleep(20)
        world.adapter.die("North")
        await until(lambda: world.pid("North") not in (None, old) and world.state("North") == "running", "it's back")
        again = await world.killed()
        await again.start()
        status = again.workers["North"].status
        assert status is not None
        assert round(status.failed_after_seconds) == 20

    world.run(story())


def test_a_worker_that_a_new_configuration_adds_is_started(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.configure(North={}, South={}, West={})
        await until(lambda: world.state("West") == "running", "the new one runs", 1)
        assert world.adapter.done("North") == ["start"], "the others are left alone"

    world.run(story())


def test_one_that_a_new_configuration_removes_is_stopped_and_forgotten(world: World) -> None:
    async def story() -> None:
        await up(world)
        old = world.reconciler.current_snapshot()
        world.configure(North={})
        await until(lambda: "South" not in world.reconciler.current_snapshot().workers, "it is not in the picture", 1)
        assert not world.runs("South")
        assert world.adapter.done("South") == ["start", "remove"]
        assert world.reconciler.workers.get("South") is None
        assert "South" in old.workers

    world.run(story())


def test_one_that_is_put_back_while_it_ends_is_started_again_at_once(world: World) -> None:
    async def story() -> None:
        await up(world)
        let_go = threading.Event()
        world.adapter.slow("South", let_go)
        world.configure(North={})
        await until(lambda: "remove" in world.adapter.done("South"), "it is being removed")
        world.configure(North={}, South={})
        let_go.set()
        await until(lambda: world.adapter.done("South")[-1] == "start", "it is started anew", 5)
        await until(lambda: world.state("South") == "running", "and in the picture", 5)

    world.run_in_threads(story())


def test_one_that_can_not_be_ended_is_not_forgotten(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.adapter.unkillable("South")
        world.configure(North={})
        await until(lambda: world.state("South") == "stuck", "it is seen to be stuck", 1)
        assert world.reconciler.workers.get("South") is not None

    world.run(story())


def test_one_that_is_disabled_is_stopped_and_one_that_is_enabled_again_is_started(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.configure(North={}, South={"enabled": False})
        await until(lambda: world.state("South") == "stopped", "it is stopped", 1)
        assert not world.runs("South")
        world.configure(North={}, South={})
        await until(lambda: world.state("South") == "running", "it runs again", 1)
        assert world.adapter.done("South") == ["start", "stop", "start"]

    world.run(story())


@pytest.mark.parametrize(
    "change", [{"command": ["sleep", "2000"]}, {"env": {"A": "b"}}, {"cwd": "elsewhere"}, {"command": ["sleep", "1"]}]
)
def test_what_needs_a_restart_restarts_the_worker_once(world: World, tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "elsewhere").mkdir()

    async def story() -> None:
        await up(world)
        old = world.pid("North")
        world.configure(North=change, South={})
        await until(lambda: world.pid("North") not in (None, old), "it is restarted", 5)
        await until(lambda: world.pictured("North").desired_version == 2, "and that is applied", 5)
        assert world.adapter.done("North") == ["start", "stop", "start"]
        assert world.adapter.done("South") == ["start"]

    world.run(story())


@pytest.mark.parametrize(
    "change",
    [
        {"team": "archive"},
        {"stop_timeout_seconds": 7},
        {"restart": {"policy": "always"}},
        {"heartbeat_max_age_seconds": 3600},
        {"code": {"branch": "stable"}},
    ],
)
def test_what_is_live_is_taken_over_without_a_restart(world: World, change: dict[str, Any]) -> None:
    async def story() -> None:
        await up(world)
        world.configure(North=change, South={})
        await until(lambda: world.pictured("North").desired_version == 2, "it is applied", 1)
        assert world.adapter.done("North") == ["start"]
        assert world.adapter.state("North").identity is not None

    world.run(story())


def test_a_change_that_could_not_be_started_leaves_the_old_one_running_and_says_why(world: World) -> None:
    async def story() -> None:
        await up(world)
        old = world.pid("North")
        world.configure(North={"command": ["/no/such/program"]}, South={})
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        await until(lambda: actor.start_error, "its error is known", 1)
        assert "/no/such/program" in (actor.start_error)
        assert world.pid("North") == old
        assert world.pictured("North").desired_version == 1, "the new version is not applied"
        world.configure(North={}, South={})
        await until(lambda: world.pictured("North").desired_version == 3, "and this one is", 1)

    world.run(story())


@pytest.mark.parametrize("held", ["paused", "quarantined", "not enabled"])
def test_who_is_to_rest_is_not_started(world: World, held: str) -> None:
    async def story() -> None:
        if held == "paused":
            world.parts.host.pauses.set("North", Pause("anna"))
        said = {"quarantined": {"quarantined": True}, "not enabled": {"enabled": False}}.get(held, NOTHING)
        world.configure(North=said, South={})
        await world.reconciler.start()
        await until(lambda: world.state("South") == "running")
        await until(lambda: world.state("North") == ("quarantined" if held == "quarantined" else "stopped"))
        assert world.adapter.done("North") == []

    world.run(story())


def test_a_crash_that_leaves_helpers_behind_has_them_ended_before_the_next_one_is_started(world: World) -> None:
    async def story() -> None:
        await up(world)
        old = world.pid("North")
        helper = world.processes.help_with("North")
        world.adapter.die("North")
        await until(lambda: world.pid("North") not in (None, old), "a new one runs")
        assert world.processes.lives[helper.identity] is Liveness.GONE

    world.run(story())


def test_subscribers_hear_what_happens_in_its_order(world: World) -> None:
    kinds = [each for each in EventType if each.startswith("worker.")]

    async def story() -> None:
        heard = world.reconciler.subscribe(kinds)
        await up(world)
        world.configure(North={}, South={"team": "archive"}, West={})
        await until(lambda: world.state("West") == "running")
        world.configure(North={}, West={})
        await until(lambda: world.state("South") == "")
        told = [(str(event.type), event.subject) for event in waiting(heard)]
        of_south = [kind for kind, subject in told if subject == "South" and kind != "worker.state_changed"]
        assert of_south == ["worker.added", "worker.started", "worker.updated", "worker.stopped", "worker.removed"]
        of_west = [kind for kind, subject in told if subject == "West" and kind != "worker.state_changed"]
        assert of_west == ["worker.added", "worker.started"]
        assert world.reconciler.bus.lost == 0

    world.run(story())


def test_the_states_that_are_told_follow_each_other_without_a_gap(world: World) -> None:
    async def story() -> None:
        heard = world.reconciler.subscribe([EventType.WORKER_STATE_CHANGED])
        await up(world)
        world.adapter.die("North")
        await until(lambda: world.state("North") == "backing_off", seconds=1)
        await until(lambda: world.state("North") == "running")
        world.configure(North={"enabled": False}, South={})
        await until(lambda: world.state("North") == "stopped")
        steps = [event.payload for event in waiting(heard) if event.subject == "North"]
        assert [str(step["to"]) for step in steps] == [
            *("starting", "running", "stopped", "backing_off"),
            *("stopped", "starting", "running", "stopping", "stopped"),
        ]
        assert [step["from"] for step in steps[1:]] == [step["to"] for step in steps[:-1]]

    world.run(story())


def test_a_round_that_fails_is_seen_and_the_next_one_works(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        heard = world.reconciler.subscribe([EventType.RECONCILE_FAILED])
        with monkeypatch.context() as broken:
            broken.setattr(type(world.parts.host.quarantines), "read", lambda *_: 1 / 0)
            await world.reconciler.start()
            await until(world.reconciler.problem)
        assert "ZeroDivisionError" in world.reconciler.problem()
        assert heard.waiting >= 1
        await until(lambda: world.runs("North", "South"), "the next round starts them", 100)
        await until(lambda: not world.reconciler.problem())

    world.run(story())


def test_a_snapshot_is_not_changed_by_what_comes_later(world: World) -> None:
    async def story() -> None:
        await up(world)
        kept = world.reconciler.current_snapshot()
        said = repr(kept)
        world.configure(North={"command": ["sleep", "2"]}, West={})
        await until(lambda: world.state("West") == "running" and not world.state("South"))
        assert world.reconciler.current_snapshot().version > kept.version
        assert repr(kept) == said

    world.run(story())


def test_no_snapshot_ever_shows_a_process_that_was_ended_as_running(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each picture is looked at as it is made, through restarts by a plan and by a command."""
    wrong: list[str] = []
    changed = Snapshot.changed

    def looked_at(self: Snapshot, workers: Mapping[str, WorkerSnapshot], taken_at: datetime) -> Snapshot:
        for name, worker in workers.items():
            pid = worker.actual.pid
            if pid is not None and world.processes.identify(pid) is None:
                wrong.append(f"{name}: {worker.actual.state} as {pid}")
        return changed(self, workers, taken_at)

    monkeypatch.setattr(Snapshot, "changed", looked_at)

    async def story() -> None:
        await up(world)
        world.configure(North={"command": ["sleep", "2"]}, South={})
        await until(lambda: world.pictured("North").desired_version == 2)
        task = world.send("restart_watcher", "South")
        await until(lambda: world.job(task).outcome is not None)
        await until(lambda: world.pictured("South").actual.pid == world.pid("South"), "the new one is shown", 1)
        assert wrong == []

    world.run(story())


def found(worker_id: str, pid: int | None) -> FoundWorker:
    """What a look shows: it runs as this process, or does not run."""
    if pid is None:
        return FoundWorker(worker_id, Presence.STOPPED)
    record = WorkerRecord(worker_id, f"generation-{pid}", RUNNING, identity=ProcessIdentity(pid, pid, "boot"))
    return FoundWorker(worker_id, Presence.RUNNING, record, Liveness.ALIVE)


@pytest.mark.sampled
def test_threads_that_read_see_whole_pictures_whose_versions_never_fall_through_ten_thousand_changes(
    world: World,
) -> None:
    wrong: list[str] = []
    counts = [0, 0, 0]
    done = threading.Event()

    def whole(seen: Snapshot) -> bool:
        """Who runs has a process and nobody else has one, and nobody is missing."""
        actual = [worker.actual for worker in seen.workers.values()]
        return len(actual) == 2 and all((each.state == "running") == (each.pid is not None) for each in actual)

    def read(reader: int) -> None:
        last = 0
        while not done.is_set():
            seen = world.reconciler.current_snapshot()
            if seen.version < last or not whole(seen):
                wrong.append(f"version {seen.version} after {last}: {seen}")
                return
            counts[reader] += seen.version > last
            last = seen.version

    def more(number: int) -> bool:
        """Until there were enough, and until each reader saw many, however seldom a busy machine lets it run."""
        return number < CHANGES or (min(counts) <= SEEN and not wrong)

    async def story() -> None:
        await up(world)
        actors = [world.reconciler.workers.get(name) for name in ("North", "South")]
        before = world.reconciler.current_snapshot().version
        for reader in readers:
            reader.start()
        number = 0
        while more(number):
            actor = actors[number % 2]
            assert actor is not None
            pid = 50_000 + number if number % 4 > 1 else None
            seen = actor.observed
            assert seen is not None
            actor.observe(replace(seen, found=found(actor.id, pid)))
            number += 1
        done.set()
        for reader in readers:
            reader.join(30)
        assert world.reconciler.current_snapshot().version == before + number

    readers = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(len(counts))]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        world.run(story())
    finally:
        done.set()
        sys.setswitchinterval(usual)
    assert wrong == []
    assert not any(reader.is_alive() for reader in readers)
