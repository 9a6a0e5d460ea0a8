"""Baking: real commands on real code, and what is said of the workers after them, whoever looks and however often."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.code.watch import service as bakes
from supervisor_core.code.watch import service as module
from supervisor_core.code.watch.rules import Bake, BakeState, WatchedWorker
from supervisor_core.code.watch.service import LOOK_SECONDS, BakingChore
from supervisor_core.common import crashpoints
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.steps import Message
from supervisor_core.storage.tables import outbox
from supervisor_core.workers.health import Health, WorkerState
from tests.support.code.code_homes import CodeHost, a_code_host
from tests.support.code.repositories import Clones, origin_and_checkout

B = BakeState
TEN_MINUTES = timedelta(minutes=10)
SECOND = timedelta(seconds=1)
LOOK = timedelta(seconds=LOOK_SECONDS)
WELL = WatchedWorker(WorkerState.RUNNING, Health.HEALTHY, True, "running")
DOWN = WatchedWorker(WorkerState.BACKING_OFF, Health.MISSING, False, "exited (code 1) after 2.0 s; restarting in 5 s")


class Place:
    """A host, its chore, and how its workers are: as the test says."""

    def __init__(self, host: CodeHost, code: Clones) -> None:
        self.host, self.code = host, code
        self.workers: dict[str, WatchedWorker] = dict.fromkeys(host.config.workers, WELL)
        self.looks: list[set[str]] = []
        self.broken: OSError | None = None
        self.chore = self.another()

    def another(self) -> BakingChore:
        """The one of the next daemon, which knows nothing but what is in the ledger."""
        return BakingChore(self.host.ledger, lambda: self.host.config, self.look)

    def look(self, worker_ids: Collection[str]) -> Mapping[str, WatchedWorker]:
        """How they are."""
        self.looks.append(set(worker_ids))
        if self.broken is not None:
            raise self.broken
        return self.workers

    def did(self, words: str, **params: Any) -> tuple[str, datetime]:
        """A command that succeeded, its task id, and when it had ended; its card stands somewhere."""
        task_id = self.host.did(words, **params).task_id
        self.host.ledger.order([Message(jobs.CARD, task_id, {"channel": "C0OPS"})])
        (ended, *_) = [job.finished_at for job in self.host.ledger.read(lambda c: jobs.of_task(c, task_id))]
        assert ended is not None
        return task_id, ended

    def update(self) -> tuple[str, datetime]:
        """An update that brings something."""
        self.code.comes_in({"new/file.txt": f"new {len(self.code.checkout.log())}\n"})
        return self.did("update North")

    def bakes(self, task_id: str) -> list[Bake]:
        """Who is or was watched after this command."""
        return self.host.ledger.read(lambda connection: bakes.of_task(connection, task_id))

    def bake(self, task_id: str) -> Bake:
        """The only one."""
        (found,) = self.bakes(task_id)
        return found

    def told(self, task_id: str) -> int:
        """How often the card of this command was ordered."""
        query = outbox.select().where(outbox.c.kind == jobs.CARD, outbox.c.subject == task_id)
        return int(self.host.ledger.read(lambda connection: connection.execute(query).one()).version)

    def set(self, **settings: Any) -> None:
        """Have this in the section about Slack."""
        self.host.document["slack"] = {"enabled": False, **settings}
        self.host.configure()


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[Place]:
    with a_code_host(tmp_path / "host", {"North": code.checkout.folder}) as host:
        host.start()
        yield Place(host, code)


@pytest.fixture
def both(tmp_path: Path, code: Clones) -> Iterator[Place]:
    """Two workers that run from one checkout."""
    folder = code.checkout.folder
    with a_code_host(tmp_path / "host", {"North": folder, "South": folder}) as host:
        host.start()
        yield Place(host, code)


@pytest.fixture(autouse=True)
def _told_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("supervisor_core"), "propagate", True)


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """What this chore said, from this level on."""
    return [each.getMessage() for each in caplog.records if each.name == module.__name__ and each.levelno >= level]


def test_after_an_update_its_worker_is_watched_to_the_end_and_its_card_hears_of_both(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    task_id, ended = place.update()
    before = place.told(task_id)
    assert place.chore.work(ended + SECOND) is False, "it files no commands"
    assert place.bake(task_id) == Bake(task_id, "North", "TestHost", "North", ended, ended + TEN_MINUTES)
    assert place.told(task_id) == before + 1
    place.chore.work(ended + TEN_MINUTES - SECOND)
    assert place.bake(task_id).state is B.WATCHING
    place.chore.work(ended + TEN_MINUTES)
    done = place.bake(task_id)
    assert (done.state, done.decided_at, done.reason) == (B.WELL, ended + TEN_MINUTES, "")
    assert place.told(task_id) == before + 2
    place.chore.work(ended + 2 * TEN_MINUTES)
    assert place.told(task_id) == before + 2
    assert lines(caplog) == [
        "watching North for 10 minutes",
        "North is healthy with its new code; stopped watching",
    ]


@pytest.mark.parametrize("worker", [DOWN, DOWN._replace(state=WorkerState.STUCK)])
def test_one_that_degrades_is_told_of_once_with_the_way_back_and_nothing_is_done(
    place: Place, caplog: pytest.LogCaptureFixture, worker: WatchedWorker
) -> None:
    task_id, ended = place.update()
    head = place.code.checkout.head
    place.chore.work(ended + SECOND)
    before = place.told(task_id)
    place.workers["North"] = worker
    for chore in (place.chore, place.another(), place.chore):
        chore.work(ended + SECOND + LOOK)
    done = place.bake(task_id)
    assert (done.state, done.decided_at, done.reason) == (B.DEGRADED, ended + SECOND + LOOK, worker.reason)
    assert place.told(task_id) == before + 1
    place.workers["North"] = WELL
    place.chore.work(ended + TEN_MINUTES)
    assert place.bake(task_id).state is B.RECOVERED
    assert place.told(task_id) == before + 2
    (said,) = lines(caplog, logging.WARNING)
    assert f"North degraded after its code changed: {worker.reason}" in said
    assert said.endswith(f"To restore the previous code: undo North {task_id}")
    assert place.code.checkout.head == head
    assert len(place.host.ledger.read(lambda connection: jobs.of_task(connection, task_id))) == 1


def test_who_runs_from_the_same_checkout_is_watched_as_well_and_each_is_told_of_alone(both: Place) -> None:
    task_id, ended = both.update()
    both.chore.work(ended + SECOND)
    assert [(each.worker_id, each.asked_for) for each in both.bakes(task_id)] == [
        ("North", "North"),
        ("South", "North"),
    ]
    both.workers["South"] = DOWN
    both.chore.work(ended + TEN_MINUTES)
    assert [each.state for each in both.bakes(task_id)] == [B.WELL, B.DEGRADED]


def test_who_is_paused_or_removed_later_is_not_watched_any_more(both: Place) -> None:
    task_id, ended = both.update()
    both.chore.work(ended + SECOND)
    both.workers["North"] = WELL._replace(paused=True, reason="paused by bob")
    del both.workers["South"]
    both.chore.work(ended + SECOND + LOOK)
    assert [(each.state, each.reason) for each in both.bakes(task_id)] == [
        (B.ENDED, "paused by bob"),
        (B.ENDED, "it's no longer in the configuration"),
    ]


def test_a_newer_change_overtakes_and_is_watched_instead(place: Place) -> None:
    first, ended = place.update()
    place.chore.work(ended + SECOND)
    place.workers["North"] = DOWN
    second, later = place.did("rollback North 1")
    place.chore.work(later + LOOK)
    overtaken = place.bake(first)
    assert (overtaken.state, overtaken.reason) == (B.OVERTAKEN, "anna changed the code again (rollback)")
    assert place.bake(second).state is B.WATCHING


class Killed(BaseException):
    """As by `kill -9`."""


@pytest.mark.parametrize("point", ["bakes_t.watching:before", "bakes_t.watching:after"])
def test_killed_while_the_watch_began_it_begins_once(place: Place, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    task_id, ended = place.update()
    before = place.told(task_id)

    def killed(name: str) -> None:
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(crashpoints, "reach", killed)
        with pytest.raises(Killed):
            place.chore.work(ended + SECOND)
    for _ in range(2):
        place.another().work(ended + 2 * SECOND)
    assert place.bake(task_id).since == ended
    assert place.told(task_id) == before + 1


@pytest.mark.parametrize("point", ["bakes_t.degraded:before", "bakes_t.degraded:after"])
def test_killed_while_it_was_written_down_that_it_degraded_it_is_told_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    task_id, ended = place.update()
    place.chore.work(ended + SECOND)
    place.workers["North"], before = DOWN, place.told(task_id)

    def killed(name: str) -> None:
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(crashpoints, "reach", killed)
        with pytest.raises(Killed):
            place.chore.work(ended + TEN_MINUTES)
    for _ in range(2):
        place.another().work(ended + TEN_MINUTES)
    assert (place.bake(task_id).state, place.told(task_id)) == (B.DEGRADED, before + 1)


def test_one_that_ended_while_no_supervisor_ran_is_watched_for_what_is_left(place: Place) -> None:
    task_id, ended = place.update()
    place.another().work(ended + TEN_MINUTES - SECOND)
    assert place.bake(task_id).until == ended + TEN_MINUTES
    other, later = place.did("rollback North 1")
    place.another().work(later + TEN_MINUTES)
    assert place.bakes(other) == [], "its time was over"


def test_a_watch_that_nobody_kept_is_not_said_to_have_gone_well_or_ill(place: Place) -> None:
    task_id, ended = place.update()
    place.chore.work(ended + SECOND)
    place.workers["North"] = DOWN
    place.another().work(ended + timedelta(hours=8))
    assert place.bake(task_id).state is B.ENDED
    assert "no supervisor was running" in place.bake(task_id).reason
