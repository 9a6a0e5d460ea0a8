"""The worker of the fault matrix: notes that it started, then does as its mode says. Needs the standard library alone.

python worker.py MODE FILE
"""

from __future__ import annotations

import os
import signal
import sys
import time

LIVES_SECONDS = 2.0


def main(mode: str, path: str) -> int:
    """Be that worker."""
    note = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(note, f"{os.getpid()} {time.monotonic_ns()}\n".encode())
    os.close(note)
    if mode == "dies":
        return 1
    if mode == "short":
        time.sleep(LIVES_SECONDS)
        return 1
    if mode in ("tree", "treesid"):
        _fork(leave=mode == "treesid")
    while True:
        signal.pause()


def _fork(leave: bool) -> None:
    """A child that ignores TERM from its first moment, in a session of its own if it is to leave."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        if leave:
            os.setsid()
        while True:
            signal.pause()
    signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
