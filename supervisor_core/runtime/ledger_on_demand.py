"""The ledger of a pass, opened when something is to be done with it: most passes only write their heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from supervisor_core.config import SupervisorConfig
from supervisor_core.ledger import ledger_file
from supervisor_core.ledger.heartbeats import Execute

if TYPE_CHECKING:
    from supervisor_core.ledger.store import Ledger


class LedgerOnDemand:
    """One host's ledger. Use it as a context; what was opened is closed at its end."""

    def __init__(self, config: SupervisorConfig) -> None:
        self._config = config
        self._path = config.state_dir / ledger_file.FILE_NAME
        self._held = ExitStack()
        self._ledger: Ledger | None = None

    def nothing_waits(self, worker_id: str) -> bool:
        """Whether no job of this worker waits in it, and no result file."""
        return ledger_file.nothing_waits(self._path, worker_id, datetime.now(UTC))

    def open(self) -> Ledger:
        """The ledger itself, with its one writer."""
        if self._ledger is None:
            from supervisor_core.runtime.host import opened_ledger

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
