"""Starting a worker: in a session of its own, its output to a file, on record before it exists."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.host.descriptors import PRIVATE_FOLDER, UnreadableFileError
from supervisor_core.host.logging.excerpts import start_line
from supervisor_core.host.permissions import why_denied
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.process_facts.signals import launch_options
from supervisor_core.processes import children
from supervisor_core.processes.finding import FoundWorker, Presence, find
from supervisor_core.processes.output.files import opened_output, read_output_end
from supervisor_core.processes.records import (
    STARTING,
    StopOrder,
    WorkerRecord,
    forget_record,
    new_generation,
    write_record,
)


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """The program to start. The environment is exactly `env`, and the generation of the launch."""

    worker_id: str
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    log_path: Path
    spec_hash: str = ""
    order: StopOrder | None = None
    """Set for a launch on trial."""
    own_log_before: int | None = None
    """The size of the log that the worker writes itself."""
    looked: FoundWorker | None = None
    """The result of a search of all processes that was just made, and saves another one."""


class LaunchError(SupervisorError):
    """The worker could not be started."""


def launch(state_dir: Path, spec: LaunchSpec) -> WorkerRecord:
    """Start a worker of which nothing runs. Call it with the worker's lock held.

    That lock is what makes this safe against a `kill -9` at any point: the half-made child keeps it until it
    has become the worker's program, and from then on its environment carries the generation.

    The child inherits from us which signals are ignored; a supervisor ignores none that could stop a worker.
    """
    worker_id = spec.worker_id
    existing = find(state_dir, worker_id, locked=True, looked=spec.looked)
    if existing.identity is not None:
        raise RefusedError(
            f"Worker {worker_id} is already running (pid {existing.identity.pid}).", remedy="Restart it instead."
        )
    if existing.presence is Presence.UNVERIFIABLE:
        raise RefusedError(f"Worker {worker_id} may be running. {existing.reason}")
    if existing.leftovers:
        names = ", ".join(map(str, existing.leftovers))
        raise RefusedError(
            f"Processes of an earlier start of {worker_id} are still running: {names}.", remedy="Stop it first."
        )
    if not spec.command or not spec.command[0]:
        raise LaunchError(f"Worker {worker_id} has no command.", remedy="Set workers.ID.command in the configuration.")
    if not spec.cwd.is_dir():
        raise LaunchError(
            f"The working directory of worker {worker_id} doesn't exist: {spec.cwd}.",
            remedy="Create it, or fix workers.ID.cwd.",
        )
    record = WorkerRecord(
        worker_id=worker_id,
        generation=new_generation(state_dir, worker_id),
        state=STARTING,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        command=spec.command,
        log_path=str(spec.log_path),
        spec_hash=spec.spec_hash,
        order=spec.order,
        own_log_before=spec.own_log_before,
    )
    with _opened_log(spec.log_path) as log:
        write_record(state_dir, record)
        with suppress(OSError, UnreadableFileError):  # a full disk prevents no start
            # A line separates the output of this run from that of earlier ones, the last of which may have no end.
            line_break = b"" if read_output_end(spec.log_path, 1).data in (b"", b"\n") else b"\n"
            os.write(log, line_break + f"{start_line(worker_id, record.started_at)}\n".encode())
        try:
            child = children.Child(
                list(spec.command),
                cwd=spec.cwd,
                env={**spec.env, GENERATION_VARIABLE: record.generation},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                close_fds=True,
                **launch_options(),
            )
        except BaseException as error:
            forget_record(state_dir, worker_id)
            if isinstance(error, OSError | ValueError):
                raise _explain(spec, error) from error
            raise
    identity = identify(child.pid)  # a child that has ended already is a zombie until we reap it: still known
    if identity is None:
        raise LaunchError(
            f"Worker {worker_id} (pid {child.pid}) disappeared right after its start.",
            remedy="Something else in this program reaps children or ignores SIGCHLD. Report this as a bug.",
        )
    children.register(identity, child)
    record = record.running_as(identity)
    write_record(state_dir, record)
    return record


@contextmanager
def _opened_log(path: Path) -> Iterator[int]:
    """The file for the output, appended to: its beginning may be cut off while the worker writes."""
    with ExitStack() as stack:
        try:
            path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            descriptor = stack.enter_context(opened_output(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        except UnreadableFileError as error:
            raise LaunchError(f"Its output can't be captured: {error.message}", remedy=error.remedy) from error
        except OSError as error:
            raise LaunchError(f"Its output can't be captured in {path}: {error.strerror}.") from error
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(descriptor, True)
        yield descriptor


def _explain(spec: LaunchSpec, error: OSError | ValueError) -> LaunchError:
    """The problem of the executable; the system's error doesn't even say which file it means."""
    program, remedy = spec.command[0], f"Fix workers.{spec.worker_id}.command."
    if isinstance(error, FileNotFoundError):
        if os.sep in program and (spec.cwd / program).exists():
            reason = f"{program} exists, but the interpreter in its first line doesn't"
        else:
            path = "" if os.sep in program else f" on the PATH {spec.env.get('PATH', os.defpath)!r}"
            reason = f"{program} doesn't exist{path}"
    elif isinstance(error, PermissionError):
        denied, _ = why_denied(spec.cwd, os.X_OK)
        if denied:
            reason = f"its working directory can't be entered: {denied}"
            remedy = f"Let this user enter it, or change workers.{spec.worker_id}.cwd."
        else:
            path = program if os.sep in program else shutil.which(program, path=spec.env.get("PATH", os.defpath)) or ""
            reason = f"{path or program} isn't executable"
    elif isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        reason = f"{program} isn't a program (a script needs a first line with its interpreter)"
    else:
        reason = f"{program}: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
    return LaunchError(f"Worker {spec.worker_id} can't be started: {reason}.", remedy=remedy)
