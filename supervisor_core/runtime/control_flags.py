"""The flags and the waiting commands of one worker, taken and carried out. Whoever calls this holds its lock."""

from __future__ import annotations

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.config import Worker
from supervisor_core.domain.flags import worker_of
from supervisor_core.handlers.context import Host
from supervisor_core.runtime.findings import Findings
from supervisor_core.runtime.interrupting import Told
from supervisor_core.runtime.ledger_on_demand import LedgerOnDemand


def check_control_flags(
    host: Host, worker: Worker, ledger: LedgerOnDemand, findings: Findings, told: Told
) -> list[str]:
    """Report what a crash interrupted, take the worker's flags, do by priority what waits; which actions were taken.

    What goes wrong is among the findings. Once told to stop it begins nothing more: what waits is a row, or still a
    flag, and the next pass does it.
    """
    before = len(findings.actions)
    flags = _any_flags(host, worker.id, findings)
    if flags or not ledger.nothing_waits(worker.id):
        from supervisor_core.runtime.waiting_work import do_what_waits  # with the whole ledger: dear to import

        do_what_waits(host, worker, ledger.open(), findings, told, sweep=flags)
    return findings.actions[before:]


def _any_flags(host: Host, worker_id: str, findings: Findings) -> bool:
    try:
        host.drive.check()
        return host.drive.call(_flags_of, host, worker_id)
    except (DriveUnavailable, OSError) as error:
        findings.failed(str(error))
        return False


def _flags_of(host: Host, worker_id: str) -> bool:
    """Whether a flag lies there for this worker, claimed or not; in one call to the drive."""
    host.inbox.prepare()
    return host.inbox.any_for(lambda name: worker_of(name, (worker_id,)) is not None)
