"""What an actor has done about its worker, in a thread: starting, stopping, and deciding what follows on an end."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.process_facts.facts import ProcessIdentity
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
from supervisor_core.workers.restarts.policy import Next, RestartDecision, automatic_starts, decide

LOOK_HOLDS_SECONDS = 0.2
"""For so long the search with which an end was judged also serves the start that follows."""

log = logging.getLogger(__name__)

StopRequested = Callable[[], bool]
"""Whether this program was told to stop."""


class OperationCancelled(Exception):
    """This program was told to stop before the action could begin; the next one plans anew."""


class OperationResult(NamedTuple):
    """What a fresh look shows, after something was done."""

    state: WorkerState
    quarantined: bool
    pid: int | None = None
    plan_again: bool = False
    """It is not as it was meant to be, and something can be done about that at once."""


class WorkerOperations:
    """For the actor of this worker, one call at a time. Every call may block."""

    def __init__(self, worker_id: str, parts: DaemonContext, adapter: WorkerAdapter) -> None:
        self.error: str | None = None
        """Why it could not be brought up; None once it was."""
        self._heard: tuple[WorkerEnded, float] | None = None
        """The newest end of a process of it that was heard of, and when."""
        self.may_start = False
        """Its pause after an end is over: the next start need not be decided again."""
        self._worker_id = worker_id
        self._parts = parts
        self._adapter = adapter
        self._past: RestartHistory | None = None
        self._automatic = False
        """Whether the start that comes next is by itself, and so is counted."""
        self._looked: tuple[float, FoundWorker] | None = None
        """The look with which its end was judged, and when."""
        self._failed_to_start = False
        """Whether the last start did not even make a process."""

    def hear(self, ended: WorkerEnded) -> None:
        """A process of it has ended just now. One assignment: called on the event loop."""
        self._heard = ended, time.monotonic()

    def decide(self, worker: WorkerSettings, told: StopRequested) -> RestartDecision | None:
        """What follows on its end; None where it did not end by itself, so that nothing keeps it from being started.

        Judged while nobody changes its code: whoever does stops it as well, and that is no end by itself.
        """
        past, now = self._its_past(), self._parts.host.now()
        self._automatic = True
        if self.may_start:
            return None
        with self._its_code_at_rest(worker, told):
            by_itself = self._ended_by_itself(past, now)
        if not by_itself and not self._failed_to_start:
            past.forget_decision()
            self._automatic = False
            return None
        if past.decision is not None and past.decision.what is not Next.QUARANTINE:  # that a person has ended
            return _rest_of(past.decision, now)
        count = automatic_starts(starts.read_starts(self._state_dir, worker.id), now)
        decision = decide(worker.restart, past.lives, count, now, random.random())  # noqa: S311 (jitter, no secret)
        past.decided(decision)
        return decision

    def give_up(self, decision: RestartDecision) -> None:
        """It can't live: quarantined from now on, until a person resumes or restarts it."""
        self._parts.host.quarantines.begin(self._worker_id, decision.words, self._parts.host.now())
        log.error("%s is %s", self._worker_id, decision.words)

    def start(self, worker: WorkerSettings, told: StopRequested) -> OperationResult:
        """Bring it up, unless somebody wants it to rest since the plan was made."""
        with self._its_code_at_rest(worker, told):
            return self._start(worker)

    def _start(self, worker: WorkerSettings) -> OperationResult:
        host, automatic, failed = self._parts.host, self._automatic, self._failed_to_start
        self._failed_to_start = self.may_start = self._automatic = False
        try:
            if host.pauses.read(worker.id) or host.quarantines.read(worker.id):
                return self._look()
            found = self._just_looked()
            if found is None:
                found = self._adapter.search(worker.id)
            if found.identity is not None:  # by somebody's hand, since the plan
                return self._look()
            check_alone(found)
            check_startable(host, worker)  # what would fail for sure is not tried, and so not counted
        except (SupervisorError, OSError) as error:
            self._automatic, self._failed_to_start = automatic, failed  # nothing has come of it
            return self._failed(error)
        try:
            if automatic:
                note_start(self._state_dir, worker, host.now())
            identity = self._adapter.start(worker.id, found)
        except TooManyStarts as error:
            self._its_past().forget_decision()  # the next plan decides with the count as it is now
            return self._failed(error, again=True)
        except LaunchError as error:
            found = self._adapter.state(self._worker_id)
            if found.record is None or found.record.identity is None:
                self._its_past().failed_to_start(self._parts.host.now(), asked=not automatic)
                self._failed_to_start = True
            else:  # its end is seen like any other
                self._its_past().began(found.record, self._parts.host.now(), asked=not automatic)
            return self._failed(error, again=True)
        except (SupervisorError, OSError) as error:
            return self._failed(error)
        log.info("%s started as pid %d", self._worker_id, identity.pid)
        self.error = None
        return self._look(asked=not automatic)

    def stop(self, worker: WorkerSettings, told: StopRequested) -> OperationResult:
        """End all of it, unless it is wanted again since the plan was made."""
        with self._its_code_at_rest(worker, told):
            wanted = self._parts.host.config.workers.get(worker.id)
            if wanted is not None and wanted.enabled:
                return self._look()._replace(plan_again=True)
            return self._ended(self._adapter.stop(self._worker_id, Why.NOT_ENABLED))

    def remove(self, worker: WorkerSettings, told: StopRequested) -> OperationResult:
        """End all of it and forget it, unless it was put back since the plan was made."""
        with self._its_code_at_rest(worker, told):
            if worker.id in self._parts.host.config.workers:
                return self._look()._replace(plan_again=True)
            report = self._adapter.remove(self._worker_id)
        self._say(report)
        if report.stopped:  # a namesake begins with nothing held against it
            self._parts.host.quarantines.end(self._worker_id)
        state = WorkerState.STOPPED if report.stopped else WorkerState.STUCK
        return OperationResult(state, quarantined=False)

    def restart(self, worker: WorkerSettings, why: Why, told: StopRequested) -> OperationResult:
        """Stop it and start it; nothing is stopped where the start would fail for sure, or where it hangs too often."""
        with self._its_code_at_rest(worker, told):
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
                words = f"quarantined: it hangs again, and was started by itself {count} times within the last hour"
                self._parts.host.quarantines.begin(worker.id, words, now)
                log.error("%s is %s", worker.id, words)
                return self._look()
        try:
            check_alone(found)
            check_startable(self._parts.host, worker)
        except (SupervisorError, OSError) as error:
            return self._failed(error, what="is not restarted, and goes on as it is")
        log.warning("%s is restarted: %s", worker.id, why)
        tended = self._ended(self._adapter.stop(worker.id, why))
        self._automatic = why is Why.HUNG
        if tended.state is not WorkerState.STOPPED:
            return tended
        time.sleep(BETWEEN_SECONDS)
        return self._start(worker)

    def after_command(self, *, moved: bool) -> OperationResult:
        """A command has been carried out; where it `moved` the worker, whatever runs now was asked for."""
        if not moved:
            return self._look()
        self._failed_to_start = self.may_start = False
        return self._look(asked=True)

    def reconsider(self) -> None:
        """Its restart policy has changed: what was decided after its last end is decided anew."""
        self._its_past().forget_decision()

    @contextmanager
    def _its_code_at_rest(self, worker: WorkerSettings, told: StopRequested) -> Iterator[None]:
        """While nobody changes its code; `NotNow` where this program was told to stop before that."""
        with checkout_shared(self._parts.host, worker, wait=True, told=told) as ours:
            if not ours:
                raise OperationCancelled
            yield

    @property
    def _state_dir(self) -> Path:
        return self._parts.host.config.state_dir

    def _its_past(self) -> RestartHistory:
        if self._past is None:
            self._past = RestartHistory(self._state_dir, self._worker_id)
        return self._past

    def _ended_by_itself(self, past: RestartHistory, now: datetime) -> bool:
        """Whether it ran and nobody stopped it: whoever does puts that on record first, and forgets the record after.
        What the host took with it when it went down did not end by itself."""
        begun, found = time.monotonic(), self._adapter.search(self._worker_id)
        self._looked = begun, found
        identity = found.record.identity if found.record else None
        if found.record is None or identity is None or process_state(found) is not WorkerState.STOPPED or found.ordered:
            return False
        me = self._parts.host.processes.identify(os.getpid())
        if me is not None and me.boot_id != identity.boot_id:
            return False
        heard = self._heard if self._heard is not None and self._heard[0].identity == identity else None
        code = self._exit_code(identity)
        ago = max(0.0, time.monotonic() - heard[1]) if heard is not None else 0.0
        if past.ended(found.record, code, now, ago) is not None:
            known = "not known" if code is None else code
            log.warning("%s (pid %d) has ended by itself, exit code %s", self._worker_id, identity.pid, known)
        return True

    def _just_looked(self) -> FoundWorker | None:
        """What the judgement of its end saw, if that was a moment ago."""
        looked, self._looked = self._looked, None
        return looked[1] if looked is not None and time.monotonic() - looked[0] < LOOK_HOLDS_SECONDS else None

    def _exit_code(self, identity: ProcessIdentity) -> int | None:
        heard = self._heard[0] if self._heard is not None else None
        if heard is not None and heard.identity == identity and heard.exit_code is not None:
            return heard.exit_code
        return self._parts.host.processes.exit_code(identity)

    def _ended(self, report: StopReport) -> OperationResult:
        self._say(report)
        return self._look()

    def _say(self, report: StopReport) -> None:
        if report.stopped:
            log.info("%s is stopped (%s)", report.worker_id, report.ending)
        else:
            survivors = ", ".join(map(str, report.survivors))
            log.error("%s is stuck: %s could not be ended", report.worker_id, survivors)

    def _failed(self, error: Exception, *, again: bool = False, what: str = "could not be started") -> OperationResult:
        if str(error) != self.error:
            log.error("%s %s: %s", self._worker_id, what, error)
        self.error = str(error)
        return self._look()._replace(plan_again=again)

    def _look(self, *, asked: bool | None = None) -> OperationResult:
        """How it is now; a launch that is new is on record from here on, with who wanted it."""
        found: FoundWorker = self._adapter.state(self._worker_id)
        if found.record is not None and found.record.identity is not None and asked is not None:  # dead or alive
            self._its_past().began(found.record, self._parts.host.now(), asked=asked)
        return OperationResult(
            process_state(found),
            quarantined=self._parts.host.quarantines.read(self._worker_id) is not None,
            pid=found.identity.pid if found.identity else None,
        )


def _rest_of(decision: RestartDecision, now: datetime) -> RestartDecision:
    """What is left of a pause that began earlier, perhaps with the daemon before this one."""
    decision = decision.at(now)
    if decision.due_at is None:
        return decision
    return replace(decision, pause_seconds=max(0.0, (decision.due_at - now).total_seconds()))
