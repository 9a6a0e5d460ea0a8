"""Programs that were written for the archive's own supervisor, run as they are."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core import compatibility
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.homes import ROOT, demo_command

WORKER = "OrionMX"
OPERATOR = Path(__file__).with_name("archive_operator.py")
LAUNCHER = ROOT / "docs" / "units" / "supervisor.py"


class Archive:
    """A folder with a configuration for development, a drive and a checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clones: Clones = origin_and_checkout(folder / "code")
        (folder / "nas").mkdir()
        worker = {
            "command": demo_command("--state-dir", str(folder / "nas" / "00_STATE")),
            "env": {"PYTHONPATH": str(ROOT)},
            "start_grace_seconds": 0.2,
            "cwd": str(self.clones.checkout.folder),
            "code": {"path": str(self.clones.checkout.folder)},
        }
        document = {
            "environment": "development",
            "supervisor": {"id": "TestHost", "state_dir": "var"},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "workers": {WORKER: worker},
        }
        (folder / "config.dev.yaml").write_text(yaml.safe_dump(document))

    def run(self, program: Path, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(self.folder)}
        command = [sys.executable, str(program), *words]
        return subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=100)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.folder / "var" / "ledger.db")
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    yield Archive(tmp_path)
    compatibility.stop_watcher_gracefully(WORKER, 5, tmp_path / "config.dev.yaml")


def test_an_operators_script_keeps_working(archive: Archive) -> None:
    new = archive.clones.comes_in({"new.txt": "new\n", "requirements.txt": ""})
    done = archive.run(OPERATOR, "said.json")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    said = json.loads((archive.folder / "said.json").read_text())

    assert said["root"] == said["configured"] == str(archive.folder / "nas")
    assert said["environment"] == {"valid": True, "issues": []}
    assert (said["started"], said["runs"], said["stopped"]) == (True, True, True)
    for name in ("pause", "restart", "resume", "update", "update_deps", "rollback", "undo", "diagnostics", "verify"):
        assert (said[name]["success"], said[name]["error"]) == (True, None), (name, said[name])
        assert said[name]["label"] == "AA v1-2"
    assert said["paused"]
    assert said["update"]["after"] == new
    assert said["rollback"]["commits_reverted"] == len(said["rollback"]["reverted_commits"]) == 2
    assert said["rollback"]["reverted_commits"][0] == new
    assert said["rollback"]["final_commit"] == said["rollback"]["details"]["final_commit"]
    assert said["rollback_again"] == said["rollback"], "the same task isn't carried out again"
    assert not said["too_many"]["success"]
    assert "commits_back" in said["too_many"]["error"]
    assert archive.clones.checkout.status() == ""

    assert (said["actions"], said["flag_left"]) == (["restart_watcher"], False)
    assert said["heartbeat"]["watcher_id"] == WORKER
    assert (said["same"], said["healthy"]) == (True, True)
    assert 0 <= said["age"] < 60
    assert (said["written"]["worker_id"], said["written"]["actions"]) == (WORKER, ["pause"])
    assert said["labels"] == [[True, ""], False, False]
    assert (said["command"]["returncode"], said["command"]["stdout"]) == (0, "hello\n")
    assert (said["health"]["running"], said["health"]["healthy"], said["health"]["state"]) == (True, True, "running")
    assert said["pass"] == 0

    rows = archive.query("SELECT action, outcome, label FROM audit_log_t ORDER BY audit_id")
    assert [row[0] for row in rows] == [
        *("PAUSE", "RESTART_WATCHER", "RESUME", "UPDATE_CODE", "UPDATE_CODE_DEPS", "ROLLBACK_CODE", "UNDO_CODE"),
        *("DIAGNOSTICS", "VERIFY_DB", "RESTART_WATCHER"),
    ]
    assert {row[1] for row in rows} == {"success"}
    assert all(row[2].endswith(" - AA v1-2") for row in rows)
    assert archive.query(f"SELECT 1 FROM workers_t WHERE worker_id = 'supervisor_{WORKER}'") == [(1,)]


def test_the_launcher_runs_a_pass(archive: Archive) -> None:
    words = ("--worker-id", WORKER, "--config", "config.dev.yaml")
    assert archive.run(LAUNCHER, *words).returncode == 1, "the worker isn't running"
    inbox = archive.folder / "nas" / "Worker_Inbox"
    (inbox / f"supervisor_resume_{WORKER}.flag").write_text(json.dumps({"task_id": "t1", "handler": "resume"}))
    done = archive.run(LAUNCHER, *words)
    assert done.returncode == 0, done.stderr
    assert list(inbox.glob("*.flag")) == []
    assert archive.run(LAUNCHER).returncode == 0, "it finds config.dev.yaml and its only worker"


def test_the_launcher_names_what_is_wrong(archive: Archive) -> None:
    done = archive.run(LAUNCHER, "--worker-id", "OrionMY", "--config", "config.dev.yaml")
    assert (done.returncode, "Did you mean OrionMX?" in done.stderr) == (1, True)
