"""Repeats the probes of running workers and counts the results, which belong to exactly one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from supervisor_core.common.errors import describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking
from supervisor_core.config.worker_settings import ProbeSettings, WorkerSettings
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import age_seconds, since_boot
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.probes.requests import MARGIN_SECONDS, ProbeAnswer, ask, name_of

THREADS = 1024
"""The threads of a prober's `Blocking`. A program whose folder hangs keeps its thread, one for each probe."""

PROGRAMS_AT_ONCE, PROGRAMS_AGAIN_AT_ONCE = 24, 8
CONNECTIONS_AT_ONCE, CONNECTIONS_AGAIN_AT_ONCE = 200, 100
"""The probes at the same time, of those that passed last and of those that failed. Separate limits keep probes that
hang from delaying the others."""

SPREAD = 0.25
"""The part of an interval over which the first probes are spread, so that 500 workers aren't probed at once."""

EXCUSED = 0.5
"""A failure doesn't count if nothing was scheduled here for this part of its timeout."""

END_SECONDS = 2.0
"""The time at the end for programs under way; most take milliseconds."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The state of one process's probes."""

    identity: ProcessIdentity
    failing: str = ""
    """The probes that failed often enough, in words; empty while all pass."""
    failures: int = 0
    """The most failures in a row of one probe, enough or not."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The results of one probe."""

    name: str
    needed: int
    """The number of failures in a row after which it counts as failing."""
    failures: int = 0
    words: str = ""

    def counted(self, answer: ProbeAnswer) -> Tally:
        """The tally with one more result; a pass clears the failures."""
        failures = 0 if answer.ok else self.failures + 1
        return Tally(self.name, self.needed, failures, answer.words)

    def failing(self) -> str:
        """The failure in words; empty if it passes."""
        if self.failures < self.needed:
            return ""
        often = "failed" if self.failures == 1 else f"failed {self.failures} times in a row"
        return f"probe {self.name} {often}: {self.words}"


def first_wait(worker_id: str, number: int, interval: float, age_seconds: float) -> float:
    """The seconds until the first probe: one interval after the process started, plus a different part for each."""
    own = crc32(f"{worker_id}/{number}".encode()) / 2**32
    return max(0.0, interval - max(0.0, age_seconds)) + own * SPREAD * interval


@dataclass(slots=True, eq=False)
class _Watch:
    """A probed process. Other threads only read `result`, which is replaced as a whole."""

    worker: WorkerSettings
    identity: ProcessIdentity
    tallies: list[Tally]
    result: ProbeResult | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Prober:
    """Probes while `run` runs. `verdict` and `failing` may be called from any thread; the others from the event loop.

    `blocking` must be its own, with `THREADS` threads. `lag` returns the time in which nothing was scheduled within
    some seconds: a failure while we didn't run ourselves isn't counted.
    """

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        lag: Callable[[float], float] = lambda _: 0.0,
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._parts = parts
        self._blocking = blocking
        self._lag = lag
        self._changed = changed
        self._watches: dict[str, _Watch] = {}
        self._running = False
        self._asking: set[asyncio.Task[ProbeAnswer]] = set()
        self._lanes = {
            (True, True): asyncio.Semaphore(PROGRAMS_AT_ONCE),
            (True, False): asyncio.Semaphore(PROGRAMS_AGAIN_AT_ONCE),
            (False, True): asyncio.Semaphore(CONNECTIONS_AT_ONCE),
            (False, False): asyncio.Semaphore(CONNECTIONS_AGAIN_AT_ONCE),
        }

    def worker(self, worker_id: str, worker: WorkerSettings, identity: ProcessIdentity | None) -> None:
        """Take the worker's current process and settings; None without a process."""
        there = self._watches.get(worker_id)
        if there is not None and there.identity == identity and there.worker.probes == worker.probes:
            there.worker = worker
            return
        self.forget(worker_id)
        if identity is None or not worker.probes:
            return
        config = self._parts.host.config
        tallies = [Tally(name_of(config, worker, probe), probe.failures) for probe in worker.probes]
        self._watches[worker_id] = watch = _Watch(worker, identity, tallies)
        if self._running:
            self._begin(watch)

    def forget(self, worker_id: str) -> None:
        """Stop probing the worker and forget its results."""
        watch = self._watches.pop(worker_id, None)
        for task in watch.tasks if watch else ():
            task.cancel()

    def verdict(self, worker_id: str, identity: ProcessIdentity) -> ProbeResult | None:
        """The state of exactly this process's probes; None before the first response."""
        watch = self._watches.get(worker_id)
        result = watch.result if watch else None
        return result if result and result.identity == identity else None

    def failing(self, worker_id: str, identity: ProcessIdentity) -> str:
        """The failure of exactly this process's probes, in words; empty if none is known."""
        result = self.verdict(worker_id, identity)
        return result.failing if result else ""

    async def run(self, stopping: asyncio.Event) -> None:
        """Probe until asked to stop. It only leaves programs, in their threads, that don't end within `END_SECONDS`."""
        self._running = True
        try:
            for watch in self._watches.values():
                self._begin(watch)
            await stopping.wait()
        finally:
            self._running = False
            tasks = [task for watch in self._watches.values() for task in watch.tasks]
            for watch in self._watches.values():
                watch.tasks.clear()
            for task in tasks:
                task.cancel()
            await _ended(tasks, END_SECONDS)
            await _ended(self._asking, END_SECONDS)

    def _begin(self, watch: _Watch) -> None:
        for number, probe in enumerate(watch.worker.probes):
            work = self._ask_on_and_on(watch, number, probe)
            watch.tasks.append(asyncio.create_task(work, name=f"probe {watch.worker.id}/{number}"))

    async def _ask_on_and_on(self, watch: _Watch, number: int, probe: ProbeSettings) -> None:
        age = age_seconds(watch.identity.start)
        await asyncio.sleep(first_wait(watch.worker.id, number, probe.interval, age))
        loop = asyncio.get_running_loop()
        asked: asyncio.Task[ProbeAnswer] | None = None
        while True:
            async with self._lanes[probe.exec is not None, watch.tallies[number].failures == 0]:
                begun, since = loop.time(), since_boot()
                if asked is None:
                    asked = self._ask(watch, probe)
                await _within(asked, probe)
            if asked.done():
                answer, asked = _answer(asked), None
            else:
                answer = ProbeAnswer(False, "the probe is stuck: its folder doesn't respond")
            if answer.ok or self._lag(since_boot() - since) < EXCUSED * probe.timeout:
                self._count(watch, number, answer)
            await asyncio.sleep(max(0.0, probe.interval - (loop.time() - begun)))

    def _ask(self, watch: _Watch, probe: ProbeSettings) -> asyncio.Task[ProbeAnswer]:
        work = ask(self._parts.host.config, watch.worker, probe, self._blocking)
        task = asyncio.create_task(work, name=f"question to {watch.worker.id}")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    def _count(self, watch: _Watch, number: int, answer: ProbeAnswer) -> None:
        before = watch.result
        watch.tallies[number] = watch.tallies[number].counted(answer)
        failing = "; ".join(filter(None, (tally.failing() for tally in watch.tallies)))
        watch.result = ProbeResult(watch.identity, failing, max(tally.failures for tally in watch.tallies))
        worker_id = watch.worker.id
        if bool(failing) != bool(before and before.failing):
            self._changed(worker_id)
        if failing and not (before and before.failing):
            about = LogEvent.PROBE_FAILED.extra(worker_id=worker_id, reason=failing)
            log.warning("%s: %s", worker_id, failing, extra=about)
        elif before and before.failing and not failing:
            log.info("%s: all probes pass again", worker_id, extra=LogEvent.PROBE_PASSED.extra(worker_id=worker_id))


def _answer(asked: asyncio.Task[ProbeAnswer]) -> ProbeAnswer:
    error = asked.exception()
    if error is None:
        return asked.result()
    log.error("a probe failed unexpectedly", exc_info=error)
    return ProbeAnswer(False, f"unexpected error: {describe(error)}")


async def _within(asked: asyncio.Task[ProbeAnswer], probe: ProbeSettings) -> None:
    """Wait for the result up to its timeout; a probe that doesn't return must not keep its slot."""
    try:
        await asyncio.wait({asked}, timeout=probe.timeout + MARGIN_SECONDS)
    except asyncio.CancelledError:
        if probe.exec is None:  # a program goes on in its thread, and had better be seen to its end
            asked.cancel()
        raise


async def _ended(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    """Wait for these tasks up to a limit, and then cancel them."""
    left = set(tasks)
    if left:
        _, left = await asyncio.wait(left, timeout=seconds)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
