"""What `why` gathers of a host: the kernel's count, a drive that hangs, who paused monitoring, a neighbour's change of
the code, lines without secrets; each from the real ledger and the real files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs
from sqlalchemy import Connection

from supervisor_core.alerts.actions import AlertRequest, AlertService
from supervisor_core.alerts.flips import ConditionChange, record_flips
from supervisor_core.code.watch import service as bakes
from supervisor_core.code.watch.rules import Bake
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.commands.phrases import plain
from supervisor_core.common.times import to_text
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.monitoring import set_monitoring
from supervisor_core.diagnosis.why.gathering import Explainer
from supervisor_core.diagnosis.why.model import Cause, Explanation
from supervisor_core.host import disks as memory_kills
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.rows import NewJob
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Condition, Target
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.restarts.history import RestartHistory
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason
from tests.support.daemon.agents import at_once
from tests.support.intake.handler_hosts import FakeHost

NOW = datetime.now(UTC)
REST = RestartDecision(Next.REST, RestartReason.POLICY_NEVER, "not started again")
SECRET = "hunter2-of-anna"


@pytest.fixture
def place(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path, env={"API_TOKEN": SECRET})


@pytest.fixture
def ledger(place: FakeHost) -> Iterator[Ledger]:
    with opened_ledger(place.host.config) as made:
        yield made


def explained(place: FakeHost, ledger: Ledger) -> Explanation:
    looked = observe_workers(place.host, list(place.host.config.workers.values()))
    (told,) = Explainer(ledger)(place.host, looked, [seen.as_json() for seen in looked], ("OrionMX",))
    return told


def dies(place: FakeHost, code: int, ago: float = 60.0) -> None:
    """It ended by itself, as the daemon notes it."""
    past, record = RestartHistory(place.host.config.state_dir, "OrionMX"), WorkerRecord("OrionMX", "g1", RUNNING)
    past.ended(record._replace(started_at=(NOW - timedelta(seconds=ago + 30)).isoformat()), code, NOW)
    past.decided(REST)


@pytest.mark.parametrize(("killed", "cause"), [(1, Cause.OUT_OF_MEMORY), (0, Cause.KILLED)])
def test_a_kill_for_lack_of_memory_is_known_by_the_kernel_s_count(
    place: FakeHost, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, killed: int, cause: Cause
) -> None:
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(memory_kills, "VMSTAT", vmstat)
    vmstat.write_text("oom_kill 7\n")
    record = WorkerRecord("OrionMX", "g1", RUNNING, started_at=NOW.isoformat())
    RestartHistory(place.host.config.state_dir, "OrionMX").began(record, NOW, asked=True)
    vmstat.write_text(f"oom_kill {7 + killed}\n")
    dies(place, -9)
    told = explained(place, ledger)
    assert told.cause is cause
    assert plain(told.before[-1].words).startswith("crashed (SIGKILL)")


def test_a_drive_that_hangs_is_named_and_nobody_waits_for_the_log_on_it(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "host").mkdir()
    place = FakeHost(tmp_path / "host", log_file="nas/own.log")
    (place.nas / "own.log").write_text("ERROR never read\n")
    dies(place, 1)
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        place.host.drive.call(release.wait, timeout=0.02)
    told = explained(place, ledger)
    release.set()
    assert told.cause is Cause.DRIVE_AWAY
    assert "hangs" in plain(told.found.todo)
    assert told.lines == ()
    assert "it's on the shared drive" in told.unknown[0]


def test_who_paused_monitoring_is_named(place: FakeHost, ledger: Ledger) -> None:
    async def paused() -> None:
        agent = SupervisorAgent("TestHost", ledger, elsewhere=at_once)
        await agent.spawn()
        await agent.start()
        await set_monitoring(agent, lambda: None, Issuer("slack:T0/U0ANNA", "Anna"), paused=True)

    asyncio.run(paused())
    told = explained(place, ledger)
    assert told.cause is Cause.MONITORING_PAUSED
    assert "monitoring is paused by Anna since" in plain(told.found.sentence)
    assert [each.name for each in told.found.remedies] == ["monitoring resume", "restart"]


def test_who_mutes_a_worker_that_has_its_supervisor_s_name_has_not_paused_monitoring(tmp_path: Path) -> None:
    place = FakeHost(tmp_path, "OrionMX")

    async def paused(ledger: Ledger) -> None:
        agent = SupervisorAgent("OrionMX", ledger, elsewhere=at_once)
        await agent.spawn()
        await agent.start()
        await set_monitoring(agent, lambda: None, Issuer("slack:T0/U0ANNA", "Anna"), paused=True)

    with opened_ledger(place.host.config) as ledger:
        asyncio.run(paused(ledger))
        AlertService(ledger).mute(["OrionMX"], 60, AlertRequest(Issuer("slack:T0/U0BOB", "Bob"), "slack", "task_1"))
        assert "monitoring is paused by Anna since" in plain(explained(place, ledger).found.sentence)


def test_a_change_of_the_code_by_a_neighbour_s_command_is_taken_back_by_its_name(
    place: FakeHost, ledger: Ledger
) -> None:
    begun = NOW - timedelta(minutes=5)
    new = NewJob("task_1", "North", "update_code", {}, None, Issuer("cli:bob", "bob"), "cli", begun)

    def changed(connection: Connection) -> None:
        job = jobs.file(connection, "TestHost", new, begun)
        assert job is not None
        for step in (
            jobs.claim(job, begun),
            jobs.begin(job, begun),
            jobs.finish(job, Outcome.done(before="a" * 40, after="b" * 40), begun, 1.0),
        ):
            assert take(connection, "TestHost", step, begun)
        until = begun + timedelta(minutes=10)
        bakes.insert_bake(connection, Bake("task_1", "OrionMX", "TestHost", "North", begun, until), begun)

    ledger.write(changed)
    dies(place, 1)
    told = explained(place, ledger)
    assert told.cause is Cause.DEPLOY
    assert "the update by bob" in plain(told.found.sentence)
    assert "(shared with North)" in plain(told.found.todo)
    (undo,) = told.found.remedies
    assert (undo.name, undo.target, undo.params["task_id"]) == ("undo", "North", "task_1")


def test_a_hub_explains_its_own_worker_by_its_own_rows(place: FakeHost, ledger: Ledger) -> None:
    """A host may have a worker of the same name."""
    fleet = structs.replace(place.host.config.fleet, role="hub")
    place.host = replace(place.host, config=structs.replace(place.host.config, fleet=fleet))
    changes = [ConditionChange(Target(WORKER, "OrionMX"), None, Condition.DOWN, "out of paper", NOW)]
    applied = {"changes": ["OrionMX: command"], "begun_at": to_text(NOW)}
    entry = AuditEntry("cli:eve", "CONFIG_APPLIED", "OrionMX", task_id="task_config", details=applied)

    def report(connection: Connection) -> None:
        record_flips(connection, "web-1", changes, NOW)
        chain.append(connection, "web-1", entry, NOW)

    ledger.write(report)
    dies(place, 3)
    said = str(explained(place, ledger))
    assert "out of paper" not in said
    assert "cli:eve" not in said
