"""Processes that look like a worker and that nobody knows: the same arguments, the same folder, no launch of ours."""

from __future__ import annotations

from pathlib import Path

from supervisor_core.adapters.processes_identity import life_of, platform
from supervisor_core.adapters.processes_set import own_line


def alike(command: tuple[str, ...], cwd: Path) -> tuple[int, ...]:
    """The PIDs of all that have exactly these arguments and work in this folder (a real path), or may do so.

    Enough to doubt that a worker is gone, and never enough to signal one: that takes its heartbeat's word.
    """
    line = own_line()
    same = (pid for pid in platform.pids() if pid not in line and platform.arguments(pid) == command)
    return tuple(pid for pid in same if not platform.token_of(pid) and _lives(pid) and _works_in(pid, cwd))


def _lives(pid: int) -> bool:
    facts = platform.glance(pid)
    return facts is not None and not life_of(facts).ended


def _works_in(pid: int, cwd: Path) -> bool:
    import psutil  # seldom needed

    try:
        return Path(psutil.Process(pid).cwd()) == cwd
    except psutil.NoSuchProcess:
        return False
    except (psutil.Error, OSError):
        return True
