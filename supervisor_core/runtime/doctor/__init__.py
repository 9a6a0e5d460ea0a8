"""`supervisor doctor`, the core's part: whether this host has what it needs, check by check, none of which can hang."""

from __future__ import annotations

from functools import partial

from supervisor_core.config import SupervisorConfig
from supervisor_core.runtime.doctor import (
    daemon,
    database,
    drive,
    env_file,
    git,
    ledger,
    others,
    outside,
    service,
    state_dir,
    workers,
)
from supervisor_core.runtime.doctor.checks import Check, examine

CORE = {
    env_file.NAME: env_file.look,
    state_dir.NAME: state_dir.look,
    drive.NAME: drive.look,
    ledger.NAME: ledger.look,
    daemon.NAME: daemon.look,
    workers.NAME: workers.look,
    service.NAME: service.look,
    database.NAME: database.look,
    others.NAME: others.look,
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
