"""Hearing at once that a worker has started: it writes a line into a pipe, which is stamped when it is read."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

SCRIPT = 'echo "$1" >"$2"\nexec sleep 100000\n'
"""A worker that tells its name and sleeps. A shell, for it is up in a millisecond; a short line is never torn."""


class Starts:
    """The moments at which workers started, by their names; on the monotonic clock, in nanoseconds."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "starts"
        self._script = folder / "worker.sh"
        self._script.write_text(SCRIPT)
        os.mkfifo(self._path)
        self._pipe = os.open(self._path, os.O_RDWR)  # also for writing: it never comes to its end
        self._heard: dict[str, list[int]] = defaultdict(list)
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="starts")
        self._reader.start()

    def command(self, worker: str) -> tuple[str, ...]:
        """The command of a worker that tells this name."""
        return ("/bin/sh", str(self._script), worker, str(self._path))

    def after(self, worker: str, moment: int, seconds: float) -> int:
        """When this worker started first after that moment; waits for it, and raises where it does not."""

        def first() -> int | None:
            return next((heard for heard in self._heard[worker] if heard > moment), None)

        with self._news:
            found = self._news.wait_for(first, seconds)
        if not found:
            raise AssertionError(f"{worker} was not started again within {seconds:.0f} s")
        return found

    def close(self) -> None:
        """Let the reader end."""
        os.write(self._pipe, b"\n")
        self._reader.join()
        os.close(self._pipe)

    def _read(self) -> None:
        while True:
            lines = os.read(self._pipe, 65536)
            now = time.monotonic_ns()
            with self._news:
                for line in lines.decode().splitlines():
                    if not line:
                        return
                    self._heard[line].append(now)
                self._news.notify_all()
