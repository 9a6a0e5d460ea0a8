"""Who belongs to a worker: found by a mark in the environment, which descendants inherit wherever they go."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

VARIABLE = "PEERS_WORKER"
PATIENCE_SECONDS = 10.0


def variable(mark: str, worker: str) -> str:
    """The value of the variable for one worker of one daemon."""
    return f"{mark}.{worker}"


def living(mark: str, worker: str = "") -> list[int]:
    """The PIDs of all that carry the mark and are alive, of one worker or of all; what is dead has no environment."""
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(pid for pid in everybody if _carries(pid, mark, worker))


def gone(pid: int, seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait until this process is dead, reaped or not; whether it is."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


def end(mark: str) -> None:
    """End all that carry the mark: by a handle on the process, looked at again before it is signalled."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while pids := living(mark):
        assert time.monotonic() < deadline, f"{pids} outlive SIGKILL"
        for pid in pids:
            _kill(pid, mark)


def _kill(pid: int, mark: str) -> None:
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _carries(pid, mark, ""):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                gone(pid, 1)
        finally:
            os.close(handle)


def _carries(pid: int, mark: str, worker: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    begin = f"{VARIABLE}={variable(mark, worker)}".encode()
    return begin in environ if worker else any(word.startswith(begin) for word in environ)
