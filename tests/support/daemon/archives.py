"""An installation of Cornerstone Archive in a temporary folder: code, configuration, drive, and the old programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.processes.manager import HostProcesses
from tests.support.homes import ROOT, RUN_SECONDS
from tests.support.programs import warm
from tests.support.waiting import wait_until

PROGRAMS = ROOT / "tests" / "support" / "programs"
WORKER = "OrionMX"


class Archive:
    """The old programs run in `repo`, with the configuration in `repo/config`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo, self.nas = folder, folder / "repo", folder / "nas"
        self.home = self.repo
        self.state, self.logs = self.nas / "00_STATE", self.nas / "05_LOGS"
        self.inbox, self.outbox = self.logs / "Worker_Inbox", self.logs / "Worker_Outbox"
        self.old_config = self.repo / "config" / "config.dev.yaml"
        self.config = self.repo / "config.yaml"
        for name in ("00_STATE", "01_RAW", "02_WORK", "03_REFERENCE", "04_PUBLISH", "05_LOGS/Worker_Inbox"):
            (self.nas / name).mkdir(parents=True)
        for source, target in (
            ("archive_watcher", "watcher/spec_watcher"),
            ("archive_supervisor", "supervisor/supervisor"),
        ):
            path = self.repo / "scripts" / f"{target}.py"
            path.parent.mkdir(parents=True)
            shutil.copy(PROGRAMS / f"{source}.py", path)
        self.old_config.parent.mkdir()
        self.old_config.write_text(yaml.safe_dump(self._settings(), sort_keys=False))
        (self.repo / ".env").write_text("DB_PASSWORD_DEV=secret-of-the-archive\n")
        (self.repo / ".env").chmod(0o600)
        self._supervisor: subprocess.Popen[bytes] | None = None

    def _settings(self) -> dict[str, Any]:
        database = {"host": "db.example.org", "user": "archive", "password": "${DB_PASSWORD_DEV}", "database": "state"}
        return {
            "environment": "development",
            "database": database,
            "nas": {"root": str(self.nas), "scratch": "C:\\Scratch\\NVMe"},
            "internet_archive": {"base_url": "https://archive.org", "api_timeout_seconds": 60},
            "logging": {"level": "DEBUG", "path": str(self.logs / "dev")},
            "watcher": {"continuous_mode": False, "scan_interval_seconds": 10, "heartbeat_interval_seconds": 0.2},
        }

    def start_old_supervisor(self) -> int:
        """Start the old supervisor, which starts the watcher; returns the watcher's pid."""
        words = ["--config", "config/config.dev.yaml", "--worker-id", WORKER, "--every", "0.2"]
        self._supervisor = subprocess.Popen(
            [sys.executable, "-m", "scripts.supervisor.supervisor", *words], cwd=self.repo, env=self.environ
        )
        path = self.state / f"watcher_heartbeat_{WORKER}.json"
        wait_until(path.exists, 20, "the old watcher beats")
        return int(self.read(path)["pid"])

    def stop_old_supervisor(self) -> None:
        """As turning off the scheduled task does: the watcher goes on."""
        if self._supervisor is not None:
            self._supervisor.terminate()
            self._supervisor.wait()

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "PYTHONPATH": str(ROOT)}

    def enter(self, folder: Path) -> None:
        """Run our command line in this folder from now on."""
        folder.mkdir()
        self.home = folder

    def supervisor(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run our command line, unless told otherwise in the folder of the code."""
        return warm.run(words, self.home, self.environ, RUN_SECONDS)

    def json(self, *words: str) -> Any:
        done = self.supervisor(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def drop_flag(self, handler: str, task_id: str, **more: Any) -> Path:
        """A flag as the old console writes it: PHP encodes an empty map of parameters as a list."""
        path = self.inbox / f"supervisor_{handler}_{WORKER}_{task_id}.flag"
        body = {"task_id": task_id, "handler": handler, "worker_id": WORKER, "job_id": 7, "params": [], **more}
        path.write_text(json.dumps(body))
        return path

    def read(self, path: Path) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(path.read_text())
        return found

    def end(self) -> None:
        self.stop_old_supervisor()
        path = self.state / f"watcher_heartbeat_{WORKER}.json"
        if (self.home / "var" / "control.sock").exists():
            self.supervisor("daemon", "stop")
        if (self.home / "var").exists():
            HostProcesses(self.home / "var").stop(WORKER, timeout=5)
        elif path.exists():
            os.kill(self.read(path)["pid"], 9)


@contextmanager
def an_archive(folder: Path) -> Iterator[Archive]:
    made = Archive(folder)
    try:
        yield made
    finally:
        made.end()
