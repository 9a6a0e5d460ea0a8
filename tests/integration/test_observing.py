"""A look at workers whose drive is there, hangs or is away; and what is said of a job that a crash cut off."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.heartbeats import heartbeat_path
from supervisor_core.adapters.pauses import Pause
from supervisor_core.config import load_supervisor_config
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.health import Health, WorkerState
from supervisor_core.domain.jobs import JobState
from supervisor_core.handlers.context import Host
from supervisor_core.ledger import audit, jobs, outbox
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.host import opened_ledger
from supervisor_core.runtime.observing import DRIVE_SECONDS, Seen, look
from supervisor_core.runtime.recovery import report_interrupted

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
HOSTILE = [b"", b"{", b"[]", b"\xff", b"[" * 10**5]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "nas" / "00_STATE").mkdir(parents=True)
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var"},
        "nas": {"root": "nas"},
        "workers": {name: {"command": ["{python}", "-V"]} for name in ("OrionMX", "West")},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    return open_doors(load_supervisor_config(tmp_path / "config.yaml"))


@pytest.fixture
def ledger(host: Host) -> Iterator[Ledger]:
    with opened_ledger(host.config) as made:
        yield made


def seen(host: Host) -> Seen:
    return look(host, [host.config.worker("OrionMX")])[0]


def beat_file(host: Host) -> Path:
    return heartbeat_path(host.config.folder("state"), "OrionMX")


def test_a_worker_that_does_not_run_is_missing_or_rests(host: Host, ledger: Ledger) -> None:
    assert (seen(host).verdict.health, seen(host).observation.state) == (Health.MISSING, WorkerState.STOPPED)
    host.pauses.set("OrionMX", Pause("cli:anna", "2026-02-05T14:30:15Z", "anna - hotfix"))
    document = seen(host).as_json()
    assert (document["paused"], document["fine"], document["pid"]) == (True, True, None)
    assert document["reason"] == "paused by anna - hotfix since 2026-02-05 14:30 UTC"
    json.dumps(document)


def test_a_quarantined_worker_is_not_missing_and_says_why_it_rests(host: Host, ledger: Ledger) -> None:
    host.config.path.write_text(host.config.path.read_text().replace("OrionMX:", "OrionMX:\n    quarantined: true"))
    host = open_doors(load_supervisor_config(host.config.path))
    document = seen(host).as_json()
    assert (document["state"], document["health"], document["fine"]) == ("quarantined", "unknown", True)
    assert (document["reason"], seen(host).in_words()) == ("quarantined in the configuration", "quarantined")
    host.pauses.set("OrionMX", Pause("cli:anna"))
    assert seen(host).as_json()["reason"] == "paused by cli:anna; quarantined in the configuration"
    assert seen(host).in_words() == "quarantined and paused"


@pytest.mark.parametrize("content", HOSTILE)
def test_no_heartbeat_file_breaks_the_look(host: Host, ledger: Ledger, content: bytes) -> None:
    beat_file(host).write_bytes(content)
    assert seen(host).verdict.health is Health.MISSING
    assert seen(host).verdict.reason.isprintable()


def test_with_the_drive_away_what_is_known_at_home_is_said(host: Host, ledger: Ledger) -> None:
    host.pauses.set("OrionMX", Pause("cli:anna"))
    root = host.config.nas.root
    root.rename(root.with_name("away"))
    found = seen(host)
    assert (found.pause, found.observation.heartbeat_known) == (Pause("cli:anna"), False)
    assert not root.exists()


def test_with_a_drive_that_hangs_a_look_takes_about_a_second_and_the_next_none(host: Host, ledger: Ledger) -> None:
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        host.drive.call(release.wait, timeout=0.02)
    begun = time.monotonic()
    assert not seen(host).observation.heartbeat_known
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


def test_what_was_started_is_reported_as_interrupted_once_and_all_else_is_left(host: Host, ledger: Ledger) -> None:
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
    (row,) = ledger.read(lambda connection: audit.search(connection, audit.AuditFilter()))
    assert (row["action"], row["outcome"], row["task_id"]) == ("PAUSE", "interrupted", "started")
    assert row["label"] == "anna - hotfix"
    details = json.loads(row["details_json"])
    assert "not run again" in details["error"]
    assert details["result"] == {"interrupted": True, "paused": False, "pid": None}
    due = ledger.read(lambda c: outbox.due(c, jobs.RESULT_FILE, datetime.now(UTC) + timedelta(days=1)))
    assert [message.payload["task_id"] for message in due] == ["started"]


def test_a_secret_that_a_worker_repeats_is_seen_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "nas" / "00_STATE").mkdir(parents=True)
    worker = {"command": ["{python}", "-V"], "env": {"API_KEY": "correct-horse-battery"}}
    document = {"supervisor": {"state_dir": "var"}, "nas": {"root": "nas"}, "workers": {"OrionMX": worker}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    host = open_doors(load_supervisor_config(tmp_path / "config.yaml"))
    words = "401 for key correct-horse-battery"
    beat_file(host).write_text(json.dumps({"status": words, "error": words, "hostname": words}))
    beat = seen(host).observation.heartbeat
    assert beat is not None
    assert "****" in beat.error
    assert "correct-horse-battery" not in f"{beat}{json.dumps(seen(host).as_json())}"
