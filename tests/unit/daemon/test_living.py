"""The daemon's life on record: as what looks after the workers is, said where it can't be written, and tried again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast

import pytest
from sqlalchemy import Connection

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.daemon.services import life as living
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.life import BROKEN_SECONDS, LifeRecorder
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.teams import TeamManager
from tests.support.daemon.agents import NOW, Troubled, at_once, row_of
from tests.support.daemon.reconciliation import configured
from tests.unit.common.test_services import run

T = TypeVar("T")
HOST = "TestHost"
S = SupervisorStatus
FULL = LedgerUnavailable("The ledger can't be written: the disk is full.")
BROKEN = "queue_processor: it broke"


class Clock:
    """The clock by which it is known for how long something is broken."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class Unreadable(Troubled):
    """One that can't be read either, while that is said."""

    unread: Exception | None = None

    def read(self, look: Callable[[Connection], T]) -> T:
        if self.unread:
            raise self.unread
        return super().read(look)


class Scene:
    """A life over a real ledger that can be made to fail; what is broken is said by the test."""

    def __init__(self, folder: Path, ledger: Ledger, clock: Clock) -> None:
        self.folder = folder
        self.ledger = Unreadable(ledger)
        self.clock = clock
        self.broken = ""
        self.config = configured(folder, {"North": {"team": "archive"}})
        self.begin()

    def begin(self) -> None:
        """Another life of the same supervisor, in another process."""
        self.agent = SupervisorAgent(
            HOST, self.ledger, heartbeat_seconds=0, clock=lambda: NOW + timedelta(minutes=2), elsewhere=at_once
        )
        self.living = LifeRecorder(self.agent, cast("DaemonContext", SimpleNamespace(host=self)), lambda: self.broken)

    async def follow_after(self, seconds: float) -> SupervisorStatus:
        self.clock.seconds += seconds
        await self.living.follow()
        assert row_of(self.ledger, HOST).status is self.agent.status, "the row says the same"
        return self.agent.status

    def rests(self) -> bool:
        """Whether a plan would rest now."""
        return self.agent.monitoring_paused

    def members(self) -> dict[str, list[str]]:
        """Of each team, as the ledger has it."""
        teams = TeamManager(self.ledger, HOST)
        return {
            each.name: [m.agent_id for m in teams.get_team_members(each.team_id) if m.active]
            for each in teams.get_teams()
        }


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    clock = Clock()
    (tmp_path / "nas").mkdir()
    monkeypatch.setattr(living, "time", clock)
    monkeypatch.setattr(logging.getLogger("supervisor_core"), "propagate", True)
    with Ledger(tmp_path / LEDGER_FILE, HOST) as ledger:
        yield Scene(tmp_path, ledger, clock)


def test_one_that_begins_with_something_vital_broken_has_failed_and_is_active_once_that_is_well(scene: Scene) -> None:
    async def story() -> None:
        scene.broken = BROKEN
        await scene.living.spawn()
        assert await scene.follow_after(0) is S.FAILED
        assert scene.agent.reason == BROKEN
        assert await scene.follow_after(60) is S.FAILED, "it stays so without a word of an illegal move"
        assert scene.living.problem() == ""
        scene.broken = ""
        assert await scene.follow_after(5) is S.ACTIVE
        assert scene.agent.reason == ""

    run(story())


def test_one_that_somebody_had_paused_is_paused_again_once_it_is_well(scene: Scene) -> None:
    async def story() -> None:
        await scene.living.spawn()
        await scene.living.follow()
        await scene.agent.pause("paused by anna")
        scene.begin()
        scene.broken = BROKEN
        await scene.living.spawn()
        assert await scene.follow_after(0) is S.FAILED
        assert scene.agent.monitoring_paused
        scene.broken = ""
        assert await scene.follow_after(5) is S.PAUSED
        assert scene.agent.monitoring_paused

    run(story())


def test_an_active_one_fails_only_where_something_is_broken_for_long(scene: Scene) -> None:
    async def story() -> None:
        await scene.living.spawn()
        await scene.living.follow()
        scene.broken = BROKEN
        assert await scene.follow_after(5) is S.ACTIVE
        assert await scene.follow_after(BROKEN_SECONDS - 1) is S.ACTIVE
        scene.broken = ""
        assert await scene.follow_after(2) is S.ACTIVE
        scene.broken = BROKEN
        assert await scene.follow_after(BROKEN_SECONDS) is S.ACTIVE, "it is broken anew, and was well between"
        assert await scene.follow_after(BROKEN_SECONDS) is S.FAILED
        scene.broken = ""
        assert await scene.follow_after(5) is S.ACTIVE

    run(story())


def test_a_ledger_that_can_not_be_written_is_a_problem_and_is_tried_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        scene.ledger.away = FULL
        await scene.living.spawn()
        assert "disk is full" in scene.living.problem()
        for _ in range(3):
            await scene.living.follow()
        assert "disk is full" in scene.living.problem()
        assert scene.agent.status is S.SPAWNING
        scene.ledger.away = None
        assert await scene.follow_after(5) is S.ACTIVE
        assert scene.living.problem() == ""

    run(story())
    told = [each for each in caplog.records if "couldn't be recorded" in each.getMessage()]
    assert len(told) == 1, "the log says it once"
    assert not told[0].exc_info


def test_an_earlier_lifes_pause_is_known_also_where_this_life_can_not_be_written_down(scene: Scene) -> None:
    async def story() -> None:
        await scene.living.spawn()
        await scene.living.follow()
        await scene.agent.pause("paused by anna")
        scene.begin()
        assert not scene.rests(), "nobody has looked yet"
        scene.ledger.away = FULL
        await scene.living.spawn()
        assert scene.rests()
        scene.ledger.away = None
        assert await scene.follow_after(5) is S.PAUSED

    run(story())


def test_teams_are_brought_into_line_again_where_that_failed_and_for_the_newest_configuration_only(
    scene: Scene,
) -> None:
    async def story() -> None:
        await scene.living.spawn()
        await scene.living.follow()
        assert scene.members() == {"archive": ["North"]}
        scene.ledger.away = FULL
        scene.config = configured(scene.folder, {"North": {}, "South": {"team": "archive"}})
        await scene.living.follow()
        assert "disk is full" in scene.living.problem()
        scene.config = configured(scene.folder, {"North": {}, "West": {"team": "archive"}})
        await scene.living.follow()
        scene.ledger.away = None
        await scene.living.follow()
        assert scene.members() == {"archive": ["West"]}
        teams = TeamManager(scene.ledger, HOST)
        (team,) = teams.get_teams()
        assert "South" not in {each.agent_id for each in teams.get_team_history(team.team_id)}
        writes = scene.ledger.writes
        await scene.living.follow()
        assert scene.ledger.writes == writes, "what is in line is not written again"

    run(story())
