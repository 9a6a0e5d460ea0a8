"""The daemon: runs the services of one host from their start to the last write of `runtime.json`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from supervisor_core.alerts.outside.notify import check_notify_urls
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import with_trouble
from supervisor_core.common.times import to_text
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon import systemd
from supervisor_core.daemon.composition import NOT_BUILT, DaemonServices
from supervisor_core.daemon.control.lifecycle import REEXEC
from supervisor_core.daemon.control.server import ControlServer, stop_answer
from supervisor_core.daemon.handlers import stop_limit_seconds, stop_seconds
from supervisor_core.daemon.status import status_document
from supervisor_core.daemon.wiring import ChatFactory, Reach, reach_of
from supervisor_core.intake.scheduler import MakeScheduler
from supervisor_core.plugins.loading import load_plugins
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.worker import stop_watcher_gracefully

log = logging.getLogger(__name__)

STOP_MARGIN_SECONDS = 5.0
"""The time that a stop may take beyond the longest handler, to write the outcome and close everything."""

STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
"""SIGHUP too, so that the log tells that a closed terminal ended this daemon."""

FAILED, INTERRUPTED = 1, 130


class Daemon:
    """Runs until asked to stop, by a signal or on the control socket. Workers outlive it."""

    def __init__(
        self,
        context: DaemonContext,
        chat: ChatFactory | None = None,
        no_chat: str = NOT_BUILT,
        scheduler: MakeScheduler | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._context = context
        self._services = services = DaemonServices(context, reach or reach_of(context), chat, no_chat, scheduler)
        self._interrupted = False
        self._with_workers = False
        self._reexecs = False
        answers = {
            "status": self._status,
            "wake": self._wake,
            "send": services.receiver.answer,
            "wait": services.waiter.answer,
            "stop": self._stop,
            **({} if sys.platform == "win32" else {"reexec": self._reexec}),
            "config": services.configuration.answer,
            "monitoring": services.monitoring.answer,
            "fleet": self._fleet,
            "relay": self._relay,
        }
        self._control = ControlServer(context.host.config.state_dir, answers)

    async def run(self) -> int:
        """Supervise this host; returns the exit code, or `REEXEC`."""
        loop = asyncio.get_running_loop()
        for name in STOP_SIGNALS:
            with contextlib.suppress(NotImplementedError, AttributeError):  # Windows: Ctrl-C is a KeyboardInterrupt
                if name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                    continue  # `nohup`: the daemon outlives the terminal
                loop.add_signal_handler(getattr(signal, name), self._stop_by_signal, name)
        try:
            await self._start()
        except BaseException:
            await self._services.runtime_file.write(running=False)  # else it would seem to have died without a word
            raise
        stopping, agent, pid = self._services.stopping, self._services.agent, os.getpid()
        about = LogEvent.DAEMON_STARTED.extra(pid=pid)
        log.info("supervisor %s started (pid %d)", agent.supervisor_id, pid, extra=about)
        for words in load_plugins().problems:
            log.error("plug-in %s", words)
        systemd.ready()
        if not gc.isenabled():  # paused for the start: what is there now stays, and needn't be looked through again
            gc.freeze()
            gc.enable()
        ended = asyncio.Event()
        watchdog = asyncio.create_task(
            systemd.Watchdog().run(ended, lambda: "" if stopping.is_set() else self._services.problem())
        )
        await stopping.wait()
        code = await self._end()
        ended.set()
        await watchdog
        return code

    async def _start(self) -> None:
        services, stopping = self._services, self._services.stopping
        await services.runtime_file.write()
        await self._control.start()  # first, so that `status` is answered while the workers start
        await services.config_history.resume()
        await services.life.spawn()
        await services.background.start(stopping)
        await services.listed.start(stopping)
        services.conditions.wake()  # by now the reconciler has reported what was interrupted
        await services.life.follow()
        await services.fleet_services.start(stopping)
        await services.outbound.start(stopping)
        await services.runtime_file.write()

    async def _end(self) -> int:
        services, config = self._services, self._context.host.config
        if self._reexecs:
            systemd.reloading()
        else:
            systemd.stopping()
        workers = "stop, too" if self._with_workers else "keep running"
        what = "restarting" if self._reexecs else "stopping"
        log.info("supervisor %s is %s; its workers %s", services.agent.supervisor_id, what, workers)
        services.waiter.notify()
        try:
            await services.agent.stop()  # before the forwarder's last round, which tells the others
        except Exception:  # the edge: whatever it is, the rest must end
            log.exception("the stop of supervisor %s couldn't be recorded", services.agent.supervisor_id)
        laggards = await services.listed.stop(stop_limit_seconds(config) + STOP_MARGIN_SECONDS)
        for group in (services.fleet_services, services.background, services.outbound):
            laggards += await group.stop(STOP_MARGIN_SECONDS)
        await services.config_history.shut_down()
        if self._with_workers:
            to_end = [worker for worker in services.reconciler.managed.workers() if not worker.quarantined]
            ending = (services.blocking(self._end_worker, worker) for worker in to_end)
            await asyncio.gather(*ending)
        await services.outputs.finish()
        services.adapter.close()
        await self._control.stop()
        services.bus.close()
        await services.runtime_file.write(running=False)
        about = LogEvent.DAEMON_STOPPED.extra(pid=os.getpid())
        log.info("supervisor %s stopped", services.agent.supervisor_id, extra=about)
        if self._reexecs:  # what hangs in a thread ends with the old program
            systemd.alive()
            return REEXEC
        if laggards:
            return FAILED
        return INTERRUPTED if self._interrupted else 0

    @property
    def _stop_bound(self) -> float:
        """The longest that a stop may take: the longest command, up to a limit, and the end of workers that end too."""
        config = self._context.host.config
        ending = max((stop_seconds(each) for each in config.workers.values()), default=0.0)
        return stop_limit_seconds(config) + STOP_MARGIN_SECONDS + (ending if self._with_workers else 0)

    def _end_worker(self, worker: WorkerSettings) -> None:
        try:
            report = stop_watcher_gracefully(self._context.host.processes, worker, "supervisor stop --workers")
        except (SupervisorError, OSError) as error:  # nobody can tell whether it runs: the others end
            log.error("%s couldn't be stopped: %s", worker.id, error)  # noqa: TRY400
            return
        self._services.runtime_file.ended_workers[worker.id] = report

    def _stop_by_signal(self, name: str) -> None:
        log.info("received %s, stopping", name)
        self._reexecs = False
        self._interrupted = self._interrupted or name == "SIGINT"
        self._services.stopping.set()

    async def _wake(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        self._services.wake()
        return {"ok": True}

    async def _fleet(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        hub = self._services.hub
        return {"hosts": hub.hosts.links() if hub else {}}

    async def _relay(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the hosts of these workers for the shell."""
        hub = self._services.hub
        if hub is None:
            return {"answers": []}
        question, workers = str(request.get("question", "")), [str(each) for each in request.get("workers", ())]
        return {"answers": await hub.fleet.relay(question, workers, int(request.get("count", 0)))}

    async def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        workers = await self._services.view.documents()
        self._with_workers = self._with_workers or request.get("workers") is True
        self._reexecs = False
        self._services.stopping.set()
        return stop_answer(workers, self._stop_bound)

    async def _reexec(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Stop, and run the program anew in this process; `refused` if it couldn't start with its configuration."""
        services, path = self._services, self._context.host.config.path
        if request.get("config") != str(path):
            return {}
        try:
            await services.blocking(check_notify_urls, await services.blocking(load_supervisor_config, str(path)))
        except SupervisorError as error:
            return {"refused": str(error)}
        workers = await services.view.documents()
        if services.stopping.is_set() and not self._reexecs:  # somebody wants it to stay stopped
            return {}
        self._reexecs = True
        services.stopping.set()
        return {**stop_answer(workers, self._stop_bound), "started_at": to_text(services.runtime_file.started_at)}

    async def _status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        services, ledger = self._services, self._context.ledger
        workers = await services.look_in_detail()
        return status_document(
            ledger,
            services.agent,
            services.configuration,
            services.life,
            services.reconciler,
            with_trouble(services.listed.reports(), ledger.trouble),
            workers,
            services.background_problems(),
            services.runtime_file.started_at,
        )
