"""Monitoring paused and resumed: written down with who asked, in one transaction; meanwhile nothing is started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from supervisor_core.commands.command import Issuer
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.monitoring import MonitoringSwitch
from supervisor_core.storage import supervisors
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.storage.tables import audit_log
from tests.support.daemon.agents import Troubled, at_once
from tests.support.daemon.reconciliation import World, a_world, until

ANNA = Issuer("cli:anna", "anna")
PAUSED, RESUMED = "MUTED", "UNMUTED"  # as the audit trail calls them
MINUTE_SECONDS = 60.0
SOON_SECONDS = 1.0


class Scene:
    """A supervisor with its agent; the next life of both is made by `follow`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Troubled(world.parts.ledger)
        self.follow()

    def follow(self) -> None:
        self.agent = SupervisorAgent("TestHost", self.ledger, heartbeat_seconds=0, elsewhere=at_once)
        self.door = MonitoringSwitch(self.agent, self._plan_again)
        # What the daemon gives its reconciler.
        self.world.rests = lambda: self.agent.rests

    def _plan_again(self) -> None:
        self.world.reconciler.plan_again()

    async def begin(self) -> None:
        """As the daemon does: on record first, then the services, then active."""
        await self.agent.spawn()
        await self.world.reconciler.start()
        await self.agent.start()
        self.world.reconciler.plan_again()

    def rows(self) -> list[tuple[str, str, str]]:
        """Who did what to which supervisor, by the audit trail."""
        columns = audit_log.c
        query = select(columns.actor, columns.action, columns.target_id).order_by(columns.audit_id)
        return self.ledger.read(lambda connection: [(str(a), str(b), str(c)) for a, b, c in connection.execute(query)])

    @property
    def status(self) -> SupervisorStatus:
        row = self.ledger.read(lambda connection: supervisors.find(connection, "TestHost"))
        assert row is not None
        return row.status


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with a_world(tmp_path, monkeypatch, North={"restart": {"policy": "always"}}, South={}) as world:
        yield Scene(world)


def refuse_audit_rows(scene: Scene) -> None:
    """From now on the ledger takes none."""
    words = "CREATE TRIGGER refusing BEFORE INSERT ON audit_log_t BEGIN SELECT RAISE(ABORT, 'not here'); END"
    scene.ledger.write(lambda connection: connection.exec_driver_sql(words))


def test_a_pause_and_its_end_are_written_down_with_who_asked(scene: Scene) -> None:
    async def story() -> None:
        await scene.begin()
        said = await scene.door(True, ANNA)
        assert "Monitoring is paused" in said
        assert (scene.status, scene.rows()) == ("PAUSED", [("cli:anna", PAUSED, "TestHost")])
        assert "anna" in scene.agent.reason
        said = await scene.door(False, ANNA)
        assert "active again" in said
        assert (scene.status, scene.rows()[1:]) == ("ACTIVE", [("cli:anna", RESUMED, "TestHost")])

    scene.world.run(story())


def test_where_its_audit_row_can_not_be_written_nothing_has_changed(scene: Scene) -> None:
    async def story() -> None:
        await scene.begin()
        refuse_audit_rows(scene)
        with pytest.raises(Exception, match="not here"):
            await scene.door(True, ANNA)
        assert (scene.status, scene.agent.status, scene.rows()) == ("ACTIVE", "ACTIVE", [])
        assert not scene.agent.rests

    scene.world.run(story())


def test_where_the_move_can_not_be_written_there_is_no_audit_row(scene: Scene) -> None:
    async def story() -> None:
        await scene.begin()
        scene.ledger.away = OSError("no space left")
        with pytest.raises(OSError, match="no space"):
            await scene.door(True, ANNA)
        scene.ledger.away = None
        assert (scene.status, scene.agent.status, scene.rows()) == ("ACTIVE", "ACTIVE", [])

    scene.world.run(story())


@pytest.mark.parametrize("rest", [True, False])
def test_asked_for_again_it_says_so_and_changes_and_writes_nothing(scene: Scene, rest: bool) -> None:
    async def story() -> None:
        await scene.begin()
        if rest:
            await scene.door(True, ANNA)
        before, status = scene.rows(), scene.status
        said = await scene.door(rest, Issuer("cli:ben", "ben"))
        assert "Monitoring is already" in said
        assert (scene.rows(), scene.status) == (before, status)

    scene.world.run(story())


def test_the_door_answers_in_words_and_names_who_asked(scene: Scene) -> None:
    async def story() -> None:
        await scene.begin()
        answer = await scene.door.answer({"rest": True, "user": "anna"})
        assert answer["ok"]
        assert "paused" in answer["message"]
        await scene.door.answer({"rest": False})
        assert [row[0] for row in scene.rows()] == ["cli:anna", "cli:?"]

    scene.world.run(story())


def test_while_it_rests_nothing_is_started_stopped_or_restarted_and_commands_go_on(scene: Scene) -> None:
    world = scene.world

    async def story() -> None:
        await scene.begin()
        await until(lambda: world.runs("North", "South"))
        await until(lambda: world.state("North") == world.state("South") == "running")
        await scene.door(True, ANNA)
        old = world.pid("South")
        world.adapter.die("North")
        world.configure(North={}, South={"command": ["sleep", "2"]}, West={})
        await asyncio.sleep(MINUTE_SECONDS)
        assert world.state("North") == "stopped", "what happens is seen all the same"
        assert (world.pid("North"), world.pid("South"), world.pid("West")) == (None, old, None)
        world.configure(North={}, West={})
        await asyncio.sleep(MINUTE_SECONDS)
        assert world.pid("South") == old
        task = world.send("resume", "North")
        await until(lambda: world.job(task).outcome is not None)
        assert world.runs("North")
        await scene.door(False, ANNA)
        await until(lambda: world.runs("North", "West") and not world.runs("South"), "all is caught up", SOON_SECONDS)

    world.run(story())


def test_killed_while_it_rests_the_next_one_rests_from_its_first_moment(scene: Scene) -> None:
    world = scene.world

    async def story() -> None:
        await scene.begin()
        await until(lambda: world.state("North") == "running")
        await scene.door(True, ANNA)
        again = await world.killed()
        world.processes.die("North", 1)
        scene.follow()
        await scene.agent.spawn()
        await again.start()
        await asyncio.sleep(MINUTE_SECONDS)  # another service takes long to come up
        assert not world.runs("North")
        await scene.agent.start()
        again.plan_again()
        await asyncio.sleep(MINUTE_SECONDS)
        assert scene.status == "PAUSED"
        assert not world.runs("North")
        await scene.door(False, ANNA)
        await until(lambda: world.runs("North"), "it is caught up", 100)

    world.run(story())
