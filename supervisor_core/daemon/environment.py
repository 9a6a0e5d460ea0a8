"""The environment of a supervisor: its state folder with the ledger in it, its log, and its drive's folders."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from supervisor_core.commands.flags import Trust
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.logging import log as logs
from supervisor_core.host.open_folder import OpenFolder
from supervisor_core.host.permissions import why_denied
from supervisor_core.workers.context import open_drive

if TYPE_CHECKING:
    from supervisor_core.fleet.hub.ledger import HubLock
    from supervisor_core.storage.store import Ledger
    from supervisor_core.storage.writer import LedgerPlace

FOLDERS = ("inbox", "outbox", "logs", "state")
"""The folders that the supervisor itself writes to; the others are for its workers."""

log = logging.getLogger(__name__)


class StateFolderError(SupervisorError):
    """The state folder can't be used."""


def prepare_state_dir(config: SupervisorConfig) -> None:
    """Create the state folder, for this user alone."""
    folder = config.state_dir
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        folder.chmod(PRIVATE_FOLDER)
    except OSError as error:
        is_denied = isinstance(error, PermissionError)
        cause, remedy = why_denied(folder, os.W_OK | os.X_OK) if is_denied else ("", "")
        raise StateFolderError(
            f"The state folder {folder} can't be used: {cause or error.strerror}.",
            remedy=remedy or "It must be on a local disk and belong to the user who runs this (supervisor.state_dir).",
        ) from None


@contextmanager
def logging_as_configured(config: SupervisorConfig, drive: Drive, *, to_stderr: bool = True) -> Iterator[None]:
    """Log to the state folder, to stderr, and as a copy to the drive, if there is one."""
    log = config.logging
    handlers = logs.set_up(config.state_dir, log.file, log.level, log.max_bytes, log.backups, to_stderr=to_stderr)
    if config.nas.root is not None:
        path = config.folder("logs") / log.file
        copy = logs.DriveCopy(path, drive, log.max_bytes, log.backups, config.nas.file_mode)
        handlers.append(logs.add(copy))
    try:
        yield
    finally:
        logs.tear_down(handlers)


@contextmanager
def opened_ledger(config: SupervisorConfig, lock: HubLock | None = None) -> Iterator[Ledger]:
    """The ledger of this host, brought up to date if need be. A hub's daemon has a lock for one in a database."""
    from supervisor_core.storage.ledger_file import LEDGER_FILE
    from supervisor_core.storage.store import Ledger  # slow to import, and not all need a ledger

    prepare_state_dir(config)
    location: Path | LedgerPlace = config.state_dir / LEDGER_FILE
    if config.ledger_url:
        from supervisor_core.fleet.hub.ledger import LedgerDatabase

        limit = config.database.query_timeout_seconds
        location = LedgerDatabase(config.ledger_url, limit, config.supervisor.id, lock)
    with Ledger(location, config.supervisor.id, shares=not config.shared_database_disabled) as ledger:
        yield ledger


def flag_trust(config: SupervisorConfig) -> Trust | None:
    """The secret that flags are verified with; None if they needn't be signed."""
    secret = config.inbox.secret.get_secret_value()
    if not secret:
        return None
    return Trust(secret, timedelta(minutes=config.inbox.max_age_minutes), config.supervisor.id)


class EnvironmentReport(TypedDict):
    """The result: `valid`, and the `issues` as sentences with a remedy."""

    valid: bool
    issues: list[str]


def validate_supervisor_environment(config: SupervisorConfig, drive: Drive | None = None) -> EnvironmentReport:
    """Check the environment of this configuration and create missing folders.

    The root of the drive is never created: an unmounted drive must not become a folder. A hanging drive delays no
    longer than its timeout. A folder that only workers use is no issue: it's logged as a warning.
    """
    issues: list[str] = []
    try:
        prepare_state_dir(config)
        opening = partial(OpenFolder.at, config.state_dir, shared=False)
        issues += _write_issues("supervisor.state_dir", config.state_dir, opening)
    except SupervisorError as error:
        issues.append(str(error))
    drive = drive or open_drive(config)
    try:
        for name, issue in drive.call(_folder_issues, drive, config):
            if name in FOLDERS:
                issues.append(issue)
            else:
                log.warning('%s Only workers use it; with nas.folders.%s: "" it isn\'t created.', issue, name)
    except (DriveUnavailable, OSError) as error:
        issues.append(str(error))
    return {"valid": not issues, "issues": issues}


def _folder_issues(drive: Drive, config: SupervisorConfig) -> list[tuple[str, str]]:
    """The names of unusable folders, with the issue. It creates what is missing, in one call to the drive, and only
    where the drive is ours: a mount point without it stays empty."""
    drive.confirm()
    issues: list[tuple[str, str]] = []
    for name, folder in config.folders.items():
        key = f"nas.folders.{name}"
        try:
            drive_files.make_folder(drive.root, folder)
        except OSError as error:
            issues.append((name, f"The folder {folder} ({key}) can't be created: {error.strerror}."))
            continue
        if name in FOLDERS:
            opening = partial(drive_files.open_folder, drive.root, folder)
            issues += [(name, issue) for issue in _write_issues(key, folder, opening)]
    return issues


def _write_issues(key: str, folder: Path, opening: Callable[[], OpenFolder]) -> list[str]:
    try:
        with opening() as opened:
            opened.probe()
    except OSError as error:
        return [f"{folder} ({key}) isn't writable: {error.strerror}. Give this user write access."]
    return []
