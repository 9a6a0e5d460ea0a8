"""`supervisor run`, as one of the daemons that are compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from tests.support.daemon.peers.system import System
from tests.support.homes import ROOT


class Ours(System):
    """Its workers are expected to beat nowhere: only their processes speak for them, as with the peers."""

    name = "ours"
    running, stopped = "running", "stopped"

    def _write(self) -> None:
        setting = self.setting
        restart = {
            "policy": setting.policy,
            "max_per_hour": setting.max_per_hour,
            "backoff_seconds": setting.backoff_seconds,
        }
        workers = {
            worker: {
                "command": list(command),
                "env": self.variables(worker),
                "heartbeat_max_age_seconds": 0,
                "start_grace_seconds": setting.start_grace_seconds,
                "stop_timeout_seconds": setting.grace_seconds,
                "restart": restart,
            }
            for worker, command in setting.workers.items()
        }
        document = {
            "supervisor": {"id": "TestHost", "state_dir": "var"},
            "workers": workers,
        }
        (self.folder / "config.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "PYTHONPATH": str(ROOT), "SUPERVISOR_CONFIG": str(self.folder / "config.yaml")}

    @property
    def program(self) -> Sequence[str]:
        return [*self.control, "run"]

    @property
    def control(self) -> Sequence[str]:
        return [sys.executable, "-m", "supervisor_core.cli"]

    def said(self, worker: str) -> str:
        return str(self._told(worker).get("state", ""))

    def named(self, worker: str) -> list[int]:
        pid = self._told(worker).get("pid")
        return [pid] if pid else []

    def noticed(self, worker: str) -> str:
        return str(self._told(worker).get("health", ""))

    def quarantined(self, worker: str) -> bool:
        """Whether `status` says so, in both of its places."""
        told = self._told(worker)
        return told.get("state") == "quarantined" and told.get("quarantined") is True

    def stop_worker(self, worker: str) -> None:
        self._send(f"pause {worker}")

    def start_worker(self, worker: str) -> None:
        self._send(f"resume {worker}")

    def status(self) -> dict[str, Any] | None:
        """The daemon's own answer, without a program in between; None while it has none."""
        try:
            return ask(str(self.folder / "var"), {"do": "status"}, 60.0)
        except (NotRunningError, UnresponsiveError):
            return None

    def _send(self, words: str) -> None:
        done = self.call("send", words, "--wait", "--json")
        assert json.loads(done.stdout)["success"], done.stdout

    def _told(self, worker: str) -> dict[str, Any]:
        """From the daemon that runs; what `status` finds out without one is not the daemon's word."""
        done = self.call("status", "--json", "--worker", worker)
        status = json.loads(done.stdout) if done.stdout else {"supervisor": {}}
        return dict(status["workers"][0]) if status["supervisor"].get("state") == "running" else {}
