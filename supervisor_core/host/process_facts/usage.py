"""Memory and CPU time of processes with their descendants."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, NamedTuple


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
    import psutil

    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
    sums: dict[int, ProcessUsage] = {}
    for pid in wanted:
        memory, seconds = 0, 0.0
        try:
            waiting = [psutil.Process(pid)]
        except psutil.NoSuchProcess:
            continue
        counted: set[int] = set()
        while waiting:
            process = waiting.pop()
            if process.pid in counted:
                continue
            counted.add(process.pid)
            waiting += children.get(process.pid, ())
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    memory, seconds = memory + process.memory_info().rss, seconds + times.user + times.system
            except psutil.Error:
                continue
        sums[pid] = ProcessUsage(memory, seconds)
    return sums


SAMPLE_SECONDS = 1.0
"""Whoever follows the status asks several times a second, and a sample reads all processes of the host."""

_sample: tuple[float, dict[int, ProcessUsage]] = (-math.inf, {})


def with_usage(workers: Iterable[dict[str, Any]], commits: dict[str, str]) -> list[dict[str, Any]]:
    """The documents of workers with their commit, memory and CPU time; None for an unknown one."""
    global _sample  # noqa: PLW0603 (what the threads share)
    documents = list(workers)
    pids = {pid for each in documents if isinstance(pid := each["pid"], int)}
    at, found = _sample
    if time.monotonic() - at >= SAMPLE_SECONDS or not pids <= found.keys():
        found = usage_of(pids)
        _sample = time.monotonic(), found
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
