"""The findings of a pass, its ledger, which most passes never open, and its control flags."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from supervisor_core.commands.flags import worker_of
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.process_facts.signals import StopRequest
from supervisor_core.storage import ledger_file
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.heartbeats.writer import Execute

if TYPE_CHECKING:
    from supervisor_core.storage.store import Ledger

log = logging.getLogger(__name__)


@dataclass
class Findings:
    """`actions` are names of handlers, and `started`; `problems` are sentences. Without problems all went well."""

    actions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """True if nothing failed."""
        return not self.problems

    def fail(self, why: str, level: int = logging.ERROR) -> None:
        """Note it, and say it in the log; once, however many meet it."""
        if why not in self.problems:
            log.log(level, "%s", why)
        self.note(why)

    @contextmanager
    def collect_errors(self) -> Iterator[None]:
        """Run one step; its error becomes a finding, and the pass continues."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (a pass that ended here would leave an old heartbeat that says "well")
            self.fail(error_text(error))

    def note(self, why: str) -> None:
        """Note what the log says already."""
        if why not in self.problems:
            self.problems.append(why)


def error_text(error: Exception) -> str:
    """Describe an error; the log has the details of an unexpected one."""
    if isinstance(error, SupervisorError | OSError):
        return str(error)
    log.error("a step of the pass failed", exc_info=error)
    return f"Unexpected {describe(error)}. See the log for details."


class LedgerOnDemand:
    """One host's ledger. Use it as a context; what was opened is closed at its end."""

    def __init__(self, config: SupervisorConfig) -> None:
        self._config = config
        self._path = config.state_dir / ledger_file.LEDGER_FILE
        self._held = ExitStack()
        self._ledger: Ledger | None = None

    def nothing_waits(self, worker_id: str) -> bool:
        """True if no job of this worker and no result file is waiting."""
        return ledger_file.nothing_waits(self._path, worker_id, datetime.now(UTC))

    def open(self) -> Ledger:
        """The ledger itself, with its one writer."""
        if self._ledger is None:
            from supervisor_core.daemon.environment import opened_ledger

            self._ledger = self._held.enter_context(opened_ledger(self._config))
        return self._ledger

    def write(self, work: Callable[[Execute], None]) -> None:
        """Have plain SQL run in one transaction: by the writer where the ledger is open or must be, else quickly."""
        if self._ledger is None and ledger_file.write(self._path, work):
            return
        self.open().write(lambda connection: work(connection.exec_driver_sql))

    def close(self) -> None:
        """Write what waits and let the file go."""
        self._ledger = None
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_control_flags(
    host: HostContext, worker: WorkerSettings, ledger: LedgerOnDemand, findings: Findings, stop_request: StopRequest
) -> list[str]:
    """Report interrupted jobs, take the worker's flags, and run waiting jobs by priority; return the actions taken.

    Failures are among the findings. Once told to stop, nothing more starts: the rest stays a row or a flag for the
    next pass.
    """
    before = len(findings.actions)
    flags = _any_flags(host, worker.id, findings)
    if flags or not ledger.nothing_waits(worker.id):
        from supervisor_core.daemon.single_pass.waiting_work import do_waiting_work

        do_waiting_work(host, worker, ledger.open(), findings, stop_request, sweep=flags)
    return findings.actions[before:]


def _any_flags(host: HostContext, worker_id: str, findings: Findings) -> bool:
    try:
        host.drive.check()
        return host.drive.call(_flags_of, host, worker_id)
    except (DriveUnavailable, OSError) as error:
        findings.fail(str(error))
        return False


def _flags_of(host: HostContext, worker_id: str) -> bool:
    """True if there is a flag for this worker, claimed or not; in one call to the drive."""
    host.inbox.prepare()
    return host.inbox.any_for(lambda name: worker_of(name, (worker_id,)) is not None)
