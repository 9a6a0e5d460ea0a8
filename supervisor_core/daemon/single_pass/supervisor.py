"""The single pass for one worker, as `supervisor once` runs it: look, do what waits, look again, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import logging_as_configured, prepare_state_dir, validate_supervisor_environment
from supervisor_core.daemon.ownership import BusyError, pass_ownership
from supervisor_core.daemon.single_pass.work import Findings, LedgerOnDemand, check_control_flags, error_text
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.logging.log import worker_context
from supervisor_core.host.old_files import next_sweep
from supervisor_core.host.process_facts.signals import StopRequest, catch_stop_signals
from supervisor_core.jobs.handler_checks import check_alone
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.health import FROZEN_SECONDS, Health
from supervisor_core.workers.heartbeats.files import SupervisorHeartbeat
from supervisor_core.workers.heartbeats.writer import write_heartbeat_files, write_heartbeat_rows
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.output.delivery import maintain_output
from supervisor_core.workers.pauses import PauseFlagChange
from supervisor_core.workers.planning import ActionKind, plan
from supervisor_core.workers.restarts.limits import note_start, restarts_count
from supervisor_core.workers.status import ActualState, DesiredState, WorkerStatus
from supervisor_core.workers.worker import Search, look_for_watcher, start_watcher

WELL, UNWELL, INTERRUPTED = 0, 1, 130
LOOK_AGAIN_SECONDS = 0.5
"""Pause between two checks of a worker that was just stopped by a signal, until it continues or counts as frozen."""

SWEEP_SECONDS = 2.0
"""The time a pass has for deleting what is old."""

log = logging.getLogger(__name__)


class Supervisor:
    """One worker's supervisor. An invalid configuration is refused with a line for each mistake."""

    def __init__(self, config_path: str | Path | None = None, worker_id: str | None = None) -> None:
        self.config = load_supervisor_config(config_path)
        self.worker = self.config.pick_worker(worker_id)
        self.host = open_doors(self.config)
        self.findings = Findings()
        self.held_by = ""
        """The holder of a lock that the pass needs; empty if the pass had it."""
        self._stop_request = StopRequest()
        self._owns = False
        self._ledger = LedgerOnDemand(self.config)
        self.host.pauses.hand_made = self._record_pause_flag_change

    def run_once(self, *, heal: bool = False) -> int:
        """One pass; its exit code. Beside the daemon or another pass for this worker it does nothing, which is 0."""
        prepare_state_dir(self.config)
        self.findings, self.held_by = Findings(), ""
        with logging_as_configured(self.config, self.host.drive), catch_stop_signals() as stop_request:
            self._stop_request = stop_request
            try:
                with worker_context(self.worker.id), self._ownership():
                    self._pass(heal=heal)
                with self.findings.collect_errors():
                    self._send_to_shared_database()
                with self.findings.collect_errors():
                    self._sweep()
            except BusyError as error:
                self.held_by = str(error)
                return WELL
        if stop_request:
            return INTERRUPTED
        return WELL if self.findings.well else UNWELL

    def check_watcher_health(self) -> dict[str, Any]:
        """The worker as `status --json` shows it, with `running` and `healthy`."""
        seen = self.observe()
        healthy = seen.verdict.health is Health.HEALTHY
        return {**seen.as_json(), "running": seen.found.identity is not None, "healthy": healthy}

    def observe(self) -> WorkerStatus:
        """The worker as it is now: its processes, its pause, its heartbeat, and what that means."""
        return observe_workers(self.host, [self.worker], patient=True)[0]

    def check_control_flags(self) -> list[str]:
        """Take this worker's flags and do what waits for it; the actions taken. What failed is among the findings."""
        with self._ownership():
            return check_control_flags(self.host, self.worker, self._ledger, self.findings, self._stop_request)

    def write_heartbeat_file(self, seen: WorkerStatus | None = None) -> bool:
        """Write the supervisor's heartbeat to the drive; False, with a finding, on a failure."""
        said = self._heartbeat(seen)
        try:
            write_heartbeat_files(self.host, [said])
        except (DriveUnavailable, OSError) as error:
            self.findings.fail(str(error))
            return False
        return True

    def report_heartbeat_to_database(self, seen: WorkerStatus | None = None) -> bool:
        """Record the heartbeats of the supervisor and its worker in the ledger; False, with a finding, on a failure."""
        seen = seen or self._status_if_possible()
        said = self._heartbeat(seen)
        try:
            shares = not self.config.shared_database_disabled
            self._ledger.write(partial(write_heartbeat_rows, said=said, seen=seen, shares=shares))
        except Exception as error:  # noqa: BLE001 (the edge: the file must still be written, and say so)
            self.findings.fail(f"The heartbeat couldn't be recorded. {error_text(error)}")
            return False
        finally:
            if not self._owns:
                self._ledger.close()
        return True

    def _settle_pause(self, before: WorkerStatus | None) -> None:
        """Tell the drive of our pause; what was changed there by hand is followed, or put back."""
        self.host.pauses.settle(self.worker.id)
        if before is not None and before.pause_differs:
            self.host.pauses.read(self.worker.id)

    def _record_pause_flag_change(self, change: PauseFlagChange) -> None:
        from supervisor_core.daemon.services.monitoring import record_pause_flag_change

        record_pause_flag_change(lambda: self.config, self._ledger.open, change)

    def _pass(self, *, heal: bool) -> None:
        begun = time.monotonic()
        before: WorkerStatus | None = None
        after: WorkerStatus | None = None
        carried_out = False
        with self.findings.collect_errors():
            for issue in validate_supervisor_environment(self.config, self.host.drive)["issues"]:
                self.findings.fail(issue)
        with self.findings.collect_errors():
            before = self.observe()
        with self.findings.collect_errors():
            self.check_control_flags()
            carried_out = True
        with self.findings.collect_errors():
            self._settle_pause(before)
        with self.findings.collect_errors():
            after = self._look_again()
            if heal and carried_out and not self._stop_request:  # else what waits may be a pause
                after = self._bring_up(after)
        with self.findings.collect_errors():
            self._maintain_output()
        self._record_problems(before, after)
        self._report(after)
        done = ", ".join(self.findings.actions) or "nothing to do"
        log.info("pass for %s: %s, in %.2f s", self.worker.id, done, time.monotonic() - begun)

    def _maintain_output(self) -> None:
        """Output that can't be copied to the drive waits. It's no finding, because the drive's problem is one."""
        try:
            maintain_output(self.host, self.worker.id)
        except (SupervisorError, OSError) as error:
            log.warning("the output of %s is kept in the state folder: %s", self.worker.id, error)

    def _report(self, seen: WorkerStatus | None) -> None:
        """The row first, so that the file tells where that failed; and once more where the file is what failed."""
        in_database = self.report_heartbeat_to_database(seen)
        if not self.write_heartbeat_file(seen) and in_database:
            self.report_heartbeat_to_database(seen)

    def _send_to_shared_database(self) -> None:
        """Send what waits for the shared database. Nothing waits for it: the locks are free, and it decides nothing."""
        if self._stop_request or self.config.shared_database_disabled:
            return
        from supervisor_core.daemon.services.forwarder import send_now

        try:
            send_now(self.config, self._ledger.open())
        finally:
            self._ledger.close()

    def _sweep(self) -> None:
        """Once a day, delete old rows and files for a moment; the next pass continues."""
        now = datetime.now(UTC)
        if self._stop_request or next_sweep(self.config.state_dir, now) > now:
            return
        from supervisor_core.daemon.services.retention import sweep  # it imports SQLAlchemy, and most passes need none

        deadline = time.monotonic() + SWEEP_SECONDS
        try:
            for _ in sweep(self.host, self._ledger.open(), now):
                if self._stop_request or time.monotonic() > deadline:
                    return
        finally:
            self._ledger.close()

    def _look_again(self) -> WorkerStatus:
        """The look that decides. One that has just been stopped by a signal is watched until it counts as frozen."""
        deadline = time.monotonic() + FROZEN_SECONDS + LOOK_AGAIN_SECONDS
        while True:
            seen = self.observe()
            frozen = seen.observation.frozen_seconds
            if frozen is None or frozen >= FROZEN_SECONDS or self._stop_request or time.monotonic() >= deadline:
                return seen
            time.sleep(min(LOOK_AGAIN_SECONDS, FROZEN_SECONDS - frozen))

    def _bring_up(self, seen: WorkerStatus) -> WorkerStatus:
        """Start a worker that should run and doesn't, once, within its `restart.max_per_hour`."""
        from supervisor_core.workers.restarts.history import has_finished  # it imports psutil

        worker = self.worker
        given_up = seen.quarantine is not None
        wanted = DesiredState("", worker.enabled, worker.quarantined or given_up, seen.pause is not None)
        finished = has_finished(self.config.state_dir, worker, seen.found.record)
        actual, now = ActualState(seen.observation.state, ended=finished), datetime.now(UTC)
        if plan({worker.id: wanted}, {worker.id: actual}, now)[worker.id].kind is not ActionKind.START:
            return seen
        try:
            with checkout_shared(self.host, worker, wait=False) as ours:
                if not ours:  # whoever changes its code has stopped it, and starts it
                    return seen
                if self.host.pauses.read(worker.id) is not None:  # the look may have missed a flag
                    return self.observe()
                doors = self.host.processes, self.host.drive, self.config
                found = look_for_watcher(*doors, worker, Search.IF_STOPPED).found
                if found.identity is None:
                    check_alone(found)
                    # An ordered end means that our stop was interrupted, and that the worker didn't exit on its own.
                    if not found.ordered and restarts_count(self.host.drive):
                        note_start(self.config.state_dir, worker, datetime.now(UTC))
                    self.findings.actions.append("started")
                    start_watcher(*doors, worker, found)
        except (SupervisorError, OSError) as error:
            self.findings.fail(f"{worker.id} can't start: {error}")
        return self.observe()

    def _record_problems(self, before: WorkerStatus | None, after: WorkerStatus | None) -> None:
        """Report the problems of the worker at the end of the pass; earlier ones are only mentioned."""
        if before and after and before.in_words() != after.in_words():
            log.info("%s was %s before this pass and is now %s", self.worker.id, before.in_words(), after.in_words())
        if after and not after.verdict.fine:
            level = logging.WARNING if after.verdict.health is Health.STALE else logging.ERROR
            self.findings.fail(after.problem, level)
        if self._stop_request:
            self.findings.fail(
                f"Received {self._stop_request.by}, stopping. The next pass does the rest.", logging.WARNING
            )

    def _status_if_possible(self) -> WorkerStatus | None:
        try:
            return self.observe()
        except Exception as error:  # noqa: BLE001 (the edge: the heartbeat must still be written)
            self.findings.fail(error_text(error))
            return None

    def _heartbeat(self, seen: WorkerStatus | None) -> SupervisorHeartbeat:
        seen = seen or self._status_if_possible()
        return SupervisorHeartbeat(
            supervisor_id=self.config.supervisor.id,
            worker_id=self.worker.id,
            at=datetime.now(UTC),
            success=self.findings.well,
            error="; ".join(self.findings.problems) or None,
            actions=tuple(self.findings.actions),
            state=seen.in_words() if seen else "unknown",
        )

    @contextmanager
    def _ownership(self) -> Iterator[None]:
        """Hold the locks of the pass for this worker; raise `BusyError` if another process has them."""
        if self._owns:
            yield
            return
        prepare_state_dir(self.config)
        with pass_ownership(self.config.state_dir, self.worker.id), self._ledger:
            self._owns = True
            try:
                yield
            finally:
                self._owns = False
