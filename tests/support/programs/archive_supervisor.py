"""A stand-in for the old supervisor of Cornerstone Archive: a pass takes the flags, starts the watcher, and beats.

It's copied to `scripts/supervisor/supervisor.py` of a made installation. `--every` plays the Task Scheduler.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml


class OldSupervisor:
    def __init__(self, config: str, worker_id: str) -> None:
        self.config, self.worker_id = config, worker_id
        settings: dict[str, Any] = yaml.safe_load(Path(config).read_text())
        self.root = Path(settings["nas"]["root"])
        self.state, self.inbox = self.root / "00_STATE", self.root / "05_LOGS" / "Worker_Inbox"
        self.pause = self.state / f"supervisor_pause_{worker_id}.flag"
        self.watcher: subprocess.Popen[bytes] | None = None

    def run_once(self) -> None:
        actions = list(self._take_flags())
        if not self.pause.exists() and (self.watcher is None or self.watcher.poll() is not None):
            words = ["--worker-id", self.worker_id, "--config", self.config]
            self.watcher = subprocess.Popen([sys.executable, "-m", "scripts.watcher.spec_watcher", *words])
            actions.append("start_watcher")
        self._beat(actions)

    def _take_flags(self) -> Iterator[str]:
        for path in sorted(self.inbox.glob("*.flag")):
            handler = json.loads(path.read_text())["handler"]
            if handler == "pause_watcher":
                self.pause.touch()
                if self.watcher is not None:
                    self.watcher.terminate()
                    self.watcher.wait()
            elif handler == "resume_watcher":
                self.pause.unlink(missing_ok=True)
            path.unlink()
            yield str(handler)

    def _beat(self, actions: list[str]) -> None:
        self.state.mkdir(exist_ok=True)
        document = {
            "supervisor_id": f"supervisor_{self.worker_id}",
            "timestamp": datetime.now(UTC).isoformat(),
            "worker_id": self.worker_id,
            "success": True,
            "error": None,
            "actions": actions,
        }
        path = self.state / f"supervisor_heartbeat_{self.worker_id}.json"
        path.with_suffix(".tmp").write_text(json.dumps(document))
        path.with_suffix(".tmp").replace(path)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="config.dev.yaml")
    parser.add_argument("--worker-id", default="OrionMX")
    parser.add_argument("--every", type=float, default=0.0)
    options = parser.parse_args()
    supervisor = OldSupervisor(options.config, options.worker_id)
    supervisor.run_once()
    while options.every:
        threading.Event().wait(options.every)
        supervisor.run_once()
    return 0


if __name__ == "__main__":
    sys.exit(main())
