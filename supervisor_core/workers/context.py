"""The context of handlers and services: one host's processes, drive and workers, opened by its configuration.

A host has no ledger of its own here, because `status` observes workers without a database.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.drive import Drive, DriveIdentity
from supervisor_core.host.inbox import Inbox
from supervisor_core.processes.manager import HostProcesses, ProcessManager
from supervisor_core.workers.pauses import Pauses
from supervisor_core.workers.restarts.limits import Quarantines

if TYPE_CHECKING:
    from supervisor_core.storage.store import Ledger


def _to_nobody(_words: str) -> None:
    """Nobody waits to hear it."""


@dataclass(frozen=True, slots=True)
class HostContext:
    """The doors of this host. Handlers get them here and open none of their own."""

    config: SupervisorConfig
    drive: Drive
    inbox: Inbox
    pauses: Pauses
    processes: ProcessManager
    quarantines: Quarantines
    ledger: Ledger | None = None
    """The record of changes; None for whoever only observes workers."""
    deadline: float | None = None
    """The moment of the monotonic clock by which a look at code must end; None: each call has only its own limit."""
    unlocked: Callable[[], AbstractContextManager[None]] = nullcontext
    """Gives the checkout of a job that changes code to others while a remote is asked: their pauses and restarts don't
    wait for it. What was seen of the checkout before must be looked at again."""
    progress: Callable[[str], None] = _to_nobody
    """Says what the handler is doing now, in a few words: `stopping OrionMX, pid 4711`. It comes back soon and without
    an error, whatever becomes of the words."""

    def now(self) -> datetime:
        """The wall clock, in aware UTC."""
        return datetime.now(UTC)


@dataclass(slots=True)
class DaemonContext:
    """The host's doors and its ledger.

    With a new configuration `host` is replaced in one assignment, so it is read anew each time; its doors stay.
    """

    host: HostContext
    opened: Ledger | None = None
    """The ledger; None before it's opened."""

    @property
    def ledger(self) -> Ledger:
        if self.opened is None:
            raise RuntimeError("the ledger isn't open yet")
        return self.opened


def open_drive(config: SupervisorConfig) -> Drive:
    """The drive of this configuration, known again by the host that has worked with it."""
    identity = DriveIdentity(config.state_dir, config.drive_root, config.folder("state"), config.nas.file_mode)
    local = config.nas.root is None
    return Drive(config.drive_root, identity=identity, local=local, forgotten=config.forgotten_folders)


def open_doors(config: SupervisorConfig) -> HostContext:
    """The doors of the host that this configuration describes."""
    drive = open_drive(config)
    return HostContext(
        config=config,
        drive=drive,
        inbox=Inbox(config.drive_root, config.folder("inbox"), config.nas.file_mode),
        pauses=Pauses(
            config.state_dir,
            config.folder("state"),
            drive,
            config.nas.file_mode,
            secret=config.inbox.secret.get_secret_value(),
            supervisor_id=config.supervisor.id,
        ),
        processes=HostProcesses(config.state_dir),
        quarantines=Quarantines(config.state_dir),
    )
