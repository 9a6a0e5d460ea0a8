"""A watcher: carries every file that comes into one folder over to another, and says that it lives."""

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

import yaml

HERE = Path(__file__).resolve().parent
HEARTBEAT_SECONDS = 1.0
UNFINISHED = (".part", ".tmp")  # somebody is still writing these


class Watcher:
    """Carries in the main thread, and beats in one of its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        settings = yaml.safe_load((HERE / "watcher.yaml").read_text(encoding="utf-8"))
        self.poll_seconds = float(settings["poll_seconds"])
        self.closing_seconds = float(settings["closing_seconds"])
        self.version = version()
        self.carried = 0
        self.stopping = threading.Event()
        self.stopped = threading.Event()

    def run(self) -> int:
        """Carry files until asked to stop."""
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: self.stopping.set())
        self.say(f"started, version {self.version}, looking every {self.poll_seconds:g} s")
        heart = threading.Thread(target=self.beat_until_stopped, daemon=True)
        heart.start()
        while not self.stopping.is_set():
            for file in self.waiting():
                self.carry(file)
            self.stopping.wait(self.poll_seconds)
        self.say("asked to stop: closing the books")
        self.stopped.wait(self.closing_seconds)
        self.stopped.set()
        heart.join(HEARTBEAT_SECONDS)
        self.beat("stopped")
        self.say(f"stopped after {self.carried} files")
        return 0

    def waiting(self) -> list[Path]:
        """The files that have come in, in the order of their names."""
        files = sorted(file for file in self.options.incoming.iterdir() if file.is_file())
        files = [file for file in files if file.suffix not in UNFINISHED]
        return [file for file in files if not file.name.startswith(".")]

    def carry(self, file: Path) -> None:
        """Move one file over, whole."""
        file.replace(self.options.outgoing / file.name)
        self.carried += 1
        self.say(f"carried {file.name}")

    def beat_until_stopped(self) -> None:
        """Say that we live, again and again."""
        while not self.stopped.is_set():
            self.beat("running")
            self.stopped.wait(HEARTBEAT_SECONDS)

    def beat(self, status: str) -> None:
        """Write the heartbeat beside its place, then put it there. A drive that is away is no reason to end."""
        target = self.options.state_dir / f"watcher_heartbeat_{self.options.worker_id}.json"
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            document = {
                "watcher_id": self.options.worker_id,
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "status": status,
                "utc": now(),
                "poll_seconds": self.poll_seconds,
                "version": self.version,
                "carried": self.carried,
                "waiting": len(self.waiting()),
            }
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as error:
            self.say(f"no heartbeat: {error}")

    def say(self, text: str) -> None:
        """One line of the log, at once."""
        sys.stdout.write(f"{now()} [{self.options.worker_id}] {text}\n")
        sys.stdout.flush()


def now() -> str:
    """The time, as heartbeats and logs have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def version() -> str:
    """The commit that this is, shortened."""
    try:
        head = (HERE / ".git" / "HEAD").read_text(encoding="utf-8").strip()
        if head.startswith("ref: "):
            head = (HERE / ".git" / head.removeprefix("ref: ")).read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"
    return head[:7]


def main() -> int:
    """Run one watcher."""
    parser = argparse.ArgumentParser(description="Carries files from one folder to another.")
    parser.add_argument("--worker-id", required=True)
    parser.add_argument("--state-dir", required=True, type=Path, help="for the heartbeat")
    parser.add_argument("--incoming", required=True, type=Path, help="where files come in")
    parser.add_argument("--outgoing", required=True, type=Path, help="where they are carried to")
    return Watcher(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
