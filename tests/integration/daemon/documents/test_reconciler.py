"""The reconciler in a program of its own, as the requirement document constructs it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from supervisor_core import ConfigService, FakeWorkerAdapter, Reconciler, load_supervisor_config
from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger, prepare_state_dir
from supervisor_core.daemon.ownership import AlreadyRunningError, daemon_ownership
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.jobs.rows import NewJob
from supervisor_core.workers.adapter import ProcessWorkerAdapter, WorkerEnded
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.daemon.reconciliation import until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def configured(folder: Path, workers: Mapping[str, Mapping[str, Any]], **settings: Any) -> SupervisorConfig:
    usual = {"command": SLEEP, "start_grace_seconds": 0.1, "heartbeat_max_age_seconds": 0}
    document = {
        "supervisor": {"id": "TestHost", **settings.get("supervisor", {})},
        "workers": {name: {**usual, **said} for name, said in workers.items()},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    return load_supervisor_config(folder / "config.yaml")


def test_a_configuration_from_code_is_followed(tmp_path: Path) -> None:
    async def story() -> None:
        config_service = ConfigService(configured(tmp_path, {"North": {}}))
        reconciler = Reconciler(config_service, FakeWorkerAdapter())
        await reconciler.start()
        await until(lambda: reconciler.current_snapshot().workers["North"].connected)
        config_service.apply(configured(tmp_path, {"South": {}}))
        await until(lambda: list(reconciler.current_snapshot().workers) == ["South"], "North is removed")
        await until(lambda: reconciler.current_snapshot().workers["South"].connected)
        await reconciler.stop()
        await reconciler.start()
        assert reconciler.current_snapshot().workers["South"].connected, "it can be started again"
        await reconciler.stop()

    asyncio.run(story())


def test_a_changed_file_is_followed(tmp_path: Path) -> None:
    async def story() -> None:
        config_service = ConfigService(configured(tmp_path, {"North": {}}))
        reconciler = Reconciler(config_service, FakeWorkerAdapter())
        await config_service.start()
        await reconciler.start()
        configured(tmp_path, {"North": {"enabled": False}})
        await until(lambda: not reconciler.current_snapshot().workers["North"].enabled, "it is seen")
        await reconciler.stop()
        await config_service.stop()

    asyncio.run(story())


def test_a_command_that_waits_in_the_ledger_is_carried_out(tmp_path: Path) -> None:
    config = configured(tmp_path, {"North": {}}, supervisor={"reconcile_seconds": 0.2})
    now = datetime.now(UTC)
    new = NewJob("t1", "North", "pause", {}, None, Issuer("cli:anna", "anna"), "cli", now)

    async def story() -> None:
        reconciler = Reconciler(ConfigService(config), FakeWorkerAdapter())
        await reconciler.start()
        await until(lambda: reconciler.current_snapshot().workers["North"].connected)
        with opened_ledger(config) as ledger:
            ledger.write(lambda connection: jobs.file(connection, "TestHost", new, now))
        await until(lambda: reconciler.current_snapshot().workers["North"].desired.paused, "it's paused")
        assert not reconciler.current_snapshot().workers["North"].connected
        await reconciler.stop()

    asyncio.run(story())


def test_a_second_start_waits_for_a_fresh_look_and_reports_what_another_owner_left_behind(tmp_path: Path) -> None:
    config = configured(tmp_path, {"North": {}})
    now = datetime.now(UTC)
    new = NewJob("t1", "North", "pause", {}, None, Issuer("cli:anna", "anna"), "cli", now)

    async def story() -> None:
        reconciler = Reconciler(ConfigService(config), FakeWorkerAdapter())
        await reconciler.start()
        await reconciler.stop()
        with opened_ledger(config) as ledger:
            job = ledger.write(lambda connection: jobs.file(connection, "TestHost", new, now))
            assert job is not None
            assert ledger.step(jobs.claim(job, now))
            (job,) = ledger.read(lambda connection: jobs.of_task(connection, "t1"))
            assert ledger.step(jobs.begin(job, now))
        again_at = datetime.now(UTC)
        await reconciler.start()
        assert reconciler.current_snapshot().taken_at >= again_at
        await reconciler.stop()
        with opened_ledger(config) as ledger:
            (job,) = ledger.read(lambda connection: jobs.of_task(connection, "t1"))
        assert job.state is JobState.INTERRUPTED

    asyncio.run(story())


class DeafAdapter(FakeWorkerAdapter):
    """Can't report the ends of workers."""

    def subscribe(self, heard: Callable[[WorkerEnded], None]) -> NoReturn:
        raise SupervisorError("on purpose")


def test_a_start_that_fails_is_an_error_and_leaves_the_state_folder_to_others(tmp_path: Path) -> None:
    async def story() -> None:
        config_service = ConfigService(configured(tmp_path, {"North": {}}))
        async with asyncio.timeout(10):
            with pytest.raises(SupervisorError, match="on purpose"):
                await Reconciler(config_service, DeafAdapter()).start()
        other = Reconciler(config_service, FakeWorkerAdapter())
        await other.start()
        await other.stop()

    asyncio.run(story())


def test_a_second_owner_is_refused_and_a_next_one_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        config_service = ConfigService(configured(tmp_path, {"North": {}}))
        one, other = (Reconciler(config_service, FakeWorkerAdapter()) for _ in range(2))
        await one.start()
        with pytest.raises(AlreadyRunningError):
            await other.start()
        await one.stop()
        await other.start()
        await other.stop()

    asyncio.run(story())


def test_without_an_adapter_workers_are_processes_that_outlive_the_program(tmp_path: Path) -> None:
    config = configured(tmp_path, {"North": {}})
    prepare_state_dir(config)
    adapter = ProcessWorkerAdapter(DaemonContext(open_doors(config)))
    adapter.add(config.worker("North"))

    async def story() -> None:
        reconciler = Reconciler(ConfigService(config))
        with daemon_ownership(config.state_dir), pytest.raises(AlreadyRunningError):
            await reconciler.start()
        await reconciler.start()
        await until(lambda: reconciler.current_snapshot().workers["North"].connected)
        await reconciler.stop()

    try:
        asyncio.run(story())
        assert adapter.state("North").identity is not None
    finally:
        assert adapter.stop("North").stopped
        adapter.close()


def test_the_words_of_the_document_do(tmp_path: Path) -> None:
    """Its constructor with a logger, the mock adapter, the events of the first workers, and the names of a state."""

    async def story() -> None:
        config_service = ConfigService(configured(tmp_path, {"North": {}, "South": {"enabled": False}}))
        adapter = FakeWorkerAdapter()
        reconciler = Reconciler(config_service, adapter, logging.getLogger("mine"))
        events = reconciler.subscribe(["worker.added"])
        await reconciler.start()
        added = [await asyncio.wait_for(anext(events), 5) for _ in range(2)]
        assert {(event.type, event.entity_id) for event in added} == {
            ("worker.added", "North"),
            ("worker.added", "South"),
        }
        await until(lambda: reconciler.current_snapshot().servers["North"].connected)
        config_service.apply(configured(tmp_path, {"North": {"command": [*SLEEP, "again"]}, "South": {}}))
        await until(lambda: adapter.done("North") == ["start", "stop", "start"], "the changed command restarts it")
        await until(lambda: reconciler.current_snapshot().servers["North"].desired_version == 2)
        state = reconciler.current_snapshot().servers["North"]
        assert (state.name, state.enabled, state.quarantined, state.connected) == ("North", True, False, True)
        assert state.config is not None
        assert state.config.command[-1] == "again"
        assert state.connection_info["pid"]
        assert state.last_seen is not None
        assert state.last_reconcile is not None
        assert (state.tool_count, state.desired_version) == (0, 2)
        assert state.reconcile_count >= 2
        await reconciler.stop()
        assert events.closed

    asyncio.run(story())
