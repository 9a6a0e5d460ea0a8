"""The single pass for one worker, as `supervisor once` runs it under a task scheduler.

It takes flags, runs waiting commands, plans and observes by the same functions as the daemon, once and in this order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.code.recovery import report_interrupted
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon import execution
from supervisor_core.daemon.environment import (
    flag_trust,
    logging_as_configured,
    opened_ledger,
    prepare_state_dir,
    validate_supervisor_environment,
)
from supervisor_core.daemon.execution import OutcomeNotWritten, RetryLimit, execute
from supervisor_core.daemon.orphans import unblock_worker
from supervisor_core.daemon.ownership import BusyError, pass_ownership
from supervisor_core.daemon.services.forwarder import send_now
from supervisor_core.daemon.services.monitoring import record_pause_flag_change
from supervisor_core.daemon.services.retention import sweep
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.logging.log import worker_context
from supervisor_core.host.old_files import next_sweep
from supervisor_core.host.process_facts.signals import StopRequest, catch_stop_signals
from supervisor_core.intake.inbox import SETTLE_SECONDS, FlagIntake
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.handler_checks import check_alone
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.health import FROZEN_SECONDS, Health
from supervisor_core.workers.heartbeats.files import SupervisorHeartbeat, write_heartbeat_files, write_heartbeat_rows
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.output.service import maintain_output
from supervisor_core.workers.pauses import PauseFlagChange
from supervisor_core.workers.planning import ActionKind, plan
from supervisor_core.workers.restarts.history import finished_reason, note_start, restarts_count
from supervisor_core.workers.status import DesiredState, WorkerStatus
from supervisor_core.workers.worker import find_watcher, start_watcher

INTERRUPTED = 130
LOOK_AGAIN_SECONDS = 0.5
"""Pause between two checks of a worker that was just stopped by a signal, until it continues or counts as frozen."""

SWEEP_SECONDS = 2.0
"""The time a pass has for deleting what is old."""

log = logging.getLogger(__name__)


@dataclass
class Findings:
    """`actions` are names of handlers, and `started`; `problems` are sentences. Without problems the pass succeeded."""

    actions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        return not self.problems

    def fail(self, problem: str, level: int = logging.ERROR) -> None:
        """Note a problem and log it; once, however many steps meet it."""
        if problem not in self.problems:
            log.log(level, "%s", problem)
            self.problems.append(problem)

    def note(self, problem: str) -> None:
        """Note what the log says already."""
        if problem not in self.problems:
            self.problems.append(problem)

    @contextmanager
    def collect_errors(self, prefix: str = "") -> Iterator[None]:
        """Run one step; its error becomes a problem, and the pass continues to its heartbeat."""
        try:
            yield
        except (SupervisorError, OSError) as error:
            self.fail(f"{prefix}{error}")
        except Exception as error:
            log.exception("a step of the pass failed")
            self.fail(f"{prefix}Unexpected {describe(error)}. See the log for details.")


class Supervisor:
    """One worker's supervisor. An invalid configuration is refused with a line for each mistake."""

    def __init__(self, config_path: str | Path | None = None, worker_id: str | None = None) -> None:
        self.config = load_supervisor_config(config_path)
        self.worker = self.config.pick_worker(worker_id)
        self.host = open_doors(self.config)
        self.findings = Findings()
        self.busy_reason = ""
        """The holder of a lock that the pass needs; empty if the pass had it."""
        self._stop_request = StopRequest()
        self._is_owner = False
        self._open_ledger: Ledger | None = None
        self.host.pauses.hand_made = self._record_pause_flag_change

    def run_once(self, *, heal: bool = False) -> int:
        """One pass; its exit code. Beside the daemon or another pass for this worker it does nothing, which is 0."""
        prepare_state_dir(self.config)
        self.findings, self.busy_reason = Findings(), ""
        with (
            logging_as_configured(self.config, self.host.drive),
            catch_stop_signals() as self._stop_request,
            ExitStack() as resources,
        ):
            try:
                with worker_context(self.worker.id), self._ownership():
                    with self.findings.collect_errors():
                        resources.enter_context(self._ledger())
                    self._pass(heal=heal)
            except BusyError as error:
                self.busy_reason = str(error)
                return 0
            # The locks are free: nobody waits for the shared database, or for old rows.
            with self.findings.collect_errors():
                if not self._stop_request and not self.config.shared_database_disabled:
                    with self._ledger() as ledger:
                        send_now(self.config, ledger)
            with self.findings.collect_errors():
                if not self._stop_request:
                    self._sweep()
        if self._stop_request:
            return INTERRUPTED
        return 0 if self.findings.succeeded else 1

    def check_watcher_health(self) -> dict[str, Any]:
        """The worker as `status --json` shows it, with `running` and `healthy`."""
        status = self.observe()
        healthy = status.verdict.health is Health.HEALTHY
        return {**status.as_json(), "running": status.found.identity is not None, "healthy": healthy}

    def observe(self) -> WorkerStatus:
        return observe_workers(self.host, [self.worker], patient=True)[0]

    def check_control_flags(self) -> list[str]:
        """Take this worker's flags and run its waiting jobs; the actions taken. Failures are among the findings."""
        with self._ownership(), self._ledger() as ledger:
            return check_control_flags(self.host, self.worker, ledger, self.findings, self._stop_request)

    def write_heartbeat_file(self, status: WorkerStatus | None = None) -> bool:
        """Write the supervisor's heartbeat to the drive; False, with a finding, on a failure."""
        try:
            write_heartbeat_files(self.host, [self._heartbeat(status or self._observe_if_possible())])
        except (DriveUnavailable, OSError) as error:
            self.findings.fail(str(error))
            return False
        return True

    def report_heartbeat_to_database(self, status: WorkerStatus | None = None) -> bool:
        """Record the heartbeats of the supervisor and its worker in the ledger; False, with a finding, on a failure."""
        status = status or self._observe_if_possible()
        shares = not self.config.shared_database_disabled
        write = partial(write_heartbeat_rows, heartbeat=self._heartbeat(status), status=status, shares=shares)
        is_recorded = False
        with self.findings.collect_errors("The heartbeat couldn't be recorded. "), self._ledger() as ledger:
            ledger.write(write)
            is_recorded = True
        return is_recorded  # noqa: RET504 (an error leaves False)

    def _pass(self, *, heal: bool) -> None:
        started = time.monotonic()
        findings, pauses, worker_id = self.findings, self.host.pauses, self.worker.id
        commands_done = False
        with findings.collect_errors():
            for issue in validate_supervisor_environment(self.config, self.host.drive)["issues"]:
                findings.fail(issue)
        before = self._observe_if_possible()
        with findings.collect_errors():
            self.check_control_flags()
            commands_done = True
        with findings.collect_errors():  # tell the drive of our pause; follow or undo what was changed there by hand
            pauses.settle(worker_id)
            if before is not None and before.pause_differs:
                pauses.read(worker_id)
        # After a failure, a waiting command may be a pause.
        after = self._observe_and_heal(heal=heal and commands_done and not self._stop_request)
        try:
            maintain_output(self.host, worker_id)
        except (SupervisorError, OSError) as error:  # the drive's problem is a finding already
            log.warning("the output of %s is kept in the state folder: %s", worker_id, error)
        if before and after and before.in_words() != after.in_words():
            log.info("%s was %s before this pass and is now %s", worker_id, before.in_words(), after.in_words())
        if after and not after.verdict.fine and not self._finished_reason(after):
            level = logging.WARNING if after.verdict.health is Health.STALE else logging.ERROR
            findings.fail(after.problem, level)
        if self._stop_request:
            reason = f"Received {self._stop_request.by}, stopping. The next pass does the rest."
            findings.fail(reason, logging.WARNING)
        # The row first, so that the file tells of its failure; and once more if the file is what failed.
        is_recorded = self.report_heartbeat_to_database(after)
        if not self.write_heartbeat_file(after) and is_recorded:
            self.report_heartbeat_to_database(after)
        actions = ", ".join(findings.actions) or "nothing to do"
        log.info("pass for %s: %s, in %.2f s", worker_id, actions, time.monotonic() - started)

    def _observe_and_heal(self, *, heal: bool) -> WorkerStatus | None:
        status = None
        with self.findings.collect_errors():
            status = self._observe_until_certain()
            if heal:
                with self.findings.collect_errors(f"{self.worker.id} can't start: "):
                    self._start_if_needed(status)
                status = self.observe()
        return status

    def _observe_until_certain(self) -> WorkerStatus:
        """A worker that has just been stopped by a signal is watched until it continues or counts as frozen."""
        deadline = time.monotonic() + FROZEN_SECONDS + LOOK_AGAIN_SECONDS
        while True:
            status = self.observe()
            frozen = status.frozen_seconds
            if frozen is None or frozen >= FROZEN_SECONDS or self._stop_request or time.monotonic() >= deadline:
                return status
            time.sleep(min(LOOK_AGAIN_SECONDS, FROZEN_SECONDS - frozen))

    def _start_if_needed(self, status: WorkerStatus) -> None:
        """Start a worker that should run and doesn't, once, within its `restart.max_per_hour`."""
        worker, config = self.worker, self.config
        quarantined = worker.quarantined or status.quarantine is not None
        desired = DesiredState("", worker.enabled, quarantined, status.pause is not None)
        action = plan({worker.id: desired}, {worker.id: status}, datetime.now(UTC))[worker.id]
        if action.kind is not ActionKind.START or self._finished_reason(status):
            return
        with checkout_shared(self.host, worker, wait=False) as can_start:
            # Whoever changes its code has stopped it, and starts it. The observation may have missed a flag.
            if not can_start or self.host.pauses.read(worker.id) is not None:
                return
            process = find_watcher(self.host, worker)
            if process.identity is None:
                check_alone(process)
                # An ordered end means that our stop was interrupted, not that the worker exited on its own.
                if not process.ordered and restarts_count(self.host.drive):
                    note_start(config.state_dir, worker, datetime.now(UTC))
                start_watcher(self.host, worker, process)
                self.findings.actions.append("started")

    def _finished_reason(self, status: WorkerStatus) -> str:
        return finished_reason(self.config.state_dir, self.worker, status.found)

    def _observe_if_possible(self) -> WorkerStatus | None:
        status = None
        with self.findings.collect_errors():
            status = self.observe()
        return status  # noqa: RET504 (an error leaves None)

    def _heartbeat(self, status: WorkerStatus | None) -> SupervisorHeartbeat:
        return SupervisorHeartbeat(
            supervisor_id=self.config.supervisor.id,
            worker_id=self.worker.id,
            at=datetime.now(UTC),
            success=self.findings.succeeded,
            error="; ".join(self.findings.problems) or None,
            actions=tuple(self.findings.actions),
            state=status.in_words() if status else "unknown",
        )

    def _sweep(self) -> None:
        """Once a day, delete old rows and files for a moment; the next pass continues."""
        now, deadline = datetime.now(UTC), time.monotonic() + SWEEP_SECONDS
        if next_sweep(self.config.state_dir, now) <= now:
            with self._ledger() as ledger:
                for _ in sweep(self.host, ledger, now):
                    if self._stop_request or time.monotonic() > deadline:
                        return

    def _record_pause_flag_change(self, change: PauseFlagChange) -> None:
        with self._ledger() as ledger:
            record_pause_flag_change(self.config, ledger, change)

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        """The ledger, opened once for a pass."""
        if self._open_ledger is not None:
            yield self._open_ledger
            return
        with opened_ledger(self.config) as ledger:
            self._open_ledger = ledger
            try:
                yield ledger
            finally:
                self._open_ledger = None

    @contextmanager
    def _ownership(self) -> Iterator[None]:
        """Hold the locks of the pass for this worker; raise `BusyError` if another process has them."""
        if self._is_owner:
            yield
            return
        prepare_state_dir(self.config)
        with pass_ownership(self.config.state_dir, self.worker.id):
            self._is_owner = True
            try:
                yield
            finally:
                self._is_owner = False


def check_control_flags(
    host: HostContext,
    worker: WorkerSettings,
    ledger: Ledger,
    findings: Findings,
    stop_request: StopRequest,
) -> list[str]:
    """Report interrupted jobs, take the worker's flags, and run waiting jobs by priority; return the actions taken.

    Once told to stop, nothing more starts: the rest stays a row or a flag for the next pass. A flag that may still be
    being written gets its moment at the end, as the next pass doesn't know of it.
    """
    before = len(findings.actions)
    for job in report_interrupted(host, ledger, [worker.id], lambda: stop_request):
        findings.note(f"{job.command} was interrupted and isn't run again")
    intake = FlagIntake(host, ledger, [worker.id], flag_trust(host.config))
    unripe = not stop_request and _take_flags(host, intake, findings)
    if not stop_request:
        unblock_worker(host, ledger, worker.id)
    _run_jobs(host, worker, ledger, findings, stop_request)
    if unripe:
        deadline = time.monotonic() + SETTLE_SECONDS
        while not stop_request and time.monotonic() < deadline:
            time.sleep(0.1)
        if not stop_request:
            _take_flags(host, intake, findings)
            _run_jobs(host, worker, ledger, findings, stop_request)
    while results.deliver(host, ledger):
        pass
    return findings.actions[before:]


def _take_flags(host: HostContext, intake: FlagIntake, findings: Findings) -> bool:
    """Take the worker's flags; True if some may still be being written."""
    try:
        host.drive.check()
        host.drive.call(host.inbox.prepare)
        swept = intake.sweep()
    except (DriveUnavailable, OSError) as error:
        findings.fail(str(error))
        return False
    if swept.rejected:
        flags = "1 flag was rejected" if swept.rejected == 1 else f"{swept.rejected} flags were rejected"
        findings.fail(f"{flags}; see the .reason.txt beside each")
    return swept.unripe > 0


def _run_jobs(
    host: HostContext, worker: WorkerSettings, ledger: Ledger, findings: Findings, stop_request: StopRequest
) -> None:
    limit = RetryLimit(lambda: stop_request, execution.PASS_PATIENCE_SECONDS)
    next_job = partial(jobs.next_to_run, worker_id=worker.id, parallel=host.config.supervisor.parallel)
    while not stop_request and (job := ledger.read(next_job)):
        try:
            outcome = execute(job, host, ledger, limit=limit)
        except OutcomeNotWritten as error:  # the next job would meet the same ledger
            findings.actions.append(job.handler)
            findings.fail(str(error))
            break
        if outcome is not None:  # else somebody else had it
            findings.actions.append(job.handler)
            if not outcome.success:
                findings.note(f"{job.command} failed: {outcome.error}")
