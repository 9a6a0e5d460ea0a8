"""How many processes the kernel has killed for lack of memory: a count that only grows, until the host is started anew.

It names nobody. Whoever compares it before and after a worker's life knows whether such a kill can have been its end.
"""

from __future__ import annotations

from pathlib import Path

VMSTAT = Path("/proc/vmstat")
"""The whole host's, kills within control groups among them."""

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
EVENTS = "memory.events"
"""The own control group's, where the host's is not to be seen: workers live in the group of whoever started them."""

WORD = "oom_kill"


def memory_kills() -> int | None:
    """The count; None where the system does not say."""
    found = _count(VMSTAT)
    return found if found is not None else _count(_own_group() / EVENTS)


def _own_group() -> Path:
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except (OSError, ValueError):
        return GROUPS
    place = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    return GROUPS / place.lstrip("/")


def _count(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        name, _, number = line.partition(" ")
        if name == WORD and number.isdecimal():
            return int(number)
    return None
