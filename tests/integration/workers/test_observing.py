"""A look at workers whose drive is there, hangs or is away; and what is said of a job that a crash cut off."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.code.recovery import report_interrupted
from supervisor_core.commands.command import Issuer
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.processes.records import record_path
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.health import Health
from supervisor_core.workers.heartbeats.files import heartbeat_path
from supervisor_core.workers.observation import DRIVE_SECONDS, observe_workers
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import start_watcher
from tests.support.configurations import configured
from tests.support.waiting import wait_until

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)


@pytest.fixture
def host(tmp_path: Path) -> HostContext:
    (tmp_path / "nas" / "00_STATE").mkdir(parents=True)
    return open_doors(configured(tmp_path, ("OrionMX", "West")))


@pytest.fixture
def ledger(host: HostContext) -> Iterator[Ledger]:
    with opened_ledger(host.config) as made:
        yield made


def seen(host: HostContext) -> WorkerStatus:
    return observe_workers(host, [host.config.worker("OrionMX")])[0]


def beat_file(host: HostContext) -> Path:
    return heartbeat_path(host.config.folder("state"), "OrionMX")


def test_with_the_drive_away_what_is_known_at_home_is_said(host: HostContext, ledger: Ledger) -> None:
    host.pauses.set("OrionMX", Pause("cli:anna"))
    root = host.config.drive_root
    root.rename(root.with_name("away"))
    found = seen(host)
    assert (found.pause, found.heartbeat_known) == (Pause("cli:anna"), False)
    assert not root.exists()


def test_with_a_drive_that_hangs_a_look_takes_about_a_second_and_the_next_none(
    host: HostContext, ledger: Ledger
) -> None:
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        host.drive.call(release.wait, timeout=0.02)
    begun = time.monotonic()
    assert not seen(host).heartbeat_known
    assert time.monotonic() - begun < DRIVE_SECONDS + 0.5
    release.set()


def a_job(ledger: Ledger, task_id: str, worker_id: str, state: JobState) -> None:
    new = jobs.NewJob(task_id, worker_id, "pause", {}, "hotfix", Issuer("cli:anna", "anna"), "cli", NOW)
    job = ledger.write(lambda connection: jobs.file(connection, "TestHost", new, NOW))
    assert job is not None
    for reached, step in ((JobState.CLAIMED, jobs.claim(job, NOW)), (JobState.STARTED, jobs.begin(job, NOW))):
        if state in (reached, JobState.STARTED):
            assert ledger.step(step)


def states(ledger: Ledger) -> dict[str, JobState]:
    found = ledger.read(lambda connection: jobs.waiting(connection, ["OrionMX", "West"], tuple(JobState)))
    return {job.task_id: job.state for job in found}


def test_what_was_started_is_reported_as_interrupted_once_and_all_else_is_left(
    host: HostContext, ledger: Ledger
) -> None:
    for task_id, worker_id, state in (
        ("queued", "OrionMX", JobState.QUEUED),
        ("claimed", "OrionMX", JobState.CLAIMED),
        ("started", "OrionMX", JobState.STARTED),
        ("other", "West", JobState.STARTED),
    ):
        a_job(ledger, task_id, worker_id, state)
    before = states(ledger)
    for _ in range(2):
        report_interrupted(host, ledger, ["OrionMX"])
        assert states(ledger) == {**before, "started": JobState.INTERRUPTED}
    (row,) = ledger.read(lambda connection: search(connection, AuditFilter()))
    assert (row["action"], row["outcome"], row["task_id"]) == ("PAUSE", "interrupted", "started")
    assert row["label"] == "anna - hotfix"
    details = json.loads(row["details_json"])
    assert "isn't run again" in details["error"]
    assert details["result"] == {"interrupted": True, "paused": False, "pid": None}
    due = ledger.read(lambda c: outbox.due_messages(c, jobs.RESULT_FILE, datetime.now(UTC) + timedelta(days=1)))
    assert [message.payload["task_id"] for message in due] == ["started"]


def test_a_secret_that_a_worker_repeats_is_seen_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "nas" / "00_STATE").mkdir(parents=True)
    worker = {"command": ["{python}", "-V"], "env": {"API_KEY": "correct-horse-battery"}}
    document = {
        "supervisor": {"state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {"OrionMX": worker},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    host = open_doors(load_supervisor_config(tmp_path / "config.yaml"))
    words = "401 for key correct-horse-battery"
    beat_file(host).write_text(json.dumps({"status": words, "error": words, "hostname": words}))
    beat = seen(host).heartbeat
    assert beat is not None
    assert "****" in beat.error
    assert "correct-horse-battery" not in f"{beat}{json.dumps(seen(host).as_json())}"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[HostContext]:
    """A host whose worker sleeps, and is real."""
    (tmp_path / "nas" / "00_STATE").mkdir(parents=True)
    command = ["{python}", "-c", "import time; time.sleep(600)"]
    settings = {"command": command, "start_grace_seconds": 0}
    document = {
        "supervisor": {"state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {"OrionMX": settings},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    host = open_doors(load_supervisor_config(tmp_path / "config.yaml"))
    with opened_ledger(host.config):
        yield host
        host.processes.stop("OrionMX", timeout=5)


def a_beat(host: HostContext, **words: Any) -> None:
    beat_file(host).write_text(json.dumps({"status": "running", "utc": datetime.now(UTC).isoformat(), **words}))


def test_a_real_worker_that_is_stopped_by_a_signal_is_frozen_and_hangs(sleeper: HostContext) -> None:
    host = sleeper
    identity = start_watcher(host, host.config.worker("OrionMX"))
    a_beat(host)
    assert seen(host).hangs == ""
    os.kill(identity.pid, signal.SIGSTOP)
    wait_until(lambda: seen(host).frozen_seconds is not None, message="the kernel says stopped")
    note = host.config.state_dir / "workers" / "OrionMX.frozen"
    earlier = json.loads(note.read_text())
    note.write_text(json.dumps({**earlier, "since": earlier["since"] - 60}))
    assert seen(host).verdict.health is Health.FROZEN
    assert "stopped by a signal" in seen(host).hangs
    os.kill(identity.pid, signal.SIGCONT)
    wait_until(lambda: seen(host).verdict.health is Health.HEALTHY, message="it goes on")


def test_a_new_process_is_not_judged_by_the_last_words_of_the_one_before(sleeper: HostContext) -> None:
    host = sleeper
    a_beat(host, status="broken", error="out of memory", pid=1)
    start_watcher(host, host.config.worker("OrionMX"))
    assert seen(host).verdict.reason == "waiting for its first heartbeat"
    a_beat(host, pid=1)
    assert seen(host).verdict.health is Health.HEALTHY, "of a child of it, perhaps"
    assert "heartbeat 0 s ago" in seen(host).verdict.reason


def test_where_nobody_put_the_start_on_record_the_kernel_knows_it(sleeper: HostContext) -> None:
    host = sleeper
    a_beat(host, status="broken", utc=(datetime.now(UTC) - timedelta(seconds=5)).isoformat())
    start_watcher(host, host.config.worker("OrionMX"))
    path = record_path(host.config.state_dir, "OrionMX")
    path.write_text(json.dumps({**json.loads(path.read_text()), "started_at": ""}))
    started = seen(host).started_at
    assert started is not None
    assert abs(datetime.now(UTC) - started) < timedelta(seconds=60)
    assert "first heartbeat" in seen(host).verdict.reason
