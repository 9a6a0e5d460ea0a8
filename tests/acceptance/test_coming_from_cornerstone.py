"""The move from Cornerstone Archive, with its old supervisor and its watcher running: docs/reference/coming-from/."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.daemon.archives import WORKER, Archive, an_archive
from tests.support.homes import ROOT


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with an_archive(tmp_path) as made:
        yield made


PAGE = ROOT / "docs" / "reference" / "coming-from-cornerstone-archive.md"


def blocks() -> list[list[str]]:
    """The commands of each console block of the page."""
    found = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [[line.strip().removeprefix("$ ") for line in block.splitlines() if line.strip()] for block in found]


def worker(archive: Archive) -> dict[str, object]:
    (found,) = archive.json("status")["workers"]
    assert isinstance(found, dict)
    return found


def test_the_move_keeps_the_watcher_running_and_takes_the_flags_that_waited(archive: Archive) -> None:
    pid = archive.start_old_supervisor()

    imported = archive.supervisor("import", "config/config.dev.yaml")
    assert imported.returncode == 0, imported.stderr
    assert f"{WORKER} runs as pid {pid}. Its command line is copied unchanged." in imported.stderr
    assert "secret-of-the-archive" not in imported.stdout + imported.stderr + archive.config.read_text()
    checked = archive.supervisor("config", "check")
    assert (checked.returncode, checked.stderr, "Warning" in checked.stdout) == (0, "", False)

    archive.stop_old_supervisor()
    first = archive.supervisor("once", "--worker-id", WORKER)
    assert first.returncode == 0, first.stderr
    assert (worker(archive)["pid"], worker(archive)["health"]) == (pid, "healthy"), "adopted, not restarted"

    flag = archive.drop_flag("pause_watcher", "task_20260205_101500_ab12", label="impl HT acquire")
    assert archive.supervisor("once", "--worker-id", WORKER).returncode == 0
    assert not flag.exists()
    assert not _runs(pid), "it has ended"
    assert (archive.state / f"supervisor_pause_{WORKER}.flag").exists()
    assert worker(archive)["paused"]

    waiting = [
        archive.drop_flag("resume_watcher", "task_20260205_101600_ab12"),
        archive.drop_flag("diagnostics", "task_20260205_101700_ab12", label="after the move"),
    ]
    assert archive.supervisor("once", "--worker-id", WORKER).returncode == 0
    assert not [flag for flag in waiting if flag.exists()]
    again = worker(archive)
    assert again["pid"] != pid
    assert again["state"] == "running"

    for handler, task in (("pause", "101500"), ("resume", "101600"), ("diagnostics", "101700")):
        path = archive.outbox / f"supervisor_result_{handler}_task_20260205_{task}_ab12.json"
        assert archive.read(path)["success"], path
    said = archive.read(archive.state / f"supervisor_heartbeat_{WORKER}.json")
    assert (said["worker_id"], said["success"]) == (WORKER, True)
    (report,) = (archive.logs / "diagnostics").glob(f"diagnostics_{WORKER}_*_after_the_move.json")
    assert archive.read(report)["worker_id"] == WORKER

    rows = archive.json("audit")
    trail = {row["action"]: (row["outcome"], row["label"]) for row in rows}
    assert trail["PAUSE"][0] == "success"
    assert trail["PAUSE"][1].endswith(" - impl HT acquire")
    assert {"PAUSE", "RESUME", "DIAGNOSTICS"} <= trail.keys()
    with sqlite3.connect(archive.repo / "var" / "ledger.db") as ledger:
        assert {row[0] for row in ledger.execute("SELECT worker_id FROM workers_t")} >= {f"supervisor_{WORKER}"}
        assert ledger.execute("SELECT count(*) FROM jobs_t").fetchone() == (3,)


def test_a_watcher_that_the_old_supervisor_paused_stays_paused(archive: Archive) -> None:
    (archive.state / f"supervisor_pause_{WORKER}.flag").touch()
    assert archive.supervisor("import", "config/config.dev.yaml").returncode == 0
    assert archive.supervisor("once", "--heal").returncode == 0
    found = worker(archive)
    assert (found["paused"], found["pid"]) == (True, None)


def test_a_watcher_that_does_not_run_is_started_from_the_code_above_the_file(archive: Archive) -> None:
    imported = archive.supervisor("import", "config/config.dev.yaml", "--worker-id", WORKER)
    assert imported.returncode == 0, imported.stderr
    healed = archive.supervisor("once", "--heal")
    assert healed.returncode == 0, healed.stderr
    assert worker(archive)["state"] == "running"
    assert (archive.logs / "dev" / "watcher.log").read_text() == f"watcher {WORKER} started\n"


def test_a_running_watcher_with_another_command_is_named_and_not_doubled(archive: Archive) -> None:
    archive.supervisor("import", "config/config.dev.yaml")
    pid = archive.start_old_supervisor()
    archive.stop_old_supervisor()
    text = archive.config.read_text()
    archive.config.write_text(text.replace("scripts.watcher.spec_watcher", "scripts.watcher.other"))
    healed = archive.supervisor("once", "--heal")
    assert healed.returncode == 1
    found = worker(archive)
    assert found["state"] == "stuck"
    assert str(pid) in str(found["reason"])
    assert archive.supervisor("import", "config/config.dev.yaml", "--force").returncode == 0
    assert archive.supervisor("once").returncode == 0
    assert worker(archive)["pid"] == pid


def test_the_page_can_be_followed_word_for_word(archive: Archive) -> None:
    convert, first_pass, daemon = blocks()
    pid = archive.start_old_supervisor()
    assert convert.pop(0) == "mkdir ~/supervisor && cd ~/supervisor"
    archive.enter(archive.folder / "supervisor")
    for line in (*convert, "stop", *first_pass, *daemon):
        if line == "stop":
            archive.stop_old_supervisor()
            continue
        words = shlex.split(line.replace("~/cornerstone_archive", str(archive.repo)))
        assert words[0] == "supervisor"
        done = archive.supervisor(*words[1:])
        # Without a daemon, `status` says so with its exit code.
        assert done.returncode == (1 if words[1:] == ["status"] else 0), (line, done.stdout, done.stderr)
    assert worker(archive)["pid"] == pid
    assert archive.supervisor("daemon", "stop", "--workers").returncode == 0
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
