"""The identity and liveness of a process, and the clock that both are measured by.

psutil takes 20 ms to import, so it's imported by the first look: `status` of a running daemon needs none.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.common.text import one_line
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity

if TYPE_CHECKING:
    import psutil

UNITS = os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 1_000_000
"""The units of `ProcessIdentity.start` in a second."""

LONGEST_NAME = 100
"""Anybody may name a process."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC_RAW", None))


@cache
def boot_id() -> str:
    """The kernel's name for this boot, empty where it has none. `OSError` if it's hidden: nothing can be verified."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip() if sys.platform == "linux" else ""


def since_boot() -> float:
    """Seconds on a clock that nobody sets and that runs during suspend."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


def age_seconds(start: int) -> float:
    """The age of a process whose identity has this `start`."""
    return (since_boot() if sys.platform == "linux" else time.time()) - start / UNITS


def process_at(pid: int) -> psutil.Process | None:
    """The process that has this PID now; None if there is none. `PermissionError` if the system hides it."""
    import psutil

    if pid < 1:
        return None
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        if not _exists(pid):
            return None
    else:
        if _start(process) is not None:
            return process
    raise PermissionError(f"process {pid} exists, but is hidden from this user")


def _exists(pid: int) -> bool:
    """True for a process that psutil doesn't see, but that the kernel has (a /proc with `hidepid`)."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def identity_of(process: psutil.Process) -> ProcessIdentity:
    """The identity of a process of this boot.

    `PermissionError` if the system hides its start.
    """
    start = _start(process)
    if start is None:
        raise PermissionError(f"the start of process {process.pid} is hidden from this user")
    return ProcessIdentity(process.pid, round(start * UNITS), boot_id())


def _start(process: psutil.Process) -> float | None:
    """From the key by which psutil itself tells processes apart: its `create_time` moves with the wall clock."""
    start: float | None = process._ident[1]  # type: ignore[attr-defined] # noqa: SLF001
    return start


def parent_of(process: psutil.Process) -> int:
    """The PID of its parent. Unlike `ppid`, it doesn't read again who has its PID by now: a scan has just done so."""
    parent: int = process._proc.ppid()  # type: ignore[attr-defined] # noqa: SLF001
    return parent


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this PID now; None if there is none, or it's a thread's number.

    `PermissionError` if it exists and the system hides it.
    """
    process = process_at(pid)
    if process is None:
        return None
    import psutil

    return identity_of(process) if psutil.pid_exists(pid) else None


def process_name(pid: int) -> str:
    """The name of a process for people; empty if it has ended or is hidden."""
    import psutil

    try:
        return one_line(psutil.Process(pid).name(), LONGEST_NAME)
    except (psutil.Error, OSError):
        return ""


def state(identity: ProcessIdentity) -> Liveness:
    """The state of exactly this process. If the system doesn't say, it's unverifiable, never gone."""
    import psutil

    try:
        if identity.boot_id and identity.boot_id != boot_id():
            return Liveness.GONE
        process = process_at(identity.pid)
        if process is None or identity_of(process).start != identity.start:
            return Liveness.GONE
        return life_of(process) if identity.boot_id == boot_id() else Liveness.UNVERIFIABLE
    except psutil.ZombieProcess:
        return Liveness.ZOMBIE
    except psutil.NoSuchProcess:
        return Liveness.GONE
    except (psutil.AccessDenied, OSError):
        return Liveness.UNVERIFIABLE


def life_of(process: psutil.Process) -> Liveness:
    """Alive, frozen or ended; `psutil.NoSuchProcess` if it's gone by now."""
    import psutil

    status = process.status()
    if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
        # Where only the first thread has ended, the process goes on.
        return Liveness.ZOMBIE if process.num_threads() <= 1 else Liveness.ALIVE
    return Liveness.FROZEN if status == psutil.STATUS_STOPPED else Liveness.ALIVE
