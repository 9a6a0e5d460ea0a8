"""Cornerstone Archive's supervisor: its handlers, utilities and classes, with their names and argument order.

`nas` is a `NasManager` of this module, a `HostContext`, or any object whose `nas_root` or `root` is the drive of the
default configuration. `db` is a `Database` of this module, a `Ledger`, or any object, which then stays unused: rows go
to the ledger, and from there to `database.url`.

A handler queues a command and carries it out at once; beside a daemon, the daemon does. So it's audited, needs the same
approvals as in the shell, and runs once for each task id. Beside a pass for the same worker it's refused.
"""

from __future__ import annotations

from supervisor_core.compatibility.handlers import (
    diagnostics,
    generate_diagnostics,
    pause_watcher,
    restart_watcher,
    resume_watcher,
    rollback_code,
    undo_code,
    update_code,
    update_code_deps,
    verify_database,
    verify_db,
)
from supervisor_core.compatibility.host import (
    Database,
    NasManager,
    load_supervisor_config,
)
from supervisor_core.compatibility.utilities import (
    check_control_flags,
    check_watcher_process,
    get_heartbeat_age_seconds,
    is_watcher_healthy,
    is_watcher_paused,
    main,
    read_heartbeat_file,
    read_watcher_heartbeat,
    report_supervisor_heartbeat_to_database,
    run_command,
    start_watcher,
    stop_watcher_gracefully,
    validate_label,
    validate_supervisor_environment,
    write_supervisor_heartbeat_file,
)
from supervisor_core.daemon.single_pass import Supervisor

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
