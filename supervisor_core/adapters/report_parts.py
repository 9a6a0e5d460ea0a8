"""Asking several things at the same time, each with an edge of its own: what hangs or fails says so in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from supervisor_core.adapters.report_masking import Masking
from supervisor_core.adapters.threads import DaemonThreads
from supervisor_core.domain.errors import SupervisorError, describe

LONGEST_ERROR = 1000  # characters

Part = Callable[[], Mapping[str, Any]]


def gather(parts: Mapping[str, Part], seconds: float, masking: Masking) -> dict[str, dict[str, Any]]:
    """Each part's content with `ok`, or its `error`, without secrets, after at most so many seconds."""
    threads = DaemonThreads("report", len(parts))
    deadline = time.monotonic() + seconds
    under_way = {name: threads.submit(_at_the_edge, part, masking) for name, part in parts.items()}
    found = {}
    for name, future in under_way.items():
        try:
            found[name] = future.result(max(deadline - time.monotonic(), 0.0))
        except FutureTimeout:
            found[name] = failed(f"this could not be found out within {seconds:g} s: something hangs")
    return found


def failed(error: str) -> dict[str, Any]:
    """What stands in the place of a part that is not known."""
    return {"ok": False, "error": error}


def _at_the_edge(part: Part, masking: Masking) -> dict[str, Any]:
    try:
        return {"ok": True, **masking.ours(part())}
    except (SupervisorError, OSError) as error:
        return failed(masking.text(str(error))[:LONGEST_ERROR])
    except Exception as error:  # noqa: BLE001 (the edge of a part: it fails alone)
        return failed(masking.text(describe(error))[:LONGEST_ERROR])
