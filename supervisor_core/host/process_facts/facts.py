"""Values about processes: identity, liveness, and a worker's process.

Named tuples, not dataclasses: `status` imports this, and `dataclasses` alone would double what that costs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

GENERATION_VARIABLE = "SUPERVISOR_GENERATION"
"""Names the launch in the environment of a worker, from which all that it starts inherit it."""


class ProcessIdentity(NamedTuple):
    """The identity of exactly one process: its PID, its start time and its boot.

    On Linux `start` is in clock ticks since boot, which no change of the wall clock moves. Elsewhere it is the
    creation time in microseconds, and `boot_id` is empty.
    """

    pid: int
    start: int
    boot_id: str


class Liveness(StrEnum):
    """The state of an identity now."""

    ALIVE = "alive"
    GONE = "gone"
    """Ended, or another process has its PID by now, or it belonged to another boot."""
    ZOMBIE = "zombie"
    """Ended, but its parent hasn't read its exit code yet."""
    FROZEN = "frozen"
    """Alive, but stopped (SIGSTOP): it does nothing until it is continued."""
    UNVERIFIABLE = "unverifiable"
    """The system doesn't say. Such a process is neither signalled nor started a second time."""

    @property
    def running(self) -> bool:
        """True for a process that surely exists."""
        return self in {Liveness.ALIVE, Liveness.FROZEN}

    @property
    def ended(self) -> bool:
        return self in {Liveness.GONE, Liveness.ZOMBIE}


class WorkerProcess(NamedTuple):
    identity: ProcessIdentity
    name: str
    status: str
    """As psutil names it: running, sleeping, disk-sleep …"""

    @property
    def pid(self) -> int:
        """The PID for messages; signals go to the identity."""
        return self.identity.pid

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, {self.status})"
