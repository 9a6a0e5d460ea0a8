"""The part of a diagnostic report about a worker's last word: how old it is, what it says, and what follows from it.

The parts of a diagnostic report: each looks at one thing, knows no other, and may hang or fail alone.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from supervisor_core.code.git import NAMED_CHANGES, Git, NoCheckoutError, git_version
from supervisor_core.commands.flags import parse_name
from supervisor_core.common.times import to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.files import Part, Usage, failed, usage_of
from supervisor_core.diagnosis.reports.handlers import database_name, database_url
from supervisor_core.host import drive_files
from supervisor_core.host.disks import disk_space
from supervisor_core.host.inbox import Inbox
from supervisor_core.host.logging.excerpts import last_lines
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.open_folder import OpenFolder
from supervisor_core.host.process_facts.facts import Liveness, WorkerProcess
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.output.files import read_source, source_of
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.database_check import read_closed_ledger, verify
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.version import __version__
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.health import Health
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.worker import check_watcher_process


def heartbeat(host: HostContext, worker: WorkerSettings, _: Masking) -> dict[str, Any]:
    """Fresh, healthy, paused; with the reason in words."""
    host.drive.check()
    (status,) = observe_workers(host, [worker], patient=True)
    beat, pause, verdict, now = status.heartbeat, status.pause, status.verdict, status.at
    age = (now - beat.at).total_seconds() if beat and beat.at else None
    limit = worker.heartbeat_max_age_seconds
    return {
        "fresh": age is not None and (limit == 0 or age < limit),
        "healthy": verdict.health is Health.HEALTHY,
        "paused": pause is not None,
        "health": str(verdict.health),
        "reason": verdict.reason,
        "pause": str(pause) if pause else None,
        "found": beat is not None,
        "at": beat.at if beat else None,
        "age_seconds": None if age is None else round(age, 1),
        "limit_seconds": limit,
        "status": beat.status if beat else None,
        "error": beat.error if beat else None,
    }


LOG_LINES = 50
AUDIT_ROWS = 10
LONGEST_DETAILS = 4000  # characters of one row's details
NAMED = 50  # children, flags, jobs: more of them are counted

COUNTED = 10_000
MOST_FILES = 1000
"""The most files of the inbox that are named; they are counted up to `COUNTED`."""

COUNT_SECONDS = 2.0
"""Of a folder so much is counted, and for so long: a call that takes longer would be held for a drive that hangs."""

DATABASE_SECONDS = 9.0
LIBRARIES = (
    "SQLAlchemy", "alembic", "psutil", "pydantic", "PyYAML", "aiohttp", "slack-bolt", "slack-sdk", "PyMySQL",
    "psycopg", "nats-py",
)  # fmt: skip


def parts_for(host: HostContext, worker: WorkerSettings, masking: Masking) -> Mapping[str, Part]:
    """All parts in the order of the report. A new part is a new line here."""
    looks: Mapping[str, Callable[[HostContext, WorkerSettings, Masking], Mapping[str, Any]]] = {
        "process": _process,
        "heartbeat": heartbeat,
        "database": _database,
        "folders": _folders,
        "disk": _disk,
        "log": _log,
        "pending_flags": _pending_flags,
        "queue": _queue,
        "audit": _audit,
        "versions": _versions,
        "git": _git,
    }
    return {name: partial(look_at, host, worker, masking) for name, look_at in looks.items()}


def _process(host: HostContext, worker: WorkerSettings, _: Masking) -> dict[str, Any]:
    found = check_watcher_process(host.processes, worker)
    members = host.processes.members(worker.id)
    usage = usage_of(member.identity for member in members[:NAMED])
    own = usage.get(found.identity, Usage()) if found.identity else Usage()
    others = [member for member in members if member.identity != found.identity]
    since = own.started_at
    return {
        "running": found.presence is Presence.RUNNING,
        "presence": str(found.presence),
        "reason": found.reason,
        "pid": found.identity.pid if found.identity else None,
        "frozen": found.life is Liveness.FROZEN,
        "stuck": found.stuck,
        "started_at": since,
        "uptime_seconds": round(max((datetime.now(UTC) - since).total_seconds(), 0.0), 1) if since else None,
        "memory_bytes": own.memory_bytes,
        "cpu_percent": own.cpu_percent,
        "threads": own.threads,
        "children_count": len(others),
        "children": [_member(member, usage.get(member.identity, Usage())) for member in others[:NAMED]],
    }


def _member(member: WorkerProcess, usage: Usage) -> dict[str, Any]:
    """Its command line is left out: what programs are called with may be a secret."""
    figures = {"memory_bytes": usage.memory_bytes, "cpu_percent": usage.cpu_percent, "started_at": usage.started_at}
    return {"pid": member.pid, "name": member.name, "state": member.status, **figures}


def _database(host: HostContext, _: WorkerSettings, __: Masking) -> dict[str, Any]:
    """The connection to the database; `verify-db` checks its content."""
    timeout = min(host.config.database.query_timeout_seconds, DATABASE_SECONDS)
    found = verify(database_url(host.config), (), timeout, DATABASE_SECONDS)
    seconds, message = found.asked[0].seconds, (found.failures or found.asked)[0].message
    told = {"connected": found.connected, "database": database_name(host.config), "message": message}
    return {**told, "connect_seconds": round(seconds, 3), **found.facts()}


def _folders(host: HostContext, _: WorkerSettings, __: Masking) -> dict[str, Any]:
    """The drive's folders, in one call for all of them."""
    host.drive.check()
    found = host.drive.call(_look_at_folders, host.drive.root, host.config.folders)
    missing = [name for name, folder in found.items() if not folder["readable"]]
    return {"root": host.drive.root, "missing": missing, "missing_count": len(missing), **found}


def _look_at_folders(root: Path, folders: Mapping[str, Path]) -> dict[str, Any]:
    deadline = time.monotonic() + COUNT_SECONDS
    return {name: _folder(root, folder, deadline) for name, folder in folders.items()}


def _folder(root: Path, folder: Path, deadline: float) -> dict[str, Any]:
    told: dict[str, Any] = {"path": folder, "exists": False, "readable": False, "writable": False}
    try:
        told["exists"] = drive_files.exists(root, folder)
        with drive_files.open_folder(root, folder) as opened:
            told["readable"] = opened.allows(os.R_OK | os.X_OK)
            told["writable"] = opened.allows(os.W_OK | os.X_OK)
            told |= _counts(opened, deadline)
    except FileNotFoundError:
        return told
    except OSError as error:
        told["error"] = error.strerror
    return told


def _counts(folder: OpenFolder, deadline: float) -> dict[str, Any]:
    files = below = 0
    for entry in folder.entries():
        if files + below >= COUNTED or time.monotonic() > deadline:
            return {"files": files, "folders": below, "more": True}
        if entry.is_dir(follow_symlinks=False):
            below += 1
        else:
            files += 1
    return {"files": files, "folders": below, "more": False}


def _disk(host: HostContext, _: WorkerSettings, __: Masking) -> dict[str, Any]:
    """The disk of the state folder, and that of the drive; one that can't be asked leaves the other known."""
    told: dict[str, Any] = {"state_dir": {"path": host.config.state_dir, **disk_space(host.config.state_dir)._asdict()}}
    try:
        host.drive.check()
        told["drive"] = {"path": host.drive.root, **host.drive.call(disk_space, host.drive.root)._asdict()}
    except Exception as error:  # noqa: BLE001 (whatever the drive does, the local disk is told)
        told["drive"] = failed(str(error))
    return told


def _log(host: HostContext, worker: WorkerSettings, masking: Masking) -> dict[str, Any]:
    source = source_of(host.config, worker)
    end = read_source(host.drive, source)
    tail = last_lines(end, LOG_LINES, masking)
    return {"path": source.path, "size_bytes": tail.size_bytes, "lines": tail.lines}


def _pending_flags(host: HostContext, worker: WorkerSettings, _: Masking) -> dict[str, Any]:
    """All files that wait in the inbox, and what is known of this worker's flags."""
    host.drive.check()
    return host.drive.call(_look_at_flags, host.drive.root, host.inbox, worker.id)


def _look_at_flags(root: Path, inbox: Inbox, worker_id: str) -> dict[str, Any]:
    folder, found = inbox.folder, [flag.name for flag in inbox.unclaimed(lambda _: True)]
    ours = [name for name in found if (flag := parse_name(name)) is not None and flag.worker_id == worker_id]
    told = [{"name": name, **_age(root, folder / name)} for name in ours[:NAMED]]
    try:
        claimed = [flag.name for flag in inbox.leftovers()]
    except FileNotFoundError:
        claimed = []
    known = {"count": len(ours), "flags": told, "for_others": len(found) - len(ours), "claimed": claimed[:NAMED]}
    files = sorted(_files_in(root, folder))
    return {**known, "file_count": len(files), "files": files[:MOST_FILES]}


def _files_in(root: Path, folder: Path) -> list[str]:
    """The names of all files in a folder of the drive, up to `COUNTED`."""
    try:
        with drive_files.open_folder(root, folder) as opened:
            entries = islice(opened.entries(), COUNTED)
            return [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _age(root: Path, path: Path) -> dict[str, Any]:
    try:
        status = drive_files.stat(root, path)
    except FileNotFoundError:
        return {}
    return {"size_bytes": status.st_size, "age_seconds": round(max(time.time() - status.st_mtime, 0.0), 1)}


def _queue(host: HostContext, worker: WorkerSettings, _: Masking) -> dict[str, Any]:
    """The waiting and running jobs of this worker, the report included."""
    states = (JobState.STARTED, JobState.CLAIMED, JobState.QUEUED)
    found = read_closed_ledger(
        host.config.state_dir / LEDGER_FILE, lambda connection: jobs.waiting(connection, [worker.id], states)
    )
    told = [
        {"task_id": job.task_id, "handler": job.handler, "state": str(job.state), "filed_at": to_text(job.filed_at)}
        for job in found[:NAMED]
    ]
    return {"count": len(found), "jobs": told}


def _audit(host: HostContext, _: WorkerSettings, masking: Masking) -> dict[str, Any]:
    """The newest rows of this host's trail, whatever worker they are about."""
    wanted = AuditFilter(limit=AUDIT_ROWS)
    found = read_closed_ledger(host.config.state_dir / LEDGER_FILE, lambda connection: search(connection, wanted))
    return {"rows": [{**row, "details_json": _details(row["details_json"], masking)} for row in found]}


def _details(text: str, masking: Masking) -> str:
    """Taken apart before it is masked, because in JSON a secret may be spelt in other ways."""
    import json

    try:
        shown = json.dumps(masking.foreign(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = masking.text(text)
    return shown if len(shown) <= LONGEST_DETAILS else f"{shown[:LONGEST_DETAILS]}…"


def _versions(_: HostContext, __: WorkerSettings, ___: Masking) -> dict[str, Any]:
    return {
        "supervisor": __version__,
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(_: HostContext, worker: WorkerSettings, __: Masking) -> dict[str, Any]:
    """The state of the worker's checkout. A worker without one is no failure."""
    told = {"path": worker.code.path, "version": git_version()}
    try:
        git, code = Git(worker.code.path), worker.code
        state = git.state()
        ahead, behind = git.distance(code.remote, code.branch)
    except NoCheckoutError as error:
        return {**told, "checkout": False, "message": error.message}
    newest = git.commit(state.head) if state.head else None
    return {
        **told,
        "checkout": True,
        "top": str(state.top),
        "branch": state.branch,
        "head": state.head,
        "subject": newest.subject if newest else "",
        "committed_at": to_text(newest.at) if newest else "",
        "dirty": state.dirty,
        "changed_count": len(state.changes),
        "untracked_count": len(state.untracked),
        "changes": [*state.changes, *state.untracked][:NAMED_CHANGES],
        "under_way": state.under_way,
        "compared_with": f"{code.remote}/{code.branch}",
        "ahead": ahead,
        "behind": behind,
    }
