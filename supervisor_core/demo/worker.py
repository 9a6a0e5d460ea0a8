"""A small worker: processes items, writes heartbeats, pauses, stops on a signal, and misbehaves on request.

It imports nothing of the project, like any other worker. Run it with
`python -m supervisor_core.demo.worker --worker-id ID --state-dir DIR`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

CONTROL_SECONDS = 0.05  # between two looks at the control file
LAST_BEAT_SECONDS = 2.0  # a heartbeat that hangs doesn't keep the worker from stopping
HELPER_SECONDS = 60  # helpers exit on their own, so nothing is left over
MISBEHAVIOURS = ("hang", "freeze", "fork", "daemonize", "stale", "ignore-term")

# Helpers only sleep; some ignore SIGTERM.
_SLEEP = f"import time; time.sleep({HELPER_SECONDS})"
_DEFY = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({HELPER_SECONDS})"
_PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {_DEFY!r}]); {_SLEEP}"
_DAEMONIZE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_DEFY!r}], start_new_session=True)"


class Worker:
    """Works in the main thread and writes heartbeats in a second one, so that long work doesn't look stale."""

    version = "1.0.0"
    closing_seconds = 0.0

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.worker_id: str = options.worker_id
        self.state_dir: Path = options.state_dir
        self.poll_seconds: float = options.poll_seconds
        self.items_done = 0
        self.misbehaving: set[str] = set()
        self.progress_at = utc_now()
        self.stopping = threading.Event()
        self.finished = threading.Event()
        self._last_control = ""

    def run(self) -> int:
        """Work until a signal asks for a stop; the current item is finished first."""
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._on_signal)
        self.log(f"started, version {self.version}, pid {os.getpid()}")
        if self.options.misbehave:
            self.misbehave(self.options.misbehave)
        heart = threading.Thread(target=self._beat_until_finished, name="heartbeat", daemon=True)
        heart.start()
        while not self.stopping.is_set():
            self._read_control()
            if self.paused:
                self.progress_at = utc_now()  # a paused worker isn't late
            else:
                self.work()
            until = time.monotonic() + self.poll_seconds
            while time.monotonic() < until and not self.stopping.wait(min(self.poll_seconds, CONTROL_SECONDS)):
                self._read_control()
        self.finished.wait(self.closing_seconds)
        self.finished.set()
        heart.join(self.options.heartbeat_seconds + LAST_BEAT_SECONDS)
        self.try_to_beat("stopped")
        self.log(f"stopped after {self.items_done} items")
        return 0

    def work(self) -> None:
        """Process one item. A signal doesn't interrupt it."""
        time.sleep(min(0.01, self.poll_seconds))
        self.done(f"item {self.items_done + 1} done")

    def done(self, text: str) -> None:
        self.items_done += 1
        self.progress_at = utc_now()
        self.log(text)

    @property
    def paused(self) -> bool:
        return (self.state_dir / f"supervisor_pause_{self.worker_id}.flag").exists()

    def log(self, text: str) -> None:
        sys.stdout.write(f"{utc_now()} [{self.worker_id}] {text}\n")
        sys.stdout.flush()

    def try_to_beat(self, status: str) -> None:
        """Write the heartbeat file atomically; an unreachable drive doesn't stop the worker."""
        document = {
            "watcher_id": self.worker_id,
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "status": status,
            "utc": utc_now(),
            "progress_utc": None if self.paused else self.progress_at,
            "poll_seconds": self.poll_seconds,
            "version": self.version,
            "items_done": self.items_done,
        }
        target = self.state_dir / f"watcher_heartbeat_{self.worker_id}.json"
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        try:
            with temporary.open("w") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o640)
            temporary.replace(target)
        except OSError as error:
            self.log(f"no heartbeat: {error}")

    def misbehave(self, kind: str) -> None:
        self.log(f"told to misbehave: {kind}")
        self.misbehaving.add(kind)
        if kind == "hang":
            while True:
                time.sleep(HELPER_SECONDS)
        elif kind == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif kind == "fork":
            for _ in range(2):
                subprocess.Popen([sys.executable, "-c", _PARENT])  # noqa: S603 (our own words)
        elif kind == "daemonize":
            subprocess.run([sys.executable, "-c", _DAEMONIZE], check=True)  # noqa: S603 (our own words)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.misbehaving & {"hang", "ignore-term"}:
            os.write(1, f"signal {number} ignored\n".encode())  # a handler may interrupt a print
        else:
            self.stopping.set()

    def _beat_until_finished(self) -> None:
        while not self.finished.is_set():
            if not self.misbehaving & {"hang", "stale"}:
                self.try_to_beat("paused" if self.paused else "running")
            self.finished.wait(self.options.heartbeat_seconds)

    def _read_control(self) -> None:
        control: Path | None = self.options.control
        text = control.read_text().strip() if control is not None and control.exists() else ""
        if text != self._last_control:
            self._last_control = text
            if text in MISBEHAVIOURS:
                self.misbehave(text)


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def worker_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="supervisor_core.demo.worker", description="A small worker.")
    parser.add_argument("--worker-id", required=True)
    parser.add_argument("--state-dir", required=True, type=Path, help="folder for the heartbeat and the pause flag")
    parser.add_argument("--poll-seconds", type=float, default=1.0)
    parser.add_argument("--heartbeat-seconds", type=float, default=1.0)
    parser.add_argument("--control", type=Path, help="file with a word that says how to misbehave")
    parser.add_argument("--misbehave", choices=MISBEHAVIOURS)
    return parser


if __name__ == "__main__":
    sys.exit(Worker(worker_options().parse_args()).run())
