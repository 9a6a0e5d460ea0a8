"""Processes where there is no Linux kernel: macOS, the BSDs, and Windows, through psutil.

Written with care, and untested: the tests run on Linux. What differs on Windows:

- A process is launched in a new process group, and asked to end with CTRL_BREAK. That reaches only processes
  on the same console as ours; elsewhere the only graceful way is a file that the worker looks at.
- After that there is only `terminate`, which there is what KILL is elsewhere: no handler runs.
- There are no sessions. Every process counts as leader of its own, and a set is found by parents and by the
  generation in the environment. A Job Object would do it better, but dies with the process that holds it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import psutil

from supervisor_core.adapters.processes_values import GENERATION_VARIABLE, Facts, ProcessIdentity
from supervisor_core.domain.errors import RefusedError

_LETTERS = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "t",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "X",
}
_looks = itertools.count()
_KILL, _FREEZE, _CONTINUE = (
    int(getattr(signal, name, number)) for name, number in (("SIGKILL", 9), ("SIGSTOP", 19), ("SIGCONT", 18))
)


def boot_id() -> str:
    """Nothing: the kernel keeps the time of creation itself, so PID and start differ between boots anyway."""
    return ""


def facts(pid: int) -> Facts | None:
    """What the system says of a PID; None where no such process exists."""
    if pid < 1:
        return None
    try:
        return _facts(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied as error:
        raise PermissionError(f"process {pid} exists, but is not shown to this user") from error


def glance(pid: int) -> Facts | None:
    """The same, where one that is hidden may be passed over like one that has ended."""
    try:
        return _facts(psutil.Process(pid))
    except (psutil.Error, OSError):
        return None


def sight(pid: int) -> tuple[Facts, str] | None:
    """A process, as a walk through all of them sees it: the facts, and its generation token, empty without one."""
    found = glance(pid)
    return None if found is None else (found, token_of(pid))


def pids() -> list[int]:
    """Every process that we may see; most systems number the newest highest."""
    return sorted(psutil.pids(), reverse=True)


def newest_pid() -> int:
    """Never the same twice: this system does not tell whether a process was born meanwhile."""
    return next(_looks)


def is_thread(_pid: int) -> bool:
    """Never: only Linux numbers threads like processes."""
    return False


def token_of(pid: int) -> str:
    """The generation token in the environment that a process was started with; empty without one."""
    try:
        return psutil.Process(pid).environ().get(GENERATION_VARIABLE, "")
    except (psutil.Error, OSError):
        return ""


def arguments(pid: int) -> tuple[str, ...]:
    """The words that a process was started with; none where it has ended, or shows none."""
    try:
        return tuple(psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return ()


def executable(pid: int) -> str:
    """The program that a process runs, with links resolved; empty where the system doesn't show it."""
    try:
        return os.path.realpath(psutil.Process(pid).exe())
    except (psutil.Error, OSError):
        return ""


def working_directory(pid: int) -> str:
    """The directory that a process works in, with links resolved; empty where the system doesn't show it."""
    try:
        return os.path.realpath(psutil.Process(pid).cwd())
    except (psutil.Error, OSError):
        return ""


def owners(pid: int) -> tuple[int | str, int | str] | None:
    """The real and the effective user of a process; None where it has ended or is hidden."""
    try:
        process = psutil.Process(pid)
        if sys.platform == "win32":
            return process.username(), process.username()
        users = process.uids()
    except (psutil.Error, OSError):
        return None
    return users.real, users.effective


def own_owners() -> tuple[int | str, int | str]:
    """The same of this process, and so of every worker that it starts."""
    found = owners(os.getpid())
    if found is None:
        raise PermissionError("the system does not tell as which user this program runs")
    return found


def is_of_kernel(_pid: int) -> bool:
    """Never: these systems don't list such processes."""
    return False


def started_at(found: Facts) -> datetime:
    """When a process began."""
    return datetime.fromtimestamp(found.start / 1_000_000, UTC)


def since_boot() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the system is suspended, as far as it has one.

    That of Windows does. On macOS it is the raw one: the clock that Python takes stands still while the lid is closed.
    """
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    return time.monotonic()


def age_seconds(start: int) -> float:
    """How long ago a process began whose identity has this `start`."""
    return time.time() - start / 1_000_000


def launch_options() -> dict[str, Any]:
    """What a worker is started with, out of reach of our terminal's signals.

    Not CREATE_NO_WINDOW: on a console of its own CTRL_BREAK would not reach it.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def send(identity: ProcessIdentity, number: int) -> bool:
    """Signal exactly this process, as far as the system can. False where it has ended."""
    if identity.pid <= 1 or identity.pid == os.getpid():
        raise RefusedError(f"Process {identity.pid} is never signalled: it is the system's first, or ourselves.")
    with _translated():
        process = _verified(identity)
        if process is None:
            return False
        try:
            _deliver(process, number)
        except psutil.NoSuchProcess:
            return False
    return True


def wait_ended(identities: Sequence[ProcessIdentity], seconds: float) -> tuple[ProcessIdentity, ...]:
    """Wait until all have ended, for at most so long; those that have not are the answer."""
    waiting: dict[psutil.Process, ProcessIdentity] = {}
    unverifiable: list[ProcessIdentity] = []
    for identity in identities:
        try:
            with _translated():
                process = _verified(identity)
        except PermissionError:
            unverifiable.append(identity)
            continue
        if process is not None:
            waiting[process] = identity
    _, alive = psutil.wait_procs(list(waiting), timeout=seconds)
    left = [waiting[process] for process in alive if _verified(waiting[process]) is not None]
    return (*unverifiable, *left)


def _facts(process: psutil.Process) -> Facts:
    with process.oneshot():
        session = process.pid
        if sys.platform != "win32":
            session = os.getsid(process.pid)
        return Facts(
            pid=process.pid,
            name=process.name(),
            state=_LETTERS.get(process.status(), "S"),
            ppid=process.ppid(),
            session=session,
            start=_start(process),
        )


def _start(process: psutil.Process) -> int:
    """The creation time in microseconds, which a float still holds exactly enough to compare."""
    return round(process.create_time() * 1_000_000)


def _verified(identity: ProcessIdentity) -> psutil.Process | None:
    """The process, if it is still this one. psutil compares once more before it signals."""
    try:
        process = psutil.Process(identity.pid)
        ended = process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
        return None if ended or _start(process) != identity.start else process
    except psutil.NoSuchProcess:
        return None


def _deliver(process: psutil.Process, number: int) -> None:
    if sys.platform != "win32":
        process.send_signal(number)
    elif number == _FREEZE:
        process.suspend()
    elif number == _CONTINUE:
        process.resume()
    elif number == _KILL:
        process.kill()
    else:
        # Every polite signal is CTRL_BREAK; one that can't be delivered leaves the worker to the time limit.
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.CTRL_BREAK_EVENT)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from error
