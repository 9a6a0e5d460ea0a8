"""Cornerstone Archive's supervisor: its handlers, utilities and classes, with their names and argument order.

`nas` is a `NasManager` of this module, a `HostContext`, or any object whose `nas_root` or `root` is the drive of the
default configuration. `db` is a `Database` of this module, a `Ledger`, or any object, which then stays unused: rows go
to the ledger, and from there to `database.url`.

A handler queues a command and carries it out at once; beside a daemon, the daemon does. So it's audited, needs the same
approvals as in the shell, and runs once for each task id. Beside a pass for the same worker it's refused.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from supervisor_core import cli
from supervisor_core.cli.host import approvals_of, shell_issuer, wake
from supervisor_core.cli.send import describe_missing_outcome, wait_for_outcome
from supervisor_core.cli.submit import read_outcome
from supervisor_core.commands.catalog import by_handler, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import clean_label, validate_label
from supervisor_core.common.errors import RefusedError, SupervisorError, TemporaryError, UsageError
from supervisor_core.config import load
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.sections import as_plain
from supervisor_core.daemon import environment, single_pass
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.execution import execute
from supervisor_core.daemon.ownership import pass_ownership
from supervisor_core.daemon.single_pass import Supervisor
from supervisor_core.host import programs
from supervisor_core.host.process_facts.signals import StopRequest
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import check_own_id, new_task_id
from supervisor_core.jobs.results import result_document
from supervisor_core.storage.store import Ledger
from supervisor_core.workers import health, pauses, worker
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.heartbeats import files

__all__ = [
    "Database",
    "NasManager",
    "Supervisor",
    "check_control_flags",
    "check_watcher_process",
    "diagnostics",
    "generate_diagnostics",
    "get_heartbeat_age_seconds",
    "is_watcher_healthy",
    "is_watcher_paused",
    "load_supervisor_config",
    "main",
    "pause_watcher",
    "read_heartbeat_file",
    "read_watcher_heartbeat",
    "report_supervisor_heartbeat_to_database",
    "restart_watcher",
    "resume_watcher",
    "rollback_code",
    "run_command",
    "start_watcher",
    "stop_watcher_gracefully",
    "undo_code",
    "update_code",
    "update_code_deps",
    "validate_label",
    "validate_supervisor_environment",
    "verify_database",
    "verify_db",
    "write_supervisor_heartbeat_file",
]

ConfigPath = str | Path | None
"""A configuration's path; None for the default one."""


class ConfigDocument(dict[str, Any]):
    """A configuration or a section of it as a dictionary, with secrets masked, that remembers where it came from."""

    def __init__(self, config: SupervisorConfig, document: Mapping[str, Any] | None = None) -> None:
        if document is None:
            sections = as_plain(config)
            document = {
                name: ConfigDocument(config, section) if isinstance(section, Mapping) else section
                for name, section in sections.items()
            }
        super().__init__(document)
        self.config = config


def load_supervisor_config(config_path: ConfigPath = None) -> dict[str, Any]:
    """The configuration as a dictionary, checked, with its secrets masked."""
    return ConfigDocument(load.load_supervisor_config(config_path))


class NasManager:
    """The drive of a configuration from `load_supervisor_config`, or of one at a path."""

    def __init__(self, config: Mapping[str, Any] | str | Path) -> None:
        if isinstance(config, Mapping) and not isinstance(config, ConfigDocument):
            self.host = _host_of_root((config.get("nas") or {}).get("root"))
        else:
            self.host = host_at(config.config if isinstance(config, ConfigDocument) else config)
        self.nas_root = self.host.config.drive_root

    def get_state_path(self) -> Path:
        """The folder of heartbeats and pause flags."""
        return self.host.config.folder("state")

    def get_logs_path(self) -> Path:
        """The folder of logs and reports."""
        return self.host.config.folder("logs")

    def get_worker_inbox_path(self) -> Path:
        """The folder of flags."""
        return self.host.inbox.folder

    def get_worker_outbox_path(self) -> Path:
        """The folder of result files."""
        return self.host.config.folder("outbox")


class Database:
    """The database of a configuration from `load_supervisor_config`, or of its section `database`.

    With anything else, it's that of the default configuration.

    It's open only while a function uses it, so there is nothing to close.
    """

    def __init__(self, config: object = None) -> None:
        self.config = config.config if isinstance(config, ConfigDocument) else None

    def close(self) -> None:
        """Do nothing."""


def host_at(config: ConfigPath | SupervisorConfig) -> HostContext:
    if not isinstance(config, SupervisorConfig):
        config = load.load_supervisor_config(config)
    environment.prepare_state_dir(config)
    return open_doors(config)


def host_of(nas: object) -> HostContext:
    """The host that `nas` stands for."""
    if isinstance(nas, HostContext):
        return nas
    if isinstance(nas, NasManager):
        return nas.host
    return _host_of_root(getattr(nas, "nas_root", None) or getattr(nas, "root", None))


def _host_of_root(root: object) -> HostContext:
    """The host of the default configuration, which must be the one with this drive."""
    host = host_at(None)
    if root is None or Path(str(root)).resolve() != host.config.drive_root.resolve():
        raise UsageError(
            f"{host.config.path} has the drive {host.config.drive_root}, not {root}.",
            remedy="Set SUPERVISOR_CONFIG to the configuration of that drive.",
        )
    return host


@contextmanager
def ledger_of(db: object, config: SupervisorConfig | None = None) -> Iterator[Ledger]:
    """The ledger that is meant, opened where it isn't yet."""
    if isinstance(db, Ledger):
        yield db
        return
    config = config or (db.config if isinstance(db, Database) else None) or load.load_supervisor_config()
    with opened_ledger(config) as ledger:
        yield ledger


DAEMON_SECONDS = 600.0
"""The longest wait for the daemon's outcome."""


Handler = Callable[[object, object, str, Mapping[str, Any]], dict[str, Any]]


def _handler(name: str, summary: str) -> Handler:
    def run(nas: object, db: object, worker_id: str, task: Mapping[str, Any]) -> dict[str, Any]:
        return _carry_out(name, nas, db, worker_id, task)

    run.__doc__ = summary
    return run


pause_watcher = _handler(
    "pause", "Pause the worker; returns `success`, `error` and `details`, and each detail by its own name."
)
resume_watcher = _handler("resume", "End the worker's pause and start it.")
restart_watcher = _handler("restart_watcher", "Restart the worker; a paused one stays paused.")
update_code = _handler("update_code", "Bring in new commits and restart the workers of the checkout.")
update_code_deps = _handler("update_code_deps", "The same, with the packages of the requirements file.")
undo_code = _handler("undo_code", "Undo an update or a rollback: the newest, or that of `params.task_id`.")
generate_diagnostics = _handler("diagnostics", "Write a diagnostic report.")
verify_database = _handler("verify_db", "Check the database and write a report.")
diagnostics, verify_db = generate_diagnostics, verify_database


def rollback_code(task: Mapping[str, Any], nas: object, db: object, worker_id: str) -> dict[str, Any]:
    """Revert the newest `params.commits_back` commits, 1 where it's left out. The task comes first here."""
    return _carry_out("rollback_code", nas, db, worker_id, task)


def _carry_out(handler: str, nas: object, db: object, worker_id: object, task: object) -> dict[str, Any]:
    """Queue the command of this handler, and carry it out at once, or have the daemon do it."""
    if not isinstance(worker_id, str) or not isinstance(task, Mapping):
        names = "task, nas, db, worker_id" if handler == "rollback_code" else "nas, db, worker_id, task"
        raise TypeError(
            f"The arguments of this function are ({names}): worker_id is a string and task a dictionary,"
            f" not {type(worker_id).__name__} and {type(task).__name__}."
        )
    task_id = str(task.get("task_id") or new_task_id(datetime.now(UTC)))
    try:
        host = host_of(nas)
        definition = by_handler(handler)
        assert definition is not None  # noqa: S101 (each handler above is in the catalog)
        params = check_params(definition, task.get("params"))
        worker_id = host.config.worker(worker_id).id
        command = Command.for_worker(definition.name, worker_id, params, clean_label(task.get("label")))
        result = _run(host, db, command, check_own_id(task_id))
    except SupervisorError as error:
        return {"task_id": task_id, "success": False, "error": str(error), "details": {}}
    return {**result["details"], **result}


def _run(host: HostContext, db: object, command: Command, task_id: str) -> dict[str, Any]:
    """Queue the command unless it was before, and carry it out, or have the daemon do it."""
    state_dir, has_daemon = str(host.config.state_dir), wake(host.config)
    ownership = nullcontext() if has_daemon else pass_ownership(host.config.state_dir, command.target)
    with ownership, ledger_of(db, host.config) as ledger:
        gateway = Gateway(host.config, ledger, approvals_of(host.config, ledger))
        if gateway.submit(command, shell_issuer(), "cli", task_id).approval is not None:
            raise RefusedError(f"{command.name} waits for an approval.")
        if not has_daemon:
            find = partial(jobs.find, task_id=task_id, worker_id=command.target)
            if job := ledger.read(find):
                execute(job, replace(host, ledger=ledger), ledger)
                job = ledger.read(find)
            if job is None:
                raise LookupError(f"{task_id} has no job for {command.target}")
            return result_document(job)
    wake(host.config)
    read = partial(read_outcome, str(host.config.path))
    _, results = wait_for_outcome(state_dir, task_id, DAEMON_SECONDS, None, read)
    if results is None:
        raise TemporaryError(describe_missing_outcome(state_dir, task_id, DAEMON_SECONDS))
    return next(result for result in results if result["worker_id"] == command.target)


WORKER = "OrionMX"
"""The default worker of these functions."""

CONFIG = "config.dev.yaml"
TIMED_OUT, NOT_RUN = 124, 127


def main(args: Sequence[str] | None = None) -> int:
    """Run one pass; returns 0, or 1 if something failed or is unhealthy.

    `--worker-id` is `OrionMX` if it's left out, and `--config` is `config.dev.yaml` if there is one here.
    """
    options = list(sys.argv[1:] if args is None else args)
    flags = {option.partition("=")[0] for option in options}
    if not flags & {"--worker-id", "-h", "--help"}:
        options += ["--worker-id", WORKER]
    if "--config" not in flags and not os.environ.get("SUPERVISOR_CONFIG") and Path(CONFIG).exists():
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
    watcher = worker.find_watcher(host, host.config.worker(worker_id))
    return watcher.identity is not None


def start_watcher(worker_id: str = WORKER, config_path: ConfigPath = None) -> bool:
    """Start the worker; False if it doesn't come up."""
    host = host_at(config_path)
    try:
        worker.start_watcher(host, host.config.worker(worker_id))
    except (SupervisorError, OSError):
        return False
    return True


def stop_watcher_gracefully(worker_id: str, timeout_seconds: float = 30, config_path: ConfigPath = None) -> bool:
    """Stop the worker, by force after the timeout. True if none of its processes is left."""
    host = host_at(config_path)
    settings = structs.replace(host.config.worker(worker_id), stop_timeout_seconds=timeout_seconds)
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
        result = programs.run_command(cmd, cwd=Path(cwd) if cwd else None, timeout=timeout_seconds)
    except (SupervisorError, OSError) as error:
        return {"returncode": NOT_RUN, "stdout": "", "stderr": str(error)}
    code = TIMED_OUT if result.timed_out else result.exit_code
    return {"returncode": code, "stdout": result.output, "stderr": result.errors}


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
    files.write_heartbeat_files(host, [heartbeat])
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
        report = partial(files.report_supervisor_heartbeat_to_database, heartbeat=heartbeat)
        pid, hostname = os.getpid(), files.host_name()
        ledger.write(lambda connection: report(connection, pid=pid, hostname=hostname))


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
