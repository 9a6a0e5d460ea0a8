"""A worker that moves every file from one folder to another and writes a heartbeat."""

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
UNFINISHED = (".part", ".tmp")  # still being written


class Watcher:
    """Moves files in the main thread and writes heartbeats in a second one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        settings = yaml.safe_load((HERE / "watcher.yaml").read_text(encoding="utf-8"))
        self.poll_seconds = float(settings["poll_seconds"])
        self.closing_seconds = float(settings["closing_seconds"])
        self.version = version()
        self.moved = 0
        self.progress_utc = now()
        self.stopping = threading.Event()
        self.stopped = threading.Event()

    def run(self) -> int:
        """Move files until a signal asks for a stop."""
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: self.stopping.set())
        self.log(f"started, version {self.version}, polling every {self.poll_seconds:g} s")
        heart = threading.Thread(target=self.beat_until_stopped, daemon=True)
        heart.start()
        while not self.stopping.is_set():
            for file in self.waiting():
                self.move(file)
            self.progress_utc = now()
            self.stopping.wait(self.poll_seconds)
        self.log("stopping")
        self.stopped.wait(self.closing_seconds)
        self.stopped.set()
        heart.join(HEARTBEAT_SECONDS)
        self.beat("stopped")
        self.log(f"stopped after {self.moved} files")
        return 0

    def waiting(self) -> list[Path]:
        """The incoming files, by name."""
        files = sorted(file for file in self.options.incoming.iterdir() if file.is_file())
        files = [file for file in files if file.suffix not in UNFINISHED]
        return [file for file in files if not file.name.startswith(".")]

    def move(self, file: Path) -> None:
        """Move one file. Its first line is its title."""
        title = file.read_text(encoding="utf-8").partition("\n")[0]
        if not title:
            raise ValueError(f"{file.name} has no title")
        file.replace(self.options.outgoing / file.name)
        self.moved += 1
        self.progress_utc = now()
        self.log(f"moved {file.name}: {title}")

    def beat_until_stopped(self) -> None:
        """Write a heartbeat every second."""
        while not self.stopped.is_set():
            self.beat("running")
            self.stopped.wait(HEARTBEAT_SECONDS)

    def beat(self, status: str) -> None:
        """Write the heartbeat file atomically. An unreachable drive doesn't stop the watcher."""
        target = self.options.state_dir / f"watcher_heartbeat_{self.options.worker_id}.json"
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            document = {
                "watcher_id": self.options.worker_id,
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "status": status,
                "utc": now(),
                "progress_utc": self.progress_utc,
                "poll_seconds": self.poll_seconds,
                "version": self.version,
                "moved": self.moved,
                "waiting": len(self.waiting()),
            }
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as error:
            self.log(f"no heartbeat: {error}")

    def log(self, text: str) -> None:
        """Write one line to the log."""
        sys.stdout.write(f"{now()} [{self.options.worker_id}] {text}\n")
        sys.stdout.flush()


def now() -> str:
    """The current time in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def version() -> str:
    """The short hash of the current commit."""
    try:
        head = (HERE / ".git" / "HEAD").read_text(encoding="utf-8").strip()
        if head.startswith("ref: "):
            head = (HERE / ".git" / head.removeprefix("ref: ")).read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"
    return head[:7]


def main() -> int:
    """Run the watcher."""
    parser = argparse.ArgumentParser(description="Moves files from one folder to another.")
    parser.add_argument("--worker-id", required=True)
    parser.add_argument("--state-dir", required=True, type=Path, help="folder for the heartbeat")
    parser.add_argument("--incoming", required=True, type=Path, help="folder to move files from")
    parser.add_argument("--outgoing", required=True, type=Path, help="folder to move files to")
    return Watcher(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
