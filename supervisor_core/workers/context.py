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
from supervisor_core.host.drive import NOTE, Drive
from supervisor_core.host.inbox import Inbox
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.workers.pauses import Pauses
from supervisor_core.workers.restarts.history import Quarantines

if TYPE_CHECKING:
    from supervisor_core.storage.store import Ledger


@dataclass(frozen=True, slots=True)
class HostContext:
    """The processes, drive and workers of this host. Handlers use these and open none of their own."""

    config: SupervisorConfig
    drive: Drive
    inbox: Inbox
    pauses: Pauses
    processes: HostProcesses
    quarantines: Quarantines
    ledger: Ledger | None = None
    """The ledger; None for mere observers."""
    deadline: float | None = None
    """The monotonic time by which an inspection of code must end; None if each call has only its own limit."""
    unlocked: Callable[[], AbstractContextManager[None]] = nullcontext
    """Unlocks the checkout of a code change during a fetch, so that pauses and restarts don't wait. Its state must be
    inspected again afterwards."""
    overtaken: Callable[[], str] = lambda: ""
    """Why a start stops waiting for its grace period, such as a pause that waits behind it; empty while it waits on."""
    progress: Callable[[str], None] = lambda _step: None
    """Reports a step of the handler, such as `stopping OrionMX, pid 4711`. It returns soon and never raises."""

    def now(self) -> datetime:
        """The current time, in aware UTC."""
        return datetime.now(UTC)


@dataclass(slots=True)
class DaemonContext:
    """The host's context and its ledger.

    A new configuration replaces `host` in one assignment, so read it each time; its processes and drive stay.
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
    local = config.nas.root is None
    return Drive(
        config.drive_root,
        note=None if local else config.state_dir / NOTE,
        state_folder=config.folder("state"),
        file_mode=config.nas.file_mode,
        local=local,
        forgotten=config.forgotten_folders,
    )


def open_doors(config: SupervisorConfig) -> HostContext:
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
