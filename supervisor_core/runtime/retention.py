"""The retention of rows, files and refs: one sweep a day, in small pieces, by the daemon or by a pass.

What is kept for how long is data: `RETENTIONS` in the ledger for tables, `FILES` here for folders. A ref under
`refs/supervisor/` stays as long as the job of its command, and `docs/reference/limits.md` lists all of it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.drive_files import open_folder
from supervisor_core.adapters.git import Git
from supervisor_core.adapters.git_changing import drop_kept, keepers, kept_refs
from supervisor_core.adapters.git_reading import top_of
from supervisor_core.adapters.git_trial import clear_left
from supervisor_core.adapters.old_files import delete_old, note_part, note_sweep, parts_done
from supervisor_core.adapters.open_folder import OpenFolder
from supervisor_core.adapters.report_files import FOLDER as REPORTS
from supervisor_core.adapters.report_files import KEPT_AT_HOME
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.handlers import Host
from supervisor_core.handlers.packages_before import FOLDER as PACKAGES
from supervisor_core.ledger import retention as rows
from supervisor_core.ledger.retention import DAY, MONTH, QUARTER
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.forwarding import why_not

REFS_AT_ONCE = 50
"""Git is started once for each."""

REPORT = r"(diagnostics|db_verification)_.+\.json"
OF_A_WORKER = r".+\.(lives|starts|ages|frozen)"
TEMPORARY = r"\..+\.[0-9a-f]{12}\.tmp|\.probe\.\d+\.[0-9a-f]{8}\.tmp"
"""The names of our own temporary files; one that is a day old was left behind by a crash."""

Pieces = Iterator[tuple[int, bool]]
"""The work on one part, piece by piece: how many were deleted, and whether there may be more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one folder that go after a while."""

    name: str
    folder: Callable[[SupervisorConfig], Path]
    names: str
    kept: timedelta
    most: int | None = None
    on_drive: bool = False
    spare: Callable[[SupervisorConfig, str], bool] = lambda _config, _name: False
    """The files that stay all the same."""


def _at_home(name: str) -> Callable[[SupervisorConfig], Path]:
    return lambda config: config.state_dir / name


def _on_drive(name: str, *below: str) -> Callable[[SupervisorConfig], Path]:
    return lambda config: config.folder(name).joinpath(*below)


def _temporary(where: str, folder: Callable[[SupervisorConfig], Path], *, on_drive: bool = False) -> Files:
    return Files(f"temporary files in {where}", folder, TEMPORARY, DAY, on_drive=on_drive)


def _belongs_to_somebody(config: SupervisorConfig, name: str) -> bool:
    """Whether a file is about a worker that is configured, or has a record: its process may still run."""
    worker_id = name.rpartition(".")[0]
    return worker_id in config.workers or (config.state_dir / "workers" / f"{worker_id}.json").exists()


FILES: tuple[Files, ...] = (
    Files("result files", _on_drive("outbox"), r"supervisor_result_.+\.json", QUARTER, 10_000, on_drive=True),
    Files("reports on the drive", _on_drive("logs", REPORTS), REPORT, QUARTER, 1_000, on_drive=True),
    Files("reports at home", _at_home(REPORTS), REPORT, QUARTER, KEPT_AT_HOME),
    Files("package lists", _at_home(PACKAGES), r".+\.json", MONTH),
    Files("notes on removed workers", _at_home("workers"), OF_A_WORKER, QUARTER, spare=_belongs_to_somebody),
    *(_temporary(f"state_dir/{name}", _at_home(name)) for name in (".", "workers", "desired", REPORTS, PACKAGES)),
    *(_temporary(f"nas.folders.{name}", _on_drive(name), on_drive=True) for name in ("outbox", "state", "logs")),
    _temporary("reports on the drive", _on_drive("logs", REPORTS), on_drive=True),
)


def sweep(host: Host, ledger: Ledger, now: datetime) -> Iterator[None]:
    """Delete everything that is old, a small piece for each step. One part that fails keeps no other from its own. A
    sweep that was cut off goes on with the part that it was in."""
    state_dir, removed = host.config.state_dir, Counter[str]()
    done = parts_done(state_dir)
    for name, part in _parts(host, ledger, now):
        if name in done:
            continue
        try:
            for count, more in part:
                removed[name] += count
                if not more:  # before whoever has a moment only leaves
                    note_part(state_dir, name)
                yield
        except DriveUnavailable as error:
            log.debug("retention of %s waits for the drive: %s", name, error)
        except (SupervisorError, OSError) as error:
            log.warning("retention of %s failed and is tried again tomorrow: %s", name, error)
        except Exception:  # the edge: a mistake here must not stop the rest
            log.exception("retention of %s failed and is tried again tomorrow", name)
        note_part(state_dir, name)
    note_sweep(state_dir)
    if +removed:
        log.info("retention: deleted %s", ", ".join(f"{count} of {name}" for name, count in (+removed).items()))


def _parts(host: Host, ledger: Ledger, now: datetime) -> Iterator[tuple[str, Pieces]]:
    config = host.config
    scope = rows.scope_of(ledger, now, frozenset(config.workers), forwards=not why_not(config))
    for retention in rows.RETENTIONS:
        yield f"{retention.table.name} {retention.name}".strip(), _rows(ledger, retention, scope)
    for files in FILES:
        yield files.name, _files(host, files, now)
    for git in _checkouts(host):
        yield f"refs of {git.folder}", _refs(git, ledger, now)
        yield f"trials of {git.folder}", _trials(git, config.state_dir)


def _checkouts(host: Host) -> list[Git]:
    """One for each checkout that a worker runs from. One on a drive that is away is left for another day."""
    with suppress(DriveUnavailable, OSError):
        paths = {worker.code.path for worker in host.config.workers.values()}
        tops = host.drive.call(lambda: {top for path in paths if ((top := top_of(path)) / ".git").exists()})
        return [Git(top) for top in sorted(tops)]
    return []


def _rows(ledger: Ledger, retention: rows.Retention, scope: rows.Scope) -> Pieces:
    full = True
    while full:
        count = rows.delete_batch(ledger, retention, scope)
        if count and retention.lost:
            days = retention.kept.days
            log.warning("gave up on %d messages that nothing took for %d days", count, days)
        full = count >= retention.batch
        yield count, full


def _files(host: Host, files: Files, now: datetime) -> Pieces:
    work = partial(_delete_old, host.config, files, (now - files.kept).timestamp())
    more = True
    while more:
        if files.on_drive:
            host.drive.check()
        count, more = host.drive.call(work) if files.on_drive else work()
        yield count, more


def _delete_old(config: SupervisorConfig, files: Files, before: float) -> tuple[int, bool]:
    path = files.folder(config)
    try:
        opened = open_folder(config.nas.root, path) if files.on_drive else OpenFolder.at(path, shared=False)
    except (FileNotFoundError, NotADirectoryError):
        return 0, False
    with opened as folder:
        return delete_old(folder, re.compile(files.names), before, files.most, partial(files.spare, config))


def _refs(git: Git, ledger: Ledger, now: datetime) -> Pieces:
    """Refs whose command is in the audit trail, long over, and no job any more. Others' are left alone."""
    refs = kept_refs(git)
    for start in range(0, len(refs), REFS_AT_ONCE):
        some = {ref: keepers(ref) for ref in refs[start : start + REFS_AT_ONCE]}
        ids = {task_id for found in some.values() for task_id in found}
        known = ledger.read(partial(rows.with_jobs, task_ids=ids))
        over = ledger.read(partial(rows.over_before, task_ids=ids, before=now - QUARTER))
        gone = [ref for ref, found in some.items() if not known & set(found) and over & set(found)]
        yield sum(drop_kept(git, ref) for ref in gone), start + REFS_AT_ONCE < len(refs)


def _trials(git: Git, state_dir: Path) -> Pieces:
    clear_left(git, state_dir)
    yield 0, False
