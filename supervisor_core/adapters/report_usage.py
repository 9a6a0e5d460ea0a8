"""What processes use: memory, processor, and since when they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import psutil

from supervisor_core.adapters.processes_identity import identify
from supervisor_core.adapters.processes_values import ProcessIdentity

SAMPLE_SECONDS = 0.2
"""Between two looks at what a process has used of the processor."""


class Usage(NamedTuple):
    """What one process uses; None where the system does not tell us."""

    memory_bytes: int | None = None
    cpu_percent: float | None = None
    """Of one processor, so that it may exceed 100."""
    started_at: datetime | None = None
    threads: int | None = None


def usage_of(identities: Iterable[ProcessIdentity], seconds: float = SAMPLE_SECONDS) -> dict[ProcessIdentity, Usage]:
    """What each of them uses. One that ended meanwhile is left out, so that nobody else's figures are taken for its."""
    opened = {}
    for identity in identities:
        with contextlib.suppress(psutil.Error, OSError):
            opened[identity] = psutil.Process(identity.pid)
            opened[identity].cpu_percent()
    time.sleep(seconds if opened else 0.0)
    found = {}
    for identity, process in opened.items():
        usage = Usage()
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            usage = Usage(
                process.memory_info().rss,
                process.cpu_percent(),
                datetime.fromtimestamp(process.create_time(), UTC),
                process.num_threads(),
            )
        with contextlib.suppress(OSError):
            if identify(identity.pid) == identity:
                found[identity] = usage
    return found
