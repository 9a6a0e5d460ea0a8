"""Looking at what a command would do, as documents that an approval is bound to and that people are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.code import state_hash
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import Tier

if TYPE_CHECKING:
    from supervisor_core.handlers import Host

Previews = tuple[dict[str, Any], ...]
Observe = Callable[[Command], Previews]
"""What this command would do now; a `SupervisorError` where that can't be said. It asks git and the drive, so it
blocks."""


def observer(host: Callable[[], Host]) -> Observe:
    """Observes through the doors of this host, with the configuration that is in force at the time."""

    def observe(command: Command) -> Previews:
        from supervisor_core.handlers.previews import preview  # late: a shell that only sends must not pay for it

        doors = host()
        if CATALOG[command.name].tier is Tier.CODE:
            return tuple(each.as_json() for each in preview(doors, command))
        return tuple(_of_worker(doors, command, worker_id) for worker_id in command.workers)

    return observe


def _of_worker(host: Host, command: Command, worker_id: str) -> dict[str, Any]:
    """For a command that changes no code: whether the worker is paused, and whether it may be started."""
    from supervisor_core.handlers.previews import worker_now

    worker = worker_now(host, host.config.worker(worker_id))
    facts = {
        "worker": worker_id,
        "paused": bool(worker.paused),
        "rests": worker.rests,
        "quarantined": host.quarantines.read(worker_id) is not None,
    }
    return {
        "command": command.name,
        "checkout": None,
        "ok": True,
        "refused": None,
        "conflict": None,
        "workers": [worker.as_json()],
        "state": state_hash(facts),
    }
