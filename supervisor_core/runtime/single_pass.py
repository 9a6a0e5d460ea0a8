"""The single pass for one worker: recover, take its flags, do what waits, deliver the results, say how it is."""

from __future__ import annotations

import logging
import time

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.worker import start_watcher
from supervisor_core.config import Worker
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.planning import ActionKind, Wanted, plan
from supervisor_core.ledger import jobs
from supervisor_core.runtime import results
from supervisor_core.runtime.executing import execute
from supervisor_core.runtime.flag_intake import FlagIntake
from supervisor_core.runtime.host import trust_of
from supervisor_core.runtime.observing import Seen, look
from supervisor_core.runtime.ownership import pass_ownership
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.recovery import report_interrupted

log = logging.getLogger(__name__)


class SinglePass:
    """What a task scheduler runs every few minutes. `well` says afterwards whether all of it went well."""

    def __init__(self, parts: Parts, worker: Worker, *, heal: bool = False) -> None:
        self._parts = parts
        self._worker = worker
        self._heal = heal
        self.well = True
        self.actions: list[str] = []

    def run(self) -> bool:
        """Do it, beside no daemon and no other pass for this worker."""
        begun = time.monotonic()
        host, ledger = self._parts.host, self._parts.ledger
        with pass_ownership(host.config.state_dir, self._worker.id):
            report_interrupted(host, ledger, [self._worker.id])
            self._take_flags()
            self._do_what_waits()
            seen = self._look()
            if self._heal:
                seen = self._bring_up(seen)
            while results.deliver(host, ledger):
                pass
            host.pauses.settle(self._worker.id)
        if not seen.verdict.fine:
            self._failed(f"{self._worker.id} is {seen.verdict.health}: {seen.verdict.reason}")
        done = ", ".join(self.actions) or "nothing to do"
        log.info("pass for %s: %s, in %.2f s", self._worker.id, done, time.monotonic() - begun)
        return self.well

    def _take_flags(self) -> None:
        host, ledger = self._parts.host, self._parts.ledger
        try:
            swept = FlagIntake(host, ledger, [self._worker.id], trust_of(host.config)).sweep()
        except (DriveUnavailable, OSError) as error:
            self._failed(str(error))
            return
        if swept.rejected:
            self._failed(f"{swept.rejected} flags were rejected; their reasons lie beside them")

    def _do_what_waits(self) -> None:
        host, ledger = self._parts.host, self._parts.ledger
        while job := ledger.read(lambda connection: jobs.next_to_run(connection, self._worker.id)):
            outcome = execute(job, host, ledger)
            self.actions.append(job.handler)
            if outcome is not None and not outcome.success:
                self.well = False

    def _look(self) -> Seen:
        return look(self._parts.host, [self._worker])[0]

    def _bring_up(self, seen: Seen) -> Seen:
        """Start a worker that should run and does not, once."""
        host, worker = self._parts.host, self._worker
        wanted = Wanted(worker.enabled, worker.quarantined, seen.pause is not None)
        if plan({worker.id: wanted}, {worker.id: seen.observation.state})[worker.id] is not ActionKind.START:
            return seen
        self.actions.append("started")
        try:
            start_watcher(host.processes, host.drive, host.config, worker)
        except (SupervisorError, OSError) as error:
            self._failed(f"{worker.id} could not be started: {error}")
        return self._look()

    def _failed(self, why: str) -> None:
        self.well = False
        log.error("%s", why)
