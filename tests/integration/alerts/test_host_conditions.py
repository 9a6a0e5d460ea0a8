"""The host looks at itself: a real drive and ledger, and what people hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from bot.inbound import notices as heard
from supervisor_core.alerts import flips
from supervisor_core.alerts.host_conditions import HostConditions
from supervisor_core.alerts.rules import Alert, AlertState
from supervisor_core.commands.command import Outcome
from supervisor_core.common.service import Blocking
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.steps import take
from supervisor_core.workers.conditions import (
    COMMAND,
    DATABASE,
    LINK,
    SUPERVISOR,
    Condition,
    Outage,
    Target,
    TargetReading,
)
from supervisor_core.workers.context import DaemonContext, open_doors
from supervisor_core.workers.health import Heartbeat
from tests.support.alerts.alert_service import ANN, AlertDesk, an_alert_desk
from tests.support.storage.ledger_rows import alerts_of

HOST = "TestHost"


class Looking:
    """A host that looks at itself when it is told to, and the desk that hears of it."""

    def __init__(self, desk: AlertDesk) -> None:
        self.desk = desk
        self.trouble: Outage | None = None
        self.silent: dict[str, str] | None = None
        self.told: Callable[[], object] = lambda: None
        self.conditions = self.restart()

    def restart(self) -> HostConditions:
        """Another daemon."""
        parts = DaemonContext(open_doors(self.desk.config), self.desk.ledger)
        self.conditions = HostConditions(parts, Blocking(), self._observed, lambda: self.trouble, lambda: self.silent)
        return self.conditions

    def _observed(self, seen: Iterable[TargetReading]) -> None:
        self.desk.alerting.observe_all(seen)
        self.told()

    def look(self) -> list[str]:
        """Look, and have people told; what they heard."""
        self.desk.now = datetime.now(UTC)
        asyncio.run(self.conditions.look())
        self.desk.work()
        return self.desk.heard()

    def one(self, kind: str, name: str = HOST) -> Alert:
        """The newest alert about this part."""
        found = self.desk.ledger.read(lambda connection: alerts_of(connection, Target(kind, name)))
        return found[0]


@pytest.fixture
def looking(tmp_path: Path) -> Iterator[Looking]:
    with an_alert_desk(tmp_path) as desk:
        made = Looking(desk)
        assert made.look() == []
        yield made


def test_a_drive_that_is_not_there_is_told_of_until_it_is_there_again(looking: Looking) -> None:
    nas = looking.desk.folder / "nas"
    nas.rename(nas.with_name("elsewhere"))
    (line,) = looking.look()
    assert line.startswith("post: The drive of TestHost can't be reached: The drive isn't mounted")
    assert looking.look() == [], "it is as it was"
    looking.restart()
    assert looking.look() == []
    nas.with_name("elsewhere").rename(nas)
    (line,) = looking.look()
    assert line.startswith("edit: The drive of TestHost recovered after")


def test_the_database_and_other_supervisors_are_told_of_by_whoever_speaks_with_them(looking: Looking) -> None:
    since = datetime.now(UTC)
    looking.trouble, looking.silent = Outage("It refuses us", since), {"Other": "3 heartbeats are missing"}
    assert sorted(looking.look()) == [
        "post: Other is unresponsive: 3 heartbeats are missing",
        "post: The database of TestHost can't be reached: It refuses us",
    ]
    assert looking.one(DATABASE).opened_at == since
    looking.trouble, looking.silent = None, None
    looking.restart()
    (line,) = looking.look()
    assert line.startswith("edit: The database of TestHost recovered after")
    looking.silent = {}
    (line,) = looking.look()
    assert line.startswith("edit: Other recovered after")
    assert looking.one(SUPERVISOR, "Other").state is AlertState.CLOSED


def cut_off(connection: Connection, task_id: str, now: datetime) -> None:
    """A command whose program ended while it was under way."""
    new = jobs.NewJob(task_id, "North", "restart_watcher", {}, None, ANN, "slack", now)
    job = jobs.file(connection, HOST, new, now)
    assert job is not None
    for step in (jobs.claim(job, now), jobs.begin(job, now), jobs.interrupt(job, Outcome.failed("cut off"), now)):
        assert take(connection, HOST, step, now)


def test_a_command_that_was_cut_off_is_asked_about_until_somebody_has_seen_to_it(looking: Looking) -> None:
    desk = looking.desk
    desk.ledger.write(partial(cut_off, task_id="t1", now=datetime.now(UTC)))
    assert looking.look() == ["post: The command of North was interrupted: restart (t1): cut off"]
    looking.restart()
    assert looking.look() == []
    desk.alerts.acknowledge(looking.one(COMMAND, "North").alert_id, desk.request(), datetime.now(UTC))
    (line,) = looking.look()
    assert line.startswith("edit: The command of North recovered")
    assert looking.one(COMMAND, "North").state is AlertState.CLOSED
    assert looking.look() == []
    desk.ledger.write(partial(cut_off, task_id="t2", now=datetime.now(UTC)))
    assert looking.look() == ["post: The command of North was interrupted: restart (t2): cut off"]


def test_workers_that_share_a_wrong_clock_are_one_alert_of_the_host(looking: Looking) -> None:
    desk = looking.desk
    ahead = Heartbeat("running", datetime.now(UTC) + timedelta(hours=1))
    desk.now = datetime.now(UTC)
    statuses = [desk.status(name, heartbeat=ahead) for name in ("North", "South")]
    looking.conditions.see(statuses)
    asyncio.run(looking.conditions.look())
    desk.look(*statuses)
    lines = [line for line in desk.heard() if line.startswith("post")]
    assert lines == [lines[0]]
    assert lines[0].startswith("post: The clock of TestHost is wrong")
    parents = {desk.one(name).parent_id for name in ("North", "South")}
    assert parents == {looking.one("clock").alert_id}


def test_that_the_bot_was_deaf_is_kept_as_an_alert_that_is_over_and_told_once(looking: Looking) -> None:
    desk, begun = looking.desk, datetime.now(UTC) - timedelta(minutes=5)
    for ended in (begun + timedelta(minutes=1), begun + timedelta(minutes=1), begun + timedelta(minutes=3)):
        tell = partial(heard.notify_gap, channel="C0OPS", host=HOST, since=begun, until=ended, away=False)
        desk.ledger.write(tell)
    found = desk.ledger.read(lambda connection: alerts_of(connection, Target(LINK, HOST)))
    assert [(each.condition, each.state) for each in found] == [(Condition.DEAF, AlertState.CLOSED)] * 2
    desk.tell()
    assert len(desk.heard()) == 1
    said = desk.ledger.read(lambda connection: flips.current_condition(connection, HOST, Target(LINK, HOST)))
    assert said is not None
    assert said.condition is Condition.WELL


def test_a_worker_that_can_not_be_heard_has_the_drive_looked_at_at_once(looking: Looking) -> None:
    """The rounds of this host come every thirty seconds."""

    async def story() -> None:
        stopping, looks = asyncio.Event(), asyncio.Queue[None]()
        looking.told = lambda: looks.put_nowait(None)
        service = asyncio.create_task(looking.restart().run(stopping))
        try:
            async with asyncio.timeout(10):
                await looks.get()
                looking.conditions.see([looking.desk.status("North", heartbeat=None, heartbeat_known=False)])
                await looks.get()
        finally:
            stopping.set()
            await service

    asyncio.run(story())
