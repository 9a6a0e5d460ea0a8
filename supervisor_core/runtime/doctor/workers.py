"""The check of the workers: whether another process claims to be one of them."""

from __future__ import annotations

from supervisor_core.adapters.worker import Search
from supervisor_core.config import SupervisorConfig
from supervisor_core.runtime import observing
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.doors import open_doors

NAME = "workers"
REMEDY = "One worker is one process: keep one, end the others."


def look(config: SupervisorConfig) -> Check:
    """A worker that doesn't run is for `status` to tell; two processes of one are damage in the making."""
    workers = list(config.workers.values())
    looked = observing.look(open_doors(config), workers, search=Search.ALWAYS) if workers else []
    doubtful = [f"{each.worker.id}: {each.verdict.reason}" for each in looked if each.found.others]
    if doubtful:
        return Check(NAME, False, " ".join(doubtful), REMEDY)
    running = [f"{each.worker.id} (pid {each.found.identity.pid})" for each in looked if each.found.identity]
    return Check(NAME, True, f"one process each: {', '.join(running)}" if running else "none runs")
