"""The utilities."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core import cli
from supervisor_core.commands.labels import validate_label as check_label
from supervisor_core.common.errors import SupervisorError
from supervisor_core.compatibility.host import (
    ConfigPath,
    host_at,
    host_of,
    ledger_of,
)
from supervisor_core.daemon import environment, single_pass
from supervisor_core.daemon.ownership import pass_ownership
from supervisor_core.host import programs
from supervisor_core.host.process_facts.signals import StopRequest
from supervisor_core.workers import health, pauses, worker
from supervisor_core.workers.heartbeats import files, writer

WORKER = "OrionMX"
"""The default worker of these functions."""

CONFIG = "config.dev.yaml"
TIMED_OUT, NOT_RUN = 124, 127


def main(args: Sequence[str] | None = None) -> int:
    """Run one pass; returns 0, or 1 if something failed or is unhealthy.

    `--worker-id` is `OrionMX` if it's left out, and `--config` is `config.dev.yaml` if there is one here.
    """
    options = list(sys.argv[1:] if args is None else args)
    given = {option.partition("=")[0] for option in options}
    if not given & {"--worker-id", "-h", "--help"}:
        options += ["--worker-id", WORKER]
    if "--config" not in given and not os.environ.get("SUPERVISOR_CONFIG") and Path(CONFIG).exists():
        options += ["--config", CONFIG]
    try:
        return 0 if cli.main(["once", *options]) == 0 else 1
    except SystemExit as stop:
        return 0 if stop.code in (0, None) else 1


def check_control_flags(inbox_path: str | Path, nas: object, worker_id: str, db: object) -> list[str]:
    """Take the worker's flags and run what waits for it by priority; returns the actions taken."""
    host = host_of(nas)
    if os.path.realpath(inbox_path) != os.path.realpath(host.inbox.folder):
        raise ValueError(f"{inbox_path} isn't the inbox of this configuration: {host.inbox.folder}")
    with pass_ownership(host.config.state_dir, worker_id), ledger_of(db, host.config) as ledger:
        settings = host.config.worker(worker_id)
        return single_pass.check_control_flags(host, settings, ledger, single_pass.Findings(), StopRequest())


def check_watcher_process(worker_id: str, config_path: ConfigPath = None) -> bool:
    """True if a process of the worker runs."""
    host = host_at(config_path)
    found = worker.find_watcher(host.processes, host.drive, host.config, host.config.worker(worker_id))
    return found.identity is not None


def start_watcher(worker_id: str = WORKER, config_path: ConfigPath = None) -> bool:
    """Start the worker; False if it doesn't come up."""
    host = host_at(config_path)
    try:
        worker.start_watcher(host.processes, host.drive, host.config, host.config.worker(worker_id))
    except (SupervisorError, OSError):
        return False
    return True


def stop_watcher_gracefully(worker_id: str, timeout_seconds: float = 30, config_path: ConfigPath = None) -> bool:
    """Stop the worker, by force after the timeout. True if none of its processes is left."""
    host = host_at(config_path)
    settings = host.config.worker(worker_id).model_copy(update={"stop_timeout_seconds": timeout_seconds})
    return worker.stop_watcher_gracefully(host.processes, settings).stopped


def is_watcher_healthy(heartbeat: Mapping[str, Any]) -> bool:
    """True if a running worker with this heartbeat is healthy now."""
    return health.is_watcher_healthy(heartbeat, datetime.now(UTC))


def is_watcher_paused(nas: object, worker_id: str) -> bool:
    """True if the worker's pause flag exists."""
    host = host_of(nas)
    return host.drive.call(pauses.is_watcher_paused, host.config.folder("state"), worker_id)


def read_heartbeat_file(path: str | Path) -> dict[str, Any]:
    """The content of a heartbeat file; empty if it's missing or can't be read."""
    return files.read_heartbeat_file(Path(path).absolute()) or {}


def read_watcher_heartbeat(nas: object, worker_id: str) -> dict[str, Any]:
    """The worker's newest heartbeat; empty if it's missing or can't be read."""
    host = host_of(nas)
    return host.drive.call(files.read_watcher_heartbeat, host.config.folder("state"), worker_id) or {}


def get_heartbeat_age_seconds(heartbeat_file: str | Path) -> float:
    """The age of the file; infinite if it's missing."""
    age = files.get_heartbeat_age_seconds(Path(heartbeat_file).absolute())
    return math.inf if age is None else age


def run_command(cmd: Sequence[str], cwd: str | Path | None = None, timeout_seconds: float = 30) -> dict[str, Any]:
    """Run a program, never through a shell; returns `returncode`, `stdout` and `stderr`.

    As in a shell, the code is 124 after the timeout, and 127 if the program can't be run.
    """
    try:
        done = programs.run_command(cmd, cwd=Path(cwd) if cwd else None, timeout=timeout_seconds)
    except (SupervisorError, OSError) as error:
        return {"returncode": NOT_RUN, "stdout": "", "stderr": str(error)}
    return {
        "returncode": TIMED_OUT if done.timed_out else done.exit_code,
        "stdout": done.output,
        "stderr": done.errors,
    }


def write_supervisor_heartbeat_file(
    nas: object,
    worker_id: str,
    success: bool,
    error: str | None = None,
    actions_taken: Sequence[str] | None = None,
) -> Path:
    """Replace the supervisor's heartbeat file of the worker in one step; returns its path."""
    host = host_of(nas)
    heartbeat = _heartbeat(host.config.supervisor.id, worker_id, success, error, actions_taken)
    writer.write_heartbeat_files(host, [heartbeat])
    return files.supervisor_heartbeat_path(host.config.folder("state"), worker_id)


def report_supervisor_heartbeat_to_database(
    db: object,
    worker_id: str,
    success: bool,
    error: str | None = None,
    actions_taken: Sequence[str] | None = None,
    watcher_state: str = "unknown",
) -> None:
    """Insert or update the supervisor's row of the worker in `workers_t`."""
    with ledger_of(db) as ledger:
        heartbeat = _heartbeat(ledger.supervisor_id, worker_id, success, error, actions_taken, watcher_state)
        report = partial(writer.report_supervisor_heartbeat_to_database, heartbeat=heartbeat)
        pid, hostname = os.getpid(), worker.host_name()
        ledger.write(lambda connection: report(connection, pid=pid, hostname=hostname))


def validate_label(label: str | None) -> tuple[bool, str]:
    """Check a label; returns whether it's valid and, if not, the reason. No label is valid."""
    return check_label(label)


def validate_supervisor_environment(nas: object, worker_id: str) -> environment.EnvironmentReport:
    """Check whether the supervisor can work here; returns `valid` and the `issues`."""
    host = host_of(nas)
    host.config.worker(worker_id)
    return environment.validate_supervisor_environment(host.config, host.drive)


def _heartbeat(
    supervisor_id: str,
    worker_id: str,
    success: bool,
    error: str | None,
    actions: Sequence[str] | None,
    state: str = "unknown",
) -> files.SupervisorHeartbeat:
    now = datetime.now(UTC)
    return files.SupervisorHeartbeat(supervisor_id, worker_id, now, success, error, tuple(actions or ()), state)
