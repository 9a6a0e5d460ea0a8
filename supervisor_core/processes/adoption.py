"""Live processes that look like a worker and that no supervisor has started: somebody started them by hand.

A process looks like a worker if it has its arguments and its working directory and runs its program. The only one, if
it has our user, is adopted: its process is recorded, and is ours to watch and to stop. Any other is a person's to look
at, and keeps the worker from being started beside it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.times import to_text
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import age_seconds, process_name, state
from supervisor_core.processes.finding import FoundWorker, Presence, ProcessTable, find, own_owners, owners
from supervisor_core.processes.records import (
    RUNNING,
    WorkerRecord,
    generation_prefix,
    lock_path,
    new_generation,
    prepare_folder,
    read_record,
    write_record,
)

if TYPE_CHECKING:
    import psutil

log = logging.getLogger(__name__)

MOST_WORDS_BEFORE = 2
"""The interpreter of a script, and one option of its first line."""

LOCK_SECONDS = 0.5
"""Several may look at once, each for some milliseconds. Who starts or stops the worker has the lock for longer."""


class WorkerProgram(NamedTuple):
    """The program and the working directory of a worker as its process shows them: links are resolved."""

    path: str
    cwd: str


def resolve_program(name: str, cwd: Path, path: str) -> WorkerProgram:
    """Find the program as a start would. It touches the disk that the worker is on."""
    folder = os.path.realpath(cwd)
    if os.path.dirname(name):  # noqa: PTH120 (a Path forgets the `./` that makes the difference)
        program: str | None = str(Path(folder, name))
    else:
        program = shutil.which(name, path=os.pathsep.join(str(Path(folder, entry)) for entry in path.split(os.pathsep)))
    return WorkerProgram(os.path.realpath(program) if program else "", folder)


class SimilarProcess(NamedTuple):
    """A live process that looks like a worker. `obstacle` says why it can't be adopted; empty where it can."""

    identity: ProcessIdentity
    name: str
    obstacle: str = ""

    @property
    def pid(self) -> int:
        return self.identity.pid

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.name})"


def find_similar(
    state_dir: Path, command: Sequence[str], resolve: Callable[[], WorkerProgram], table: ProcessTable
) -> tuple[SimilarProcess, ...]:
    """The processes that look like a worker with this command, without those of a worker on record here, and without
    the descendants of those and of each other."""
    import psutil

    arguments = list(command[1:])
    pids = {
        pid
        for pid, line in table.commands.items()
        if 0 < len(line) - len(arguments) <= 1 + MOST_WORDS_BEFORE and line[len(line) - len(arguments) :] == arguments
    }
    if pids:  # else nothing touches the disk
        program = resolve()
        pids = {pid for pid in pids if _runs(table.entries[pid].process, table.commands[pid], command, program)}
    if not pids:
        return ()
    known: set[ProcessIdentity | None] = set()
    generations, unreadable = [], ""
    for path in sorted((state_dir / "workers").glob("*.json")):
        generations.append(generation_prefix(state_dir, path.stem))
        try:
            record = read_record(state_dir, path.stem)
        except (SupervisorError, OSError):
            unreadable = str(path)
        else:
            known.add(record.identity if record else None)
    similar = []
    for pid in sorted(pids):
        entry, ancestors = table.entries[pid], table.ancestors(pid)
        family = [table.entries[relative].identity for relative in (pid, *ancestors) if relative in table.entries]
        if known.intersection(family) or pids.intersection(ancestors):
            continue
        if entry.generation and entry.generation.startswith(tuple(generations)):
            continue
        obstacle = ""
        if owners(entry.process) != own_owners():
            user, own_user = _user_name(entry.process), _user_name(psutil.Process())
            obstacle = f"it runs as {user}, not as {own_user}" if user != own_user else "it has another user's rights"
        elif entry.generation:
            obstacle = "a supervisor with another state folder started it"
        elif unreadable:
            obstacle = f"{unreadable} can't be read, and may be its record"
        if not state(entry.identity).ended:
            similar.append(SimilarProcess(entry.identity, process_name(pid), obstacle))
    return tuple(similar)


def _runs(process: psutil.Process, line: Sequence[str], command: Sequence[str], program: WorkerProgram) -> bool:
    """True if it works in the worker's folder and runs its program, or may do so where the system hides that.

    Of a script, the command line has the interpreter first.
    """
    import psutil

    cwd = path = ""
    with contextlib.suppress(psutil.Error, OSError):
        cwd = os.path.realpath(process.cwd())
    if cwd not in ("", program.cwd):
        return False
    before = line[: len(line) - len(command) + 1]
    if len(before) > 1:
        return os.path.realpath(Path(program.cwd, before[-1])) == program.path != ""
    with contextlib.suppress(psutil.Error, OSError):
        path = os.path.realpath(process.exe()) if process.exe() else ""
    return path == program.path if path and program.path else before[0] == command[0]


def _user_name(process: psutil.Process) -> str:
    import psutil

    try:
        return process.username()
    except (psutil.Error, OSError):
        return "somebody whom the system hides"


def adopt(state_dir: Path, worker_id: str, command: Sequence[str], process: SimilarProcess) -> FoundWorker:
    """Put the process on record as this worker, if nothing of it runs.

    The record has a generation that no process carries: a stop then ends this process with its descendants, and
    never the session of the shell that it was started from.
    """
    started_at = datetime.now(UTC) - timedelta(seconds=age_seconds(process.identity.start))
    record = WorkerRecord(
        worker_id=worker_id,
        generation=new_generation(state_dir, worker_id),
        state=RUNNING,
        started_at=to_text(started_at),
        command=tuple(command),
        identity=process.identity,
    )
    try:
        prepare_folder(state_dir)
        with FileLock(lock_path(state_dir, worker_id), f"adopting {worker_id}").acquire(timeout=LOCK_SECONDS):
            worker = find(state_dir, worker_id, locked=True)
            if worker.presence is not Presence.STOPPED or worker.leftovers or state(process.identity).ended:
                return worker  # somebody else was first, or it has just ended
            write_record(state_dir, record)
            about = LogEvent.WORKER_ADOPTED.extra(worker_id=worker_id, pid=process.pid)
            log.info("adopted %s (pid %d), which was already running", worker_id, process.pid, extra=about)
    except LockedError:
        return find(state_dir, worker_id)  # whoever starts or stops it now knows better
    except OSError:  # no supervisor ever worked here, or this user may only look: then it's seen, and not on record
        pass
    return FoundWorker(worker_id, Presence.RUNNING, record, state(process.identity), adopted=True)
