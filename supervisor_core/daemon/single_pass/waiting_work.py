"""The waiting work of a pass: interrupted jobs, flags, commands and their results."""

from __future__ import annotations

from functools import partial

from supervisor_core.code.recovery import report_interrupted
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon import execution as executing
from supervisor_core.daemon.environment import flag_trust
from supervisor_core.daemon.execution import OutcomeNotWritten, RetryLimit, execute
from supervisor_core.daemon.reconciliation.unconfigured_workers import unblock_worker
from supervisor_core.daemon.single_pass.work import Findings
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.process_facts.signals import StopRequest
from supervisor_core.intake.inbox.intake import FlagIntake
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext


def do_waiting_work(
    host: HostContext,
    worker: WorkerSettings,
    ledger: Ledger,
    findings: Findings,
    stop_request: StopRequest,
    *,
    sweep: bool = True,
) -> None:
    """Do everything in this order; once told to stop, start nothing more, but deliver outcomes."""
    for ended in report_interrupted(host, ledger, [worker.id], lambda: stop_request):
        findings.note(f"{ended.command} was interrupted and isn't run again")
    if sweep and not stop_request:
        _take_flags(host, worker, ledger, findings)
    if not stop_request:
        unblock_worker(host, ledger, worker.id)
    limit = RetryLimit(lambda: stop_request, executing.PASS_PATIENCE_SECONDS)
    read = partial(jobs.next_to_run, worker_id=worker.id, parallel=host.config.supervisor.parallel)
    while not stop_request and (job := ledger.read(read)):
        try:
            outcome = execute(job, host, ledger, limit=limit)
        except OutcomeNotWritten as error:  # it was done; and what follows would meet the same ledger
            findings.actions.append(job.handler)
            findings.fail(str(error))
            break
        if outcome is None:  # somebody else had it: no action of this pass
            continue
        findings.actions.append(job.handler)
        if not outcome.success:
            findings.note(f"{job.command} failed: {outcome.error}")
    while results.deliver(host, ledger):
        pass


def _take_flags(host: HostContext, worker: WorkerSettings, ledger: Ledger, findings: Findings) -> None:
    try:
        swept = FlagIntake(host, ledger, [worker.id], flag_trust(host.config)).sweep()
    except (DriveUnavailable, OSError) as error:
        findings.fail(str(error))
        return
    if swept.rejected:
        words = "1 flag was rejected" if swept.rejected == 1 else f"{swept.rejected} flags were rejected"
        findings.fail(f"{words}; see the .reason.txt beside each")
