"""What there was to see when a worker got into trouble: the last lines of its log, without secrets.

It is looked for beside everything else: a worker's own log may lie on the drive, and no alert waits for a drive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.report_masking import Masking
from supervisor_core.adapters.report_tail import last_lines
from supervisor_core.adapters.threads import DaemonThreads
from supervisor_core.adapters.written import read_source, source_of
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.texts import one_line
from supervisor_core.handlers.context import Host

LINES, LINE = 6, 300
READ_LINES = 40
"""Of the end of a log; those without words are left out."""

SECONDS = 2.0
AT_ONCE = 20
"""Of more alerts at the same time only the first have theirs: nobody reads a hundred logs."""

Keep = Callable[[str, Sequence[str]], object]
"""Takes what was found for the alert with this id."""

log = logging.getLogger(__name__)


class Evidence:
    """Looks in a thread of its own, one alert after the other."""

    def __init__(self, host: Callable[[], Host]) -> None:
        self._host = host
        self._threads = DaemonThreads("evidence", 1)

    def gather(self, wanted: Sequence[tuple[str, str]], keep: Keep) -> None:
        """Look for what there is about these alerts and their workers, and come back at once."""
        for alert_id, worker_id in wanted[:AT_ONCE]:
            self._threads.submit(self._gather, alert_id, worker_id, keep)

    def _gather(self, alert_id: str, worker_id: str, keep: Keep) -> None:
        """The edge: what can't be found is left out."""
        try:
            lines = last_words(self._host(), worker_id)
            if lines:
                keep(alert_id, lines)
        except (DriveUnavailable, SupervisorError, OSError) as error:
            log.info("what %s wrote last could not be looked at: %s", worker_id, error)


def last_words(host: Host, worker_id: str) -> list[str]:
    """The last lines of what this worker wrote, by itself or to us."""
    worker = host.config.workers.get(worker_id)
    if worker is None:
        return []
    try:
        end = read_source(host.drive, source_of(host.config, worker), timeout=SECONDS)
    except FileNotFoundError:
        return []
    found = last_lines(end, READ_LINES, Masking(host.config.secrets())).lines
    return [one_line(line, LINE) for line in found if line.strip()][-LINES:]
