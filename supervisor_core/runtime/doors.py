"""The doors of one host, opened as its configuration says. No ledger here: `status` looks without a database."""

from __future__ import annotations

from supervisor_core.adapters.drive import Drive
from supervisor_core.adapters.drive_identity import DriveIdentity
from supervisor_core.adapters.inbox import Inbox
from supervisor_core.adapters.pauses import Pauses
from supervisor_core.adapters.processes import Processes
from supervisor_core.adapters.quarantines import Quarantines
from supervisor_core.config import SupervisorConfig
from supervisor_core.handlers.context import Host


def open_drive(config: SupervisorConfig) -> Drive:
    """The drive of this configuration, known again by the host that has worked with it."""
    identity = DriveIdentity(config.state_dir, config.nas.root, config.folder("state"), config.nas.file_mode)
    return Drive(config.nas.root, identity=identity)


def open_doors(config: SupervisorConfig) -> Host:
    """The doors of the host that this configuration describes."""
    drive = open_drive(config)
    return Host(
        config=config,
        drive=drive,
        inbox=Inbox(config.nas.root, config.folder("inbox"), config.nas.file_mode),
        pauses=Pauses(
            config.state_dir,
            config.folder("state"),
            drive,
            config.nas.file_mode,
            secret=config.inbox.secret.get_secret_value(),
            supervisor_id=config.supervisor.id,
        ),
        processes=Processes(config.state_dir),
        quarantines=Quarantines(config.state_dir),
    )
