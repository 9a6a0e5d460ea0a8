"""A stand-in for the watcher of Cornerstone Archive: it beats into the drive's folder and holds a lock there.

It's copied to `scripts/watcher/spec_watcher.py` of a made installation, so it stands alone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def beat(state: Path, worker_id: str, poll_seconds: float) -> None:
    path = state / f"watcher_heartbeat_{worker_id}.json"
    facts = {
        "watcher_id": worker_id,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "status": "running",
        "utc": datetime.now(UTC).replace(tzinfo=None).isoformat() + "Z",
        "poll_seconds": poll_seconds,
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(facts))
    temporary.replace(path)


def has_password() -> bool:
    """From the environment, or from a `.env` in the folder of the code."""
    env = Path(".env")
    return "DB_PASSWORD_DEV" in os.environ or (env.exists() and "DB_PASSWORD_DEV=" in env.read_text())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--worker-id", default="OrionMX")
    options = parser.parse_args()
    config: dict[str, Any] = yaml.safe_load(Path(options.config).read_text())
    if not has_password():
        print("database.password must be set", file=sys.stderr)
        return 1
    state = Path(config["nas"]["root"]) / "00_STATE"
    owner = state / "locks" / f"watcher_{options.worker_id}.lock" / "owner.json"
    if owner.exists() and is_alive(json.loads(owner.read_text())["pid"]):
        print("another watcher holds the lock", file=sys.stderr)
        return 1
    owner.parent.mkdir(parents=True, exist_ok=True)
    owner.write_text(json.dumps({"watcher_id": options.worker_id, "pid": os.getpid()}))
    log = Path(config["logging"]["path"]) / "watcher.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    with log.open("a") as file:
        file.write(f"watcher {options.worker_id} started\n")
    while not stopping.is_set():
        beat(state, options.worker_id, config["watcher"]["scan_interval_seconds"])
        stopping.wait(config["watcher"]["heartbeat_interval_seconds"])
    owner.unlink()
    owner.parent.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
