"""One worker and many: boot, status, and the stop and start of all of them, with ours, supervisord and bare Python."""

from __future__ import annotations

import os
import select
import time
from contextlib import ExitStack

from tests.benchmarks.fleets import (
    COUNTS,
    FLEETS,
    PATIENCE_SECONDS,
    Figures,
    Fleet,
    a_fleet,
    rows_by_count,
    until_all_run,
)
from tests.benchmarks.rows import Row
from tests.support.waiting import wait_until

ROUNDS = 3
STATUS_ROUNDS = 20
LIFE_SECONDS = 2.5
"""Until then, neither daemon calls a worker started."""


def measure() -> list[Row]:
    """Each system with each number of workers, one after the other."""
    return rows_by_count({(name, count): _figures(name, count) for count in COUNTS for name in FLEETS})


def _figures(name: str, count: int) -> Figures:
    boots = [_booted(name, count) for _ in range(ROUNDS - 1)]
    with a_fleet(name, count) as fleet:
        boots.append(until_all_run(fleet, fleet.boot))
        time.sleep(LIFE_SECONDS)
        return {"boot until all run, ms": boots, **_orders(fleet)}


def _booted(name: str, count: int) -> float:
    with a_fleet(name, count) as fleet:
        return until_all_run(fleet, fleet.boot)


def _orders(fleet: Fleet) -> Figures:
    """Of workers that run."""
    status = [fleet.status() for _ in range(STATUS_ROUNDS)]
    paused, resumed, one = [], [], []
    for _ in range(ROUNDS):
        paused.append(_until_all_gone(fleet))
        begun = time.perf_counter()
        fleet.resume(fleet.workers[0])
        one.append((time.perf_counter() - begun) * 1000)
        fleet.pause()
        resumed.append(until_all_run(fleet, fleet.resume))
        time.sleep(LIFE_SECONDS)
    return {
        "`status`, ms": status,
        "`pause all` until all are gone, ms": paused,
        "`resume all` until all run, ms": resumed,
        "`resume` of one until the command returns, ms": one,
    }


def _until_all_gone(fleet: Fleet) -> float:
    """Until the command has returned and each process has ended. A descriptor of each tells: a search would take as
    long as the command."""
    with ExitStack() as stack:
        ends = select.poll()
        handles = [os.pidfd_open(pid) for worker in fleet.workers for pid in fleet.pids(worker)]
        for handle in handles:
            stack.callback(os.close, handle)
            ends.register(handle, select.POLLIN)
        begun = time.perf_counter()
        fleet.pause()
        wait_until(lambda: len(ends.poll(0)) == len(handles), PATIENCE_SECONDS, "all are gone")
        return (time.perf_counter() - begun) * 1000
