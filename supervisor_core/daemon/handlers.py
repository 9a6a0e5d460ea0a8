"""The handlers of commands, by the catalog's names, and the time limit of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from supervisor_core.added_commands import longest_run, run_added
from supervisor_core.code.change import rollback_code, undo_code, update_code, update_code_deps
from supervisor_core.code.git_changes import OPERATION_SECONDS
from supervisor_core.code.packages import READING_SECONDS
from supervisor_core.commands.catalog import CATALOG, by_handler
from supervisor_core.commands.command import Outcome
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.handlers import PART_SECONDS, generate_diagnostics, verify_database
from supervisor_core.host.drive import TIMEOUT_SECONDS
from supervisor_core.jobs.handlers import BETWEEN_SECONDS, pause_watcher, restart_watcher, resume_watcher
from supervisor_core.jobs.model import Job
from supervisor_core.processes.stopping import FREEZE_BOUND_SECONDS, KILL_WAIT_SECONDS, REST_GRACE_SECONDS
from supervisor_core.workers.context import HostContext

Handler = Callable[[HostContext, Job], Outcome]
"""Executes one job and returns its outcome. It runs in a thread of its own and may take long. A `SupervisorError` is a
failure in words; any other exception is a bug."""

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "pause": pause_watcher,
        "resume": resume_watcher,
        "restart_watcher": restart_watcher,
        "update_code": update_code,
        "update_code_deps": update_code_deps,
        "rollback_code": rollback_code,
        "undo_code": undo_code,
        "diagnostics": generate_diagnostics,
        "verify_db": verify_database,
    }
)


def added_handler(name: str) -> Handler | None:
    """The handler of a command that isn't built in; None if this host has no such command."""
    definition = by_handler(name)
    return run_added if definition is not None and definition.extension is not None else None


ENDING_SECONDS = REST_GRACE_SECONDS + FREEZE_BOUND_SECONDS + KILL_WAIT_SECONDS
"""Longest time to stop a worker beyond its own stop timeout."""

CODE_OPERATIONS = 4
"""So many operations of git may each take their whole time: a fetch, the change, the way back, a push. The others of a
command take milliseconds."""

MOST_TAKEN_BACK = 10
"""Commits, by one rollback."""

DRIVE_SECONDS = TIMEOUT_SECONDS
"""Paid once for each command: the first hanging call times out, and later ones fail immediately."""


def stop_seconds(worker: WorkerSettings) -> float:
    """The most that ending this worker may take."""
    return worker.stop_timeout_seconds + ENDING_SECONDS


def _paused(worker: WorkerSettings) -> float:
    """A copy that somebody started by hand is stopped after the worker."""
    return 2 * stop_seconds(worker)


def _restarted(worker: WorkerSettings) -> float:
    return stop_seconds(worker) + BETWEEN_SECONDS + worker.start_grace_seconds


def _resumed(worker: WorkerSettings) -> float:
    return worker.start_grace_seconds


def _code_changed(worker: WorkerSettings) -> float:
    """Its sharers go through it at the same time; what can take long is each operation of git, and both starts."""
    lives = 2 * (stop_seconds(worker) + worker.start_grace_seconds)
    return lives + CODE_OPERATIONS * OPERATION_SECONDS


def _rolled_back(worker: WorkerSettings) -> float:
    """Each commit is reverted, and then committed."""
    return _code_changed(worker) + 2 * MOST_TAKEN_BACK * OPERATION_SECONDS


def _packages_changed(worker: WorkerSettings, installations: int = 1) -> float:
    """The time for another installation to end, our own, a rollback, and checks between them.

    An undo has the first and the last of these. Several installations run one at a time.
    """
    return _code_changed(worker) + installations * 3 * (worker.code.pip_timeout_seconds + READING_SECONDS)


def _installations(config: SupervisorConfig, worker: WorkerSettings) -> int:
    """List the installations for all workers that run from the folder of this worker.

    By its name alone, since a stop must not wait for a disk: of a checkout whose workers run from several folders,
    each folder counts for itself.
    """
    sharing = (each for each in config.workers.values() if each.code.path == worker.code.path)
    return len({(config.python_for(each), each.code.requirements) for each in sharing if each.code.requirements})


def _diagnosed(_worker: WorkerSettings) -> float:
    return PART_SECONDS


def _verified(_worker: WorkerSettings) -> float:
    from supervisor_core.storage.database_check import CLOSING_SECONDS, WHOLE_SECONDS

    return WHOLE_SECONDS + CLOSING_SECONDS


BOUNDS: Mapping[str, Callable[[WorkerSettings], float]] = MappingProxyType(
    {
        "pause": _paused,
        "resume": _resumed,
        "restart_watcher": _restarted,
        "update_code": _code_changed,
        "update_code_deps": _packages_changed,
        "rollback_code": _rolled_back,
        "undo_code": _packages_changed,
        "diagnostics": _diagnosed,
        "verify_db": _verified,
    }
)
"""For each handler the most seconds that it may take for a worker, beside what the drive may take; of installations,
where there is one."""


def longest_seconds(config: SupervisorConfig) -> float:
    """The most that any handler may take for any worker of this host."""
    workers = config.workers.values()
    several = [_packages_changed(worker, _installations(config, worker)) for worker in workers]
    added = [longest_run(each.extension.timeout) for each in CATALOG.values() if each.extension is not None]
    return (
        max([0.0, *added, *several, *(bound(worker) for bound in BOUNDS.values() for worker in workers)])
        + DRIVE_SECONDS
    )


LONGEST_STOP_SECONDS = 600.0
"""A host that shuts down doesn't wait longer for a command. It's cut off then, and reported as interrupted."""


def stop_limit_seconds(config: SupervisorConfig) -> float:
    """The most that a daemon that stops waits for the commands in hand."""
    return min(longest_seconds(config), LONGEST_STOP_SECONDS)


__all__ = [
    "HANDLERS",
    "Handler",
    "HostContext",
    "generate_diagnostics",
    "pause_watcher",
    "restart_watcher",
    "resume_watcher",
    "rollback_code",
    "undo_code",
    "update_code",
    "update_code_deps",
    "verify_database",
]
