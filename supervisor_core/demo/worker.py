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
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

VERSION = "1.0.0"
POLL_SECONDS = 1.0
HEARTBEAT_SECONDS = 1.0
CONTROL_SECONDS = 0.05  # between two looks at the control file
LAST_BEAT_SECONDS = 2.0  # a heartbeat that hangs doesn't keep the worker from stopping
HELPER_SECONDS = 60  # helpers exit on their own, so nothing is left over

# Helpers only sleep; some ignore SIGTERM.
_SLEEP = f"import time; time.sleep({HELPER_SECONDS})"
_DEFY = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({HELPER_SECONDS})"
_PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {_DEFY!r}]); {_SLEEP}"
_DAEMONIZE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_DEFY!r}], start_new_session=True)"


class Worker:
    """Works in the main thread and writes heartbeats in a second one, so that long work doesn't look stale."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.worker_id: str = options.worker_id
        self.state_dir: Path = options.state_dir
        self.poll_seconds: float = options.poll_seconds
        self.heartbeat_seconds: float = options.heartbeat_seconds
        self.control: Path | None = options.control
        self.items_done = 0
        self.last_error = ""
        self.obeys = True
        self.beats = True
        self.hangs = False
        self.gets_on = True
        self.progress_at = utc_now()
        self.helpers: list[subprocess.Popen[bytes]] = []
        self.stopping = threading.Event()
        self.finished = threading.Event()
        self._crash_at: float | None = None
        self._last_word = ""

    def run(self, misbehaviour: Sequence[str]) -> int:
        """Work until a signal asks for a stop; the current item is finished first."""
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._asked_to_stop)
        self.log(f"started, version {VERSION}, pid {os.getpid()}")
        if misbehaviour:
            self.misbehave(misbehaviour)
        heart = threading.Thread(target=self._beat_until_finished, name="heartbeat", daemon=True)
        heart.start()
        while not self.stopping.is_set():
            self._look_at_control()
            if self.hangs:
                self._hang()
            if self.paused:
                self.progress_at = utc_now()  # a paused worker isn't late
            elif self.gets_on:
                self._work()
            self._rest()
        self.finished.set()
        heart.join(self.heartbeat_seconds + LAST_BEAT_SECONDS)
        self.try_to_beat("stopped")
        self.log(f"stopped after {self.items_done} items")
        return 0

    @property
    def paused(self) -> bool:
        """True if the pause flag exists."""
        return (self.state_dir / f"supervisor_pause_{self.worker_id}.flag").exists()

    def log(self, text: str) -> None:
        """Write one line to the log."""
        sys.stdout.write(f"{utc_now()} [{self.worker_id}] {text}\n")
        sys.stdout.flush()

    def beat(self, status: str) -> None:
        """Write the heartbeat file atomically."""
        document = {
            "watcher_id": self.worker_id,
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "status": status,
            "utc": utc_now(),
            "progress_utc": None if self.paused else self.progress_at,
            "poll_seconds": self.poll_seconds,
            "version": VERSION,
            "items_done": self.items_done,
        }
        if self.last_error:
            document["last_error"] = self.last_error
        target = self.state_dir / f"watcher_heartbeat_{self.worker_id}.json"
        descriptor, temporary = tempfile.mkstemp(dir=self.state_dir, prefix=".beat.", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o640)
            Path(temporary).replace(target)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    def try_to_beat(self, status: str) -> None:
        """Write the heartbeat file; an unreachable drive doesn't stop the worker."""
        try:
            self.beat(status)
        except OSError as error:
            self.log(f"no heartbeat: {error}")

    def misbehave(self, words: Sequence[str]) -> None:
        """Misbehave in one of the ways of `MISBEHAVIOURS`."""
        word, *rest = words
        known = MISBEHAVIOURS.get(word)
        if known is None:
            self.log(f"unknown word {word!r}; known are {', '.join(MISBEHAVIOURS)}")
            return
        self.log(f"told to misbehave: {' '.join(words)}")
        known(self, rest)

    def _asked_to_stop(self, number: int, _frame: FrameType | None) -> None:
        if self.obeys:
            self.stopping.set()
        else:
            os.write(1, f"signal {number} ignored\n".encode())  # a handler may interrupt a print

    def _beat_until_finished(self) -> None:
        while not self.finished.is_set():
            if self.beats:
                status = "error" if self.last_error else "paused" if self.paused else "running"
                self.try_to_beat(status)
            self.finished.wait(self.heartbeat_seconds)

    def _look_at_control(self) -> None:
        if self._crash_at is not None and time.monotonic() >= self._crash_at:
            raise RuntimeError("told to crash")
        if self.control is None:
            return
        try:
            text = self.control.read_text().strip()
        except OSError:
            text = ""
        if text != self._last_word:
            self._last_word = text
            if text:
                self.misbehave(text.split())

    def _work(self) -> None:
        """Process one item. A signal doesn't interrupt it."""
        time.sleep(min(0.01, self.poll_seconds))
        self.items_done += 1
        self.progress_at = utc_now()
        self.log(f"item {self.items_done} done")

    def _rest(self) -> None:
        """Wait for the next item and watch the control file."""
        until = time.monotonic() + self.poll_seconds
        while not self.hangs and (left := until - time.monotonic()) > 0:
            if self.stopping.wait(min(left, CONTROL_SECONDS)):
                return
            self._look_at_control()

    def _hang(self) -> None:
        while True:
            time.sleep(HELPER_SECONDS)


def utc_now() -> str:
    """The current time in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _hang(worker: Worker, _rest: list[str]) -> None:
    worker.beats = worker.obeys = False
    worker.hangs = True


def _freeze(worker: Worker, _rest: list[str]) -> None:
    if hasattr(signal, "SIGSTOP"):
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        worker.log("this system can't freeze a process from within")


def _fork(worker: Worker, _rest: list[str]) -> None:
    command = [sys.executable, "-c", _PARENT]
    worker.helpers += [subprocess.Popen(command) for _ in range(2)]  # noqa: S603 (our own words)


def _daemonize(_worker: Worker, _rest: list[str]) -> None:
    """Start a grandchild in a session of its own, as a daemon does."""
    subprocess.run([sys.executable, "-c", _DAEMONIZE], check=True)  # noqa: S603 (our own words)


def _crash(_worker: Worker, _rest: list[str]) -> None:
    raise RuntimeError("told to crash")


def _crash_after(worker: Worker, rest: list[str]) -> None:
    worker._crash_at = time.monotonic() + float(rest[0] if rest else 1)  # noqa: SLF001 (the same module)


def _stale(worker: Worker, _rest: list[str]) -> None:
    worker.beats = False


def _stuck(worker: Worker, _rest: list[str]) -> None:
    worker.gets_on = False


def _ignore_term(worker: Worker, _rest: list[str]) -> None:
    worker.obeys = False


def _degraded(worker: Worker, rest: list[str]) -> None:
    worker.last_error = " ".join(rest) or "told to report an error"


MISBEHAVIOURS: dict[str, Callable[[Worker, list[str]], None]] = {
    "hang": _hang,
    "freeze": _freeze,
    "fork": _fork,
    "daemonize": _daemonize,
    "crash": _crash,
    "crash-after": _crash_after,
    "stale": _stale,
    "stuck": _stuck,
    "ignore-term": _ignore_term,
    "degraded": _degraded,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker."""
    parser = argparse.ArgumentParser(prog="supervisor_core.demo.worker", description="A small worker.")
    parser.add_argument("--worker-id", required=True)
    parser.add_argument("--state-dir", required=True, type=Path, help="folder for the heartbeat and the pause flag")
    parser.add_argument("--poll-seconds", type=float, default=POLL_SECONDS)
    parser.add_argument("--heartbeat-seconds", type=float, default=HEARTBEAT_SECONDS)
    parser.add_argument("--control", type=Path, help="file with a word that says how to misbehave")
    parser.add_argument("--misbehave", nargs="+", default=[], metavar="WORD", help=", ".join(MISBEHAVIOURS))
    options = parser.parse_args(arguments)
    return Worker(options).run(options.misbehave)


if __name__ == "__main__":
    sys.exit(main())
