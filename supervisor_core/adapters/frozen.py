"""For how long a process has been stopped by a signal: the kernel does not say, so the first who sees it notes when.

A note in the state folder, because most who look (a pass, `status`) do not live for ten seconds. It names the exact
process, and its clock is the kernel's since boot, which all programs share and nobody sets.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.adapters.processes_values import ProcessIdentity

MODE = 0o600


def frozen_seconds(state_dir: Path, worker_id: str, identity: ProcessIdentity | None) -> float | None:
    """Since how many seconds this process is known to be stopped; None, and no note, where none is (`identity`)."""
    path = state_dir / "workers" / f"{worker_id}.frozen"
    if identity is None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    now = time.monotonic()
    with contextlib.suppress(OSError):  # who may not write here sees it each time for the first time
        note = read_json(path, tolerant=True) or {}
        since = note.get("since")
        if note.get("process") == list(identity) and isinstance(since, float):
            return max(0.0, now - since)
        write_json(path, {"process": list(identity), "since": now}, mode=MODE)
    return 0.0
