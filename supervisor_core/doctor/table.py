"""`supervisor doctor`, the core's part: whether this host has what it needs, check by check, none of which can hang."""

from __future__ import annotations

from functools import partial

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.doctor import daemon, git
from supervisor_core.doctor import daemon as outside
from supervisor_core.doctor import host as drive
from supervisor_core.doctor import host as env_file
from supervisor_core.doctor import host as state_dir
from supervisor_core.doctor import host as workers
from supervisor_core.doctor import storage as database
from supervisor_core.doctor import storage as ledger
from supervisor_core.doctor import storage as others
from supervisor_core.doctor import units as service
from supervisor_core.doctor.checks import Check, examine

CORE = {
    env_file.ENV_FILE_CHECK: env_file.check_env_file,
    state_dir.STATE_FOLDER: state_dir.check_state_folder,
    drive.DRIVE: drive.check_drive,
    ledger.LEDGER: ledger.check_ledger,
    daemon.NAME: daemon.look,
    workers.WORKERS: workers.check_workers,
    service.NAME: service.look,
    database.DATABASE: database.check_database,
    others.OTHER_SUPERVISORS: others.check_other_supervisors,
    git.NAME: git.look,
    outside.WEBHOOK: outside.webhook,
    outside.DEADMAN: outside.deadman,
}
"""What is looked at, in the order in which it is told. Another check is another line here."""


def core_checks(config: SupervisorConfig) -> list[Check]:
    """Everything but the chat. That the configuration can be read is why we are here, so it is the first of them."""
    names = ", ".join(config.workers) or "none"
    read = Check("configuration", True, f"{config.path}; supervisor {config.supervisor.id}, workers: {names}")
    return [read, *examine({name: partial(look, config) for name, look in CORE.items()})]
