"""Memory and CPU time of processes with their descendants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from supervisor_core.host.process_facts import linux as platform


class ProcessUsage(NamedTuple):
    """The sum over a process and its descendants that run now."""

    memory_bytes: int
    """Resident memory; shared memory counts for each process."""
    cpu_seconds: float


def usage_of(pids: Iterable[int]) -> dict[int, ProcessUsage]:
    """The usage of each of these processes that runs, from one scan of all processes."""
    wanted = set(pids)
    if not wanted:
        return {}
    children: dict[int, list[int]] = {}
    for pid in platform.pids():
        found = platform.glance(pid)
        if found is not None:
            children.setdefault(found.ppid, []).append(pid)
    sums = {pid: _sum(pid, children) for pid in wanted}
    return {pid: found for pid, found in sums.items() if found is not None}


def _sum(pid: int, children: dict[int, list[int]]) -> ProcessUsage | None:
    memory, seconds, waiting, met = 0, 0.0, [pid], {pid}
    while waiting:
        current = waiting.pop()
        used = platform.usage(current)
        if used is not None:
            memory, seconds = memory + used[0], seconds + used[1]
        elif current == pid:
            return None
        more = [child for child in children.get(current, ()) if child not in met]
        met.update(more)
        waiting += more
    return ProcessUsage(memory, seconds)


def with_usage(workers: Iterable[dict[str, Any]], commits: dict[str, str]) -> list[dict[str, Any]]:
    """The documents of workers with their commit, memory and CPU time; None for an unknown one."""
    documents = list(workers)
    found = usage_of(pid for each in documents if isinstance(pid := each["pid"], int))
    detailed = []
    for each in documents:
        used = found.get(each["pid"]) if isinstance(each["pid"], int) else None
        detailed.append(
            {
                **each,
                "commit": commits.get(str(each["id"])),
                "memory_bytes": used.memory_bytes if used else None,
                "cpu_seconds": round(used.cpu_seconds, 2) if used else None,
            }
        )
    return detailed
