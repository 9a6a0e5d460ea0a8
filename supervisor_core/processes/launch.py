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
    _refuse_second_copy(find(state_dir, spec.worker_id, locked=True, looked=spec.looked))
    _check_spec(spec)
    record = WorkerRecord(
        worker_id=spec.worker_id,
        generation=new_generation(state_dir, spec.worker_id),
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
        _write_start_line(spec, log, record.started_at)
        try:
            child = _spawn(spec, record.generation, log)
        except BaseException:
            forget_record(state_dir, spec.worker_id)
            raise
    identity = identify(child.pid)  # a child that has ended already is a zombie until we reap it: still known
    if identity is None:
        raise LaunchError(
            f"Worker {spec.worker_id} (pid {child.pid}) disappeared right after its start.",
            remedy="Something else in this program reaps children or ignores SIGCHLD. Report this as a bug.",
        )
    children.register(identity, child)
    record = record.running_as(identity)
    write_record(state_dir, record)
    return record


def _refuse_second_copy(found: FoundWorker) -> None:
    worker_id = found.worker_id
    if found.identity is not None:
        raise RefusedError(
            f"Worker {worker_id} is already running (pid {found.identity.pid}).", remedy="Restart it instead."
        )
    if found.presence is Presence.UNVERIFIABLE:
        raise RefusedError(f"Worker {worker_id} may be running. {found.reason}")
    if found.leftovers:
        names = ", ".join(str(member) for member in found.leftovers)
        raise RefusedError(
            f"Processes of an earlier start of {worker_id} are still running: {names}.", remedy="Stop it first."
        )


def _check_spec(spec: LaunchSpec) -> None:
    if not spec.command or not spec.command[0]:
        raise LaunchError(
            f"Worker {spec.worker_id} has no command.", remedy="Set workers.ID.command in the configuration."
        )
    if not spec.cwd.is_dir():
        raise LaunchError(
            f"The working directory of worker {spec.worker_id} doesn't exist: {spec.cwd}.",
            remedy="Create it, or fix workers.ID.cwd.",
        )


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


def _write_start_line(spec: LaunchSpec, log: int, at: str) -> None:
    """Separate the output of this run from that of earlier ones; a full disk prevents no start."""
    with suppress(OSError, UnreadableFileError):
        is_open = read_output_end(spec.log_path, 1).data not in (b"", b"\n")  # its last line has no end
        line = start_line(spec.worker_id, at) + "\n"
        os.write(log, ("\n" + line if is_open else line).encode())


def _spawn(spec: LaunchSpec, generation: str, log: int) -> children.Child:
    try:
        return children.Child(
            list(spec.command),
            cwd=spec.cwd,
            env={**spec.env, GENERATION_VARIABLE: generation},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=True,
            **launch_options(),
        )
    except (OSError, ValueError) as error:
        cause, _ = why_denied(spec.cwd, os.X_OK) if isinstance(error, PermissionError) else ("", "")
        why = f"its working directory can't be entered: {cause}" if cause else _why(spec, error)
        remedy = (
            f"Let this user enter it, or change workers.{spec.worker_id}.cwd."
            if cause
            else f"Fix workers.{spec.worker_id}.command."
        )
        raise LaunchError(f"Worker {spec.worker_id} can't be started: {why}.", remedy=remedy) from error


def _why(spec: LaunchSpec, error: OSError | ValueError) -> str:
    """The problem of the executable; the system's error does not even say which file it means."""
    program = spec.command[0]
    if isinstance(error, FileNotFoundError):
        if os.sep in program and (spec.cwd / program).exists():
            return f"{program} exists, but the interpreter in its first line doesn't"
        where = "" if os.sep in program else f" on the PATH {spec.env.get('PATH', os.defpath)!r}"
        return f"{program} doesn't exist{where}"
    if isinstance(error, PermissionError):
        found = shutil.which(program, path=spec.env.get("PATH", os.defpath)) if os.sep not in program else program
        return f"{found or program} isn't executable"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return f"{program} isn't a program (a script needs a first line with its interpreter)"
    return f"{program}: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
