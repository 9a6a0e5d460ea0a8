"""One host's own place: its state folder with the ledger in it, and its log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from supervisor_core.adapters.drive import Drive
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.flags import Trust
from supervisor_core.runtime import logs

if TYPE_CHECKING:
    from supervisor_core.ledger.store import Ledger


class StateFolderError(SupervisorError):
    """The state folder can't be used."""


def prepare_state_dir(config: SupervisorConfig) -> None:
    """Make the state folder, ours alone."""
    try:
        config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.state_dir.chmod(0o700)
    except OSError as error:
        raise StateFolderError(
            f"The state folder {config.state_dir} can't be used: {error.strerror}.",
            remedy="It must lie on a local disk and belong to the user who runs this (supervisor.state_dir).",
        ) from None


@contextmanager
def logging_as_configured(config: SupervisorConfig, drive: Drive, *, to_stderr: bool = True) -> Iterator[None]:
    """Log to the state folder, to stderr, and as a copy to the drive."""
    log = config.logging
    handlers = logs.set_up(config.state_dir, log.file, log.level, log.max_bytes, log.backups, to_stderr=to_stderr)
    path = config.folder("logs") / log.file
    copy = logs.DriveCopy(path, drive, log.max_bytes, log.backups, config.nas.file_mode)
    handlers.append(logs.add(copy))
    try:
        yield
    finally:
        logs.tear_down(handlers)


@contextmanager
def opened_ledger(config: SupervisorConfig) -> Iterator[Ledger]:
    """The ledger of this host, brought up to date if need be."""
    from supervisor_core.adapters.head_file import HeadFile  # with the next one, dear to import: not all need a ledger
    from supervisor_core.ledger.store import FILE_NAME, Ledger

    prepare_state_dir(config)
    with Ledger(config.state_dir / FILE_NAME, config.supervisor.id, HeadFile(config.state_dir)) as ledger:
        yield ledger


def trust_of(config: SupervisorConfig) -> Trust | None:
    """What the signatures of flags are checked against; None where none is asked for."""
    secret = config.inbox.secret.get_secret_value()
    if not secret:
        return None
    return Trust(secret, timedelta(minutes=config.inbox.max_age_minutes), config.supervisor.id)
