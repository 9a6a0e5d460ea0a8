"""Memory and CPU time of processes with their descendants."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple


class ProcessUsage(NamedTuple):
    """The sum over a process and its descendants that run now."""

    memory_bytes: int
    """Resident memory; shared memory counts for each process."""
    cpu_seconds: float


def usage_of(pids: Iterable[int]) -> dict[int, ProcessUsage]:
    """The usage of each of these processes that runs, from one scan of all processes."""
    roots = set(pids)
    if not roots:
        return {}
    import psutil

    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
    sums: dict[int, ProcessUsage] = {}
    for pid in roots:
        try:
            family = {pid: psutil.Process(pid)}
        except psutil.NoSuchProcess:
            continue
        memory, seconds, queue = 0, 0.0, [pid]
        while queue:
            process = family[queue.pop()]
            new = [child for child in children.get(process.pid, ()) if child.pid not in family]
            family |= {child.pid: child for child in new}
            queue += [child.pid for child in new]
            with suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                memory, seconds = memory + process.memory_info().rss, seconds + times.user + times.system
        sums[pid] = ProcessUsage(memory, seconds)
    return sums


SAMPLE_SECONDS = 1.0
"""Whoever follows the status asks several times a second, and a sample reads all processes of the host."""

_sample: tuple[float, dict[int, ProcessUsage]] = (-math.inf, {})


def with_usage(workers: Iterable[dict[str, Any]], commits: dict[str, str]) -> list[dict[str, Any]]:
    """The documents of workers with their commit, memory and CPU time; None for an unknown one."""
    global _sample  # noqa: PLW0603 (what the threads share)
    documents = list(workers)
    pids = {pid for document in documents if isinstance(pid := document["pid"], int)}
    at, usages = _sample
    if time.monotonic() - at >= SAMPLE_SECONDS or not pids <= usages.keys():
        usages = usage_of(pids)
        _sample = time.monotonic(), usages
    detailed = []
    for document in documents:
        usage = usages.get(document["pid"])
        memory, seconds = (usage.memory_bytes, round(usage.cpu_seconds, 2)) if usage else (None, None)
        commit = commits.get(str(document["id"]))
        detailed.append({**document, "commit": commit, "memory_bytes": memory, "cpu_seconds": seconds})
    return detailed
