"""Ending the daemon: asked, then told, then made to; and looked at again before it is called stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from supervisor_core.adapters.locks import FileLock, LockedError
from supervisor_core.adapters.processes_signals import KILL, TERMINATE, send, wait_exit
from supervisor_core.adapters.processes_values import ProcessIdentity
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.control_client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.runtime.ownership import DAEMON_LOCK

MARGIN_SECONDS = 15.0
"""What the end of the program may take beyond what the daemon says that it needs."""

TERM_SECONDS, KILL_SECONDS = 5.0, 5.0
"""For one that does not answer: its loop hangs, so there is nothing to finish; and what KILL takes, the drive aside."""

SAY_SECONDS, LOOK_AGAIN_SECONDS = 1.0, 0.02
"""For whoever has just taken the daemon's lock to write who it is, or to let go of it after it has wiped that out."""


class StillAliveError(SupervisorError):
    """The daemon could not be ended."""


class Ended(NamedTuple):
    """A daemon that is gone."""

    pid: int
    how: str
    """asked, terminated, killed"""
    answer: dict[str, Any]
    """What it said when it was asked; empty where it did not answer."""


class DaemonDoor(Protocol):
    """The daemon of a state folder, as whoever ends it meets it."""

    def holder(self) -> ProcessIdentity | None:
        """Who has the lock; None where nobody has."""

    def ask_to_stop(self, *, workers: bool) -> dict[str, Any]:
        """What it answers; empty where it does not."""

    def signal(self, who: ProcessIdentity, number: int) -> None:
        """Signal exactly this process."""

    def wait(self, who: ProcessIdentity, seconds: float) -> bool:
        """Whether it is gone within this time, its lock with it."""


class Door:
    """The real one."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def holder(self) -> ProcessIdentity | None:
        """Who has the lock, as the lock's file tells."""
        deadline = time.monotonic() + SAY_SECONDS
        while True:
            try:
                FileLock(self._state_dir / DAEMON_LOCK).acquire(exclusive=False).release()
            except LockedError as error:
                if error.holder is not None:
                    return error.holder.identity
                if time.monotonic() >= deadline:
                    raise StillAliveError("Somebody has the daemon's lock and does not say who.") from None
                time.sleep(LOOK_AGAIN_SECONDS)
            else:
                return None

    def ask_to_stop(self, *, workers: bool) -> dict[str, Any]:
        """Ask at its control door."""
        try:
            return ask(str(self._state_dir), {"do": "stop", "workers": workers}, timeout=3.0)
        except (NotRunningError, UnresponsiveError, ControlError):
            return {}

    def signal(self, who: ProcessIdentity, number: int) -> None:
        """By identity, never by a PID alone."""
        send(who, number)

    def wait(self, who: ProcessIdentity, seconds: float) -> bool:
        """Wait for the process, by the kernel's notice."""
        return wait_exit(who, seconds)


def stop_daemon(door: DaemonDoor, *, workers: bool = False) -> Ended | None:
    """End it; None where there was none. `StillAliveError` where not even KILL did, and then nothing says otherwise."""
    who = door.holder()
    if who is None:
        return None
    answer = door.ask_to_stop(workers=workers)
    if answer and door.wait(who, float(answer.get("bound_seconds", 0.0)) + MARGIN_SECONDS):
        return Ended(who.pid, "asked", answer)
    for how, number, seconds in (("terminated", TERMINATE, TERM_SECONDS), ("killed", KILL, KILL_SECONDS)):
        door.signal(who, number)
        if door.wait(who, seconds):
            return Ended(who.pid, how, answer)
    raise StillAliveError(
        f"The daemon (pid {who.pid}) could not be ended, not even by KILL. It is still the supervisor of this host.",
        remedy="A process that survives KILL waits inside the kernel, mostly for a drive: look there.",
    )
