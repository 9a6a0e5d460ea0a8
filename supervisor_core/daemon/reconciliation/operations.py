"""The blocking operations of an actor: starting and stopping its worker, and the decision about its end."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.jobs.handler_checks import check_alone, check_startable
from supervisor_core.jobs.handlers import BETWEEN_SECONDS
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.stopping import StopReport
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.observation import process_state
from supervisor_core.workers.planning import Why
from supervisor_core.workers.restarts import limits as starts
from supervisor_core.workers.restarts.history import RestartHistory
from supervisor_core.workers.restarts.limits import TooManyStarts, note_start
from supervisor_core.workers.restarts.policy import Next, RestartDecision, automatic_starts, decide, exit_in_words

LOOK_HOLDS_SECONDS = 1.0
"""The search that an end was judged by also serves the start that follows within this time."""

log = logging.getLogger(__name__)

StopRequested = Callable[[], bool]
"""This program was asked to stop."""


class OperationCancelled(Exception):
    """The supervisor is stopping, so the operation didn't start; the next run plans it again."""


class OperationResult(NamedTuple):
    """The state of the worker after an operation, freshly observed."""

    state: WorkerState
    quarantined: bool
    pid: int | None = None
    plan_again: bool = False
    """True if it isn't in the planned state and can be brought there right now."""
    error: str = ""
    """The reason why the operation failed."""


class WorkerOperations:
    """Called by the actor of this worker, one at a time; every call may block."""

    def __init__(self, worker_id: str, parts: DaemonContext, adapter: WorkerAdapter) -> None:
        self.error: str | None = None
        """The reason why it could not be started; None once it was."""
        self._last_end: tuple[WorkerEnded, float] | None = None
        """The newest end of its process, and the monotonic time at which it was noticed."""
        self.may_start = False
        """Its backoff has ended, so the next start needs no decision."""
        self._worker_id = worker_id
        self._parts = parts
        self._adapter = adapter
        self._restart_history: RestartHistory | None = None
        self._recalling = threading.Lock()
        self._automatic = False
        """The next start is automatic, and so is counted."""
        self._last_search: tuple[float, FoundWorker] | None = None
        """The search that its end was judged by, and its monotonic time."""
        self._failed_to_start = False
        """True if the last start didn't create a process."""

    @property
    def failed_after_seconds(self) -> float:
        """The length of the short run that its process follows automatically."""
        return self._restart_history.failed_after_seconds if self._restart_history is not None else 0.0

    def note_end(self, ended: WorkerEnded) -> None:
        """Note that a process just ended; called on the event loop."""
        self._last_end = ended, time.monotonic()

    def decide(self, worker: WorkerSettings, stopped: StopRequested) -> RestartDecision | None:
        """Decide about a restart after its exit; None if it didn't exit on its own and may be started.

        Its code doesn't change meanwhile: a code change stops it, which isn't an exit on its own.
        """
        history, now = self.recall(), self._parts.host.now()
        self._automatic = True
        if self.may_start:
            return None
        with self._code_locked(worker, stopped):
            on_its_own = self._ended_on_its_own(history, now)
        if not on_its_own and not self._failed_to_start:
            history.forget_decision()
            self._automatic = False
            return None
        if history.decision is not None and history.decision.what is not Next.QUARANTINE:  # that a person has ended
            return _rest_of(history.decision, now)
        counts = starts.restarts_count(self._parts.host.drive)
        count = automatic_starts(starts.read_starts(self._state_dir, worker.id), now) if counts else None
        decision = decide(worker.restart, history.lives, count, now, random.random())  # noqa: S311 (jitter, no secret)
        history.decided(decision)
        return decision

    def give_up(self, decision: RestartDecision) -> None:
        """Quarantine it, until a person resumes or restarts it."""
        self._parts.host.quarantines.begin(self._worker_id, decision.words, self._parts.host.now())
        about = LogEvent.WORKER_QUARANTINED.extra(reason=decision.words)
        log.error("%s is %s", self._worker_id, decision.words, extra=about)

    def start(self, worker: WorkerSettings, stopped: StopRequested) -> OperationResult:
        """Start it, unless it was paused or quarantined since the plan was made."""
        with self._code_locked(worker, stopped):
            return self._start(worker)

    def _start(self, worker: WorkerSettings, *, waits: bool = False) -> OperationResult:
        host, automatic, failed = self._parts.host, self._automatic, self._failed_to_start
        self._failed_to_start = self.may_start = self._automatic = False
        try:
            if host.pauses.read(worker.id) or host.quarantines.read(worker.id):
                return self._look()
            recent, self._last_search = self._last_search, None
            if recent is not None and time.monotonic() - recent[0] < LOOK_HOLDS_SECONDS:
                found = recent[1]
            else:
                found = self._adapter.search(worker.id)
            if found.identity is not None:  # by somebody's hand, since the plan
                return self._look()
            check_alone(found)
            check_startable(host, worker)  # what would fail for sure is not tried, and so not counted
        except (SupervisorError, OSError) as error:
            self._automatic, self._failed_to_start = automatic, failed  # nothing has come of it
            return self._failed(error)
        try:
            if automatic and starts.restarts_count(host.drive):
                note_start(self._state_dir, worker, host.now())
            self._adapter.start(worker.id, found, waits=waits)
        except TooManyStarts as error:
            self.recall().forget_decision()  # the next plan decides with the count as it is now
            return self._failed(error, again=True)
        except LaunchError as error:
            found = self._adapter.state(self._worker_id)
            if found.record is None or found.record.identity is None:
                self.recall().failed_to_start(self._parts.host.now(), asked=not automatic)
                self._failed_to_start = True
            else:  # its end is seen like any other
                self.recall().began(found.record, self._parts.host.now(), asked=not automatic)
            return self._failed(error, again=True)
        except (SupervisorError, OSError) as error:
            return self._failed(error)
        self.error = None
        return self._look(asked=not automatic)

    def stop(self, worker: WorkerSettings, stopped: StopRequested) -> OperationResult:
        """Stop it, unless it was enabled again, or quarantined, since the plan was made."""
        with self._code_locked(worker, stopped):
            wanted = self._parts.host.config.workers.get(worker.id)
            if wanted is not None and (wanted.enabled or wanted.quarantined):
                return self._look()._replace(plan_again=True)
            report = self._adapter.stop(self._worker_id, Why.NOT_ENABLED)
            return self._look()._replace(error=_stop_error(report))

    def remove(self, worker: WorkerSettings, stopped: StopRequested) -> OperationResult:
        """Stop and forget it, unless it was put back since the plan was made."""
        with self._code_locked(worker, stopped):
            if worker.id in self._parts.host.config.workers:
                return self._look()._replace(plan_again=True)
            report = self._adapter.remove(self._worker_id)
        if report.stopped:  # a namesake begins with nothing held against it
            self._parts.host.quarantines.end(self._worker_id)
        state = WorkerState.STOPPED if report.stopped else WorkerState.STUCK
        return OperationResult(state, quarantined=False, error=_stop_error(report))

    def restart(self, worker: WorkerSettings, why: Why, stopped: StopRequested) -> OperationResult:
        """Restart it, unless the start would surely fail or it hangs too often."""
        with self._code_locked(worker, stopped):
            return self._restart(worker, why)

    def _restart(self, worker: WorkerSettings, why: Why) -> OperationResult:
        found = self._adapter.search(worker.id)
        record = found.record
        if why is Why.CHANGED and record and record.spec_hash == self._parts.host.config.spec_hash(worker):
            return self._look()  # a person's restart has brought it about already
        if why is Why.HUNG:
            now = self._parts.host.now()
            count = automatic_starts(starts.read_starts(self._state_dir, worker.id), now)
            if count >= worker.restart.max_per_hour:
                words = f"quarantined: it hangs again after {count} automatic restarts in the last hour"
                self._parts.host.quarantines.begin(worker.id, words, now)
                log.error("%s is %s", worker.id, words, extra=LogEvent.WORKER_QUARANTINED.extra(reason=words))
                return self._look()
        try:
            check_alone(found)
            check_startable(self._parts.host, worker)
        except (SupervisorError, OSError) as error:
            return self._failed(error, what="isn't restarted and keeps running")
        log.warning("restarting %s: %s", worker.id, why, extra=LogEvent.WORKER_RESTARTING.extra(reason=str(why)))
        report = self._adapter.stop(worker.id, why)
        result = self._look()._replace(error=_stop_error(report))
        self._automatic = why is Why.HUNG
        if result.state is not WorkerState.STOPPED:
            return result
        time.sleep(BETWEEN_SECONDS)
        return self._start(worker, waits=why is Why.CHANGED)  # the next worker's restart depends on it

    def after_command(self, *, moved: bool) -> OperationResult:
        """Observe it after a command; where that `moved` the worker, its new process was requested."""
        if not moved:
            return self._look()
        self._failed_to_start = self.may_start = False
        return self._look(asked=True)

    def reconsider(self) -> None:
        """Forget the decision about its last end: its restart policy has changed."""
        self.recall().forget_decision()

    @contextmanager
    def _code_locked(self, worker: WorkerSettings, stopped: StopRequested) -> Iterator[None]:
        """Hold its code still; `OperationCancelled` where this program was asked to stop before that."""
        with checkout_shared(self._parts.host, worker, wait=True, should_stop=stopped) as ours:
            if not ours:
                raise OperationCancelled
            yield

    @property
    def _state_dir(self) -> Path:
        return self._parts.host.config.state_dir

    def recall(self) -> RestartHistory:
        """Its past runs, read once: also by the first look of a daemon, which must know what its process follows."""
        with self._recalling:
            if self._restart_history is None:
                self._restart_history = RestartHistory(self._state_dir, self._worker_id)
            return self._restart_history

    def _ended_on_its_own(self, history: RestartHistory, now: datetime) -> bool:
        """True if it ran and wasn't stopped: a stop is recorded first, and its record removed after it.

        A process that ended with its host didn't exit on its own.
        """
        begun, found = time.monotonic(), self._adapter.search(self._worker_id)
        self._last_search = begun, found
        identity = found.record.identity if found.record else None
        if found.record is None or identity is None or process_state(found) is not WorkerState.STOPPED or found.ordered:
            return False
        me = self._parts.host.processes.identify(os.getpid())
        if me is not None and me.boot_id != identity.boot_id:
            return False
        code, ago = None, 0.0
        if self._last_end is not None and self._last_end[0].identity == identity:
            code, ago = self._last_end[0].exit_code, max(0.0, time.monotonic() - self._last_end[1])
        if code is None:
            code = self._parts.host.processes.exit_code(identity, waits=True)
        if history.ended(found.record, code, now, ago) is not None:
            about = LogEvent.WORKER_EXITED.extra(pid=identity.pid, exit_code=code)
            log.warning("%s (pid %d) %s", self._worker_id, identity.pid, exit_in_words(code), extra=about)
        return True

    def _failed(self, error: Exception, *, again: bool = False, what: str = "can't start") -> OperationResult:
        if str(error) != self.error:
            about = LogEvent.WORKER_START_FAILED.extra(error=str(error))
            log.error("%s %s: %s", self._worker_id, what, error, extra=about)
        self.error = str(error)
        return self._look()._replace(plan_again=again, error=self.error)

    def _look(self, *, asked: bool | None = None) -> OperationResult:
        """Observe it; a new launch is on record from here on, with who requested it."""
        found: FoundWorker = self._adapter.state(self._worker_id)
        if found.record is not None and found.record.identity is not None and asked is not None:  # dead or alive
            self.recall().began(found.record, self._parts.host.now(), asked=asked)
        return OperationResult(
            process_state(found),
            quarantined=self._parts.host.quarantines.read(self._worker_id) is not None,
            pid=found.identity.pid if found.identity else None,
        )


def _stop_error(report: StopReport) -> str:
    """The reason why a stop failed; empty where nothing is left."""
    return "" if report.stopped else f"stuck: {', '.join(map(str, report.survivors))} can't be stopped"


def _rest_of(decision: RestartDecision, now: datetime) -> RestartDecision:
    """The rest of a backoff that began earlier, perhaps with the daemon before this one."""
    decision = decision.at(now)
    if decision.due_at is None:
        return decision
    return replace(decision, pause_seconds=max(0.0, (decision.due_at - now).total_seconds()))
