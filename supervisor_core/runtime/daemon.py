"""The daemon: its services together, its control door, its life from the lock to the last word in `runtime.json`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from supervisor_core.adapters.processes_identity import identify
from supervisor_core.adapters.worker import stop_watcher_gracefully
from supervisor_core.config import Worker
from supervisor_core.domain.health import WorkerState
from supervisor_core.domain.jobs import FINAL, Job
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.bounds import longest_seconds, stop_seconds
from supervisor_core.ledger import jobs
from supervisor_core.runtime import notify, runtime_file
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.checkout_lock import share_checkout
from supervisor_core.runtime.control_server import Answer, ControlServer
from supervisor_core.runtime.dispatcher import Dispatcher
from supervisor_core.runtime.forwarder import Forwarder
from supervisor_core.runtime.forwarding import why_not
from supervisor_core.runtime.observing import look
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.queue_processor import QueueProcessor
from supervisor_core.runtime.results import progress_document, result_document
from supervisor_core.runtime.service_names import CHAT, FORWARDER, LATER
from supervisor_core.runtime.services import Registry, Service, ServiceState

log = logging.getLogger(__name__)

SPARE_THREADS = 8
"""Beside one for each worker's handler: the queue, the control door, looks at the workers."""

STOP_MARGIN_SECONDS = 5.0
"""What a stop may take beyond the longest time that a handler may take: its outcome is written, all is let go of."""

LONGEST_WAIT_SECONDS = 24 * 3600.0
NOT_BUILT = "not built yet"
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
"""A terminal that closes asks like anybody else; nobody ends this daemon without a word in its log."""

FAILED, INTERRUPTED = 1, 130


MakeChat = Callable[[Callable[[], Awaitable[list[dict[str, Any]]]], Callable[[], None]], Service]
"""Makes the service in which people give commands and see what comes of them: out of a look at the workers, and of
what to call when a command has been filed."""


class Daemon:
    """Runs until it is asked to stop, by a signal or at the control door. Workers outlive it."""

    def __init__(self, parts: Parts, chat: MakeChat | None = None, no_chat: str = NOT_BUILT) -> None:
        self._parts = parts
        self._config = parts.host.config
        self._stopping = asyncio.Event()
        self._news = asyncio.Condition()
        self._looking: asyncio.Future[list[dict[str, Any]]] | None = None
        self._interrupted = False
        self._with_workers = False
        self._started_at = datetime.now(UTC)
        self._blocking = Blocking(len(self._config.workers) + SPARE_THREADS)
        self._queue = QueueProcessor(parts, self._blocking, self._wake_actors)
        self._dispatcher = Dispatcher(
            parts, self._blocking, self._job_finished, self._job_progressed, self._stopping.is_set
        )
        self._chat = chat(self._shared_look, self._dispatcher.wake) if chat else None
        no_forwarder = why_not(self._config)
        forwarder = None if no_forwarder else Forwarder(parts, self._blocking)
        enabled: tuple[Service | None, ...] = (self._queue, self._dispatcher, forwarder, self._chat)
        services = [service for service in enabled if service is not None]
        reasons = {CHAT: no_chat, FORWARDER: no_forwarder}
        running = {service.name for service in services}
        missing = [(name, reasons.get(name, NOT_BUILT)) for name in LATER if name not in running]
        self._registry = Registry(services, missing)
        answers: Mapping[str, Answer] = {
            "status": self._status,
            "wake": self._wake,
            "wait": self._wait,
            "stop": self._stop,
        }
        self._control = ControlServer(self._config.state_dir, answers)

    async def run(self) -> int:
        """Be the supervisor of this host; returns the exit code."""
        loop = asyncio.get_running_loop()
        for name in STOP_SIGNALS:
            with contextlib.suppress(NotImplementedError, AttributeError):  # Windows: Ctrl-C is a KeyboardInterrupt
                if name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                    continue  # whoever started us with `nohup` wants us to outlive the terminal
                loop.add_signal_handler(getattr(signal, name), self._told_to_stop, name)
        self._note(running=True)
        await self._control.start()  # first: who asks while the workers come up is told that they do
        await self._registry.start(self._stopping)
        self._note(running=True)
        log.info("supervisor %s is up, pid %d", self._config.supervisor.id, os.getpid())
        notify.ready()
        await self._stopping.wait()
        return await self._end()

    async def _end(self) -> int:
        notify.stopping()
        log.info(
            "supervisor %s is stopping; its workers %s",
            self._config.supervisor.id,
            "end" if self._with_workers else "go on",
        )
        self._tell_waiters()
        laggards = await self._registry.stop(longest_seconds(self._config) + STOP_MARGIN_SECONDS)
        if self._with_workers:
            await asyncio.gather(*(self._blocking(self._end_worker, each) for each in self._config.workers.values()))
        await self._control.stop()
        self._note(running=False)
        log.info("supervisor %s has stopped", self._config.supervisor.id)
        if laggards:
            return FAILED
        return INTERRUPTED if self._interrupted else 0

    @property
    def _stop_bound(self) -> float:
        """How long a stop may take: the command in hand is finished, whichever it is, and workers may end, too."""
        ending = max((stop_seconds(each) for each in self._config.workers.values()), default=0.0)
        return longest_seconds(self._config) + STOP_MARGIN_SECONDS + (ending if self._with_workers else 0)

    def _end_worker(self, worker: Worker) -> None:
        report = stop_watcher_gracefully(self._parts.host.processes, worker)
        level = logging.INFO if report.stopped else logging.ERROR
        log.log(level, "%s %s", worker.id, "is ended" if report.stopped else f"is stuck: {report.survivors}")

    def _told_to_stop(self, name: str) -> None:
        log.info("told to stop by %s", name)
        self._interrupted = self._interrupted or name == "SIGINT"
        self._stopping.set()

    def _note(self, *, running: bool) -> None:
        me = identify(os.getpid())
        runtime_file.write(
            self._config.state_dir,
            {
                "running": running,
                "supervisor_id": self._config.supervisor.id,
                "pid": os.getpid(),
                "start": me.start if me else None,
                "boot_id": me.boot_id if me else None,
                "hostname": socket.gethostname(),
                "started_at": to_text(self._started_at),
                "stopped_at": None if running else to_text(datetime.now(UTC)),
                "services": [report.as_json() for report in self._registry.reports()],
            },
        )

    def _wake_actors(self, worker_ids: Collection[str]) -> None:
        self._dispatcher.wake(worker_ids)

    def _job_finished(self, _job: Job) -> None:
        self._queue.wake()
        self._tell_waiters()

    def _job_progressed(self, _job: Job) -> None:
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        async def tell() -> None:
            async with self._news:
                self._news.notify_all()

        task = asyncio.ensure_future(tell())
        self._telling = task  # the loop keeps only a weak reference

    async def _wake(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        self._dispatcher.wake()
        self._queue.wake()
        return {"ok": True}

    async def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        workers = await self._shared_look()
        self._with_workers = self._with_workers or request.get("workers") is True
        self._stopping.set()
        running = [worker["id"] for worker in workers if worker["pid"]]
        return {"ok": True, "pid": os.getpid(), "workers": running, "bound_seconds": self._stop_bound}

    async def _wait(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The outcomes of a command's jobs, as soon as all have one; `stopping` where that can't be waited for.

        Who has `seen` so many steps of its handlers is also answered when there are more: with all of them, in the
        order of their times, so that nothing hangs on which of two workers' steps was written first.
        """
        task_id = str(request.get("task_id", ""))
        seen = None if request.get("seen") is None else int(request["seen"])
        seconds = min(float(request.get("seconds", 60.0)), LONGEST_WAIT_SECONDS)
        try:
            async with asyncio.timeout(seconds), self._news:
                while not self._stopping.is_set():
                    found = await self._blocking(self._jobs_of, task_id)
                    if found and all(job.state in FINAL for job in found):
                        return {"done": True, "results": [result_document(job) for job in found]}
                    steps = progress_document(found)
                    if seen is not None and len(steps) > seen:
                        return {"done": False, "progress": steps}
                    await self._news.wait()
                return {"done": False, "stopping": True}
        except TimeoutError:
            return {"done": False}

    def _jobs_of(self, task_id: str) -> list[Job]:
        return self._parts.ledger.read(lambda connection: jobs.of_task(connection, task_id))

    async def _status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        services = self._registry.reports()
        workers = await self._shared_look()
        well = all(report.state in (ServiceState.RUNNING, ServiceState.DISABLED) for report in services)
        well = well and not any(report.health == "degraded" for report in services)
        return {
            "healthy": well and all(worker["fine"] for worker in workers),
            "supervisor": {
                "id": self._config.supervisor.id,
                "state": "running",
                "pid": os.getpid(),
                "started_at": to_text(self._started_at),
            },
            "services": [report.as_json() for report in services],
            "workers": workers,
        }

    async def _shared_look(self) -> list[dict[str, Any]]:
        """One look at a time, however many ask."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._blocking(self._look))
        return await asyncio.shield(self._looking)

    def _look(self) -> list[dict[str, Any]]:
        workers, changing = [], self._dispatcher.changing_code()
        for seen in look(self._parts.host, list(self._config.workers.values())):
            document, actor = seen.as_json(), self._dispatcher.actor(seen.worker.id)
            doing = actor.state
            if doing is None and any(share_checkout(self._parts.host, seen.worker, other) for other in changing):
                doing = WorkerState.STOPPING
            if doing is not None:
                document |= {"state": str(doing), "fine": not actor.problem, "reason": f"{doing}, this is under way"}
            if actor.problem:
                document |= {"fine": False, "reason": actor.problem}
            document["last_error"] = actor.start_error
            workers.append(document)
        return workers
