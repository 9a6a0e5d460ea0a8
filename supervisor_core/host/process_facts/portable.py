"""Processes through psutil: everything on macOS, the BSDs and Windows, and on Linux what isn't read from /proc.

The tests run all of it on Linux as well. Windows, macOS and the BSDs themselves are untested. Differences on Windows:

- A process is launched in a new process group, and asked to end with CTRL_BREAK. That reaches only processes
  on the same console as ours; elsewhere the only graceful way is a file that the worker looks at.
- After that there is only `terminate`, which there is what KILL is elsewhere: no handler runs.
- There are no sessions. Every process counts as leader of its own, and a set is found by parents and by the
  generation in the environment. A Job Object would do it better, but dies with the process that holds it.

On Linux psutil adds the start of a process, in clock ticks of 10 ms, to a boot time in whole seconds that moves when
somebody sets the clock. So an identity from here holds between two looks, but not across a change of the clock. That
is why the supervisor itself takes the ticks and the boot id on Linux (`linux.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psutil

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE, ProcessFacts, ProcessIdentity

_LETTERS = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "t",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "X",
}
_ENDED = frozenset("ZX")
_LOOK_AGAIN_SECONDS = 0.02
_looks = itertools.count()
_listed: frozenset[int] = frozenset()
_KILL, _FREEZE, _CONTINUE = (
    int(getattr(signal, name, number)) for name, number in (("SIGKILL", 9), ("SIGSTOP", 19), ("SIGCONT", 18))
)


def boot_id() -> str:
    """Nothing: the kernel keeps the time of creation itself, so PID and start differ between boots anyway."""
    return ""


def facts(pid: int) -> ProcessFacts | None:
    """The system's facts about a PID; None where no such process exists.

    `PermissionError` where it exists and is hidden from this user.
    """
    if pid < 1:
        return None
    try:
        return _facts(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return _recheck(pid)
    except psutil.AccessDenied as error:
        raise PermissionError(f"process {pid} exists, but is hidden from this user") from error


def glance(pid: int) -> ProcessFacts | None:
    """The same, but None for a hidden process too."""
    try:
        return _facts(psutil.Process(pid))
    except (psutil.Error, OSError, ValueError):
        return None


def sight(pid: int) -> tuple[ProcessFacts, str] | None:
    """The facts about a process for a scan of all, with its generation token, empty if it has none."""
    try:
        process = psutil.Process(pid)
        return _facts(process), _token(process)
    except (psutil.Error, OSError, ValueError):
        return None


def usage(pid: int) -> tuple[int, float] | None:
    """The resident memory in bytes and the CPU time in seconds; None for a missing or hidden process."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return process.memory_info().rss, times.user + times.system
    except psutil.Error:
        return None


def pids() -> list[int]:
    """Every process that we may see: those that the listing before didn't have first, the highest number first.

    A process that forks and ends all the time always is such a newcomer: looked at last, it would be gone by then.
    """
    global _listed  # a hint: where two threads list at once, either order will do
    listed = psutil.pids()
    before, _listed = _listed, frozenset(listed)
    return sorted(listed, key=lambda pid: (pid in before, -pid))


def newest_pid() -> int:
    """Never the same twice: this system does not tell whether a process was born meanwhile."""
    return next(_looks)


def is_thread(pid: int) -> bool:
    """True for a thread's number, which psutil describes on Linux but doesn't count as a process."""
    return sys.platform == "linux" and not psutil.pid_exists(pid)


def token_of(pid: int) -> str:
    """The generation token in the environment that a process was started with; empty without one."""
    try:
        return _token(psutil.Process(pid))
    except (psutil.Error, OSError, ValueError):
        return ""


def arguments(pid: int) -> tuple[str, ...]:
    """The words that a process was started with; none where it has ended, or shows none.

    On Linux psutil splits a single word at its spaces.
    """
    try:
        return tuple(psutil.Process(pid).cmdline())
    except (psutil.Error, OSError, ValueError):
        return ()


def executable(pid: int) -> str:
    """The program that a process runs, with links resolved; empty where the system doesn't show it.

    Where the system hides it, psutil may take it from the command line, which the process itself can write.
    """
    try:
        found = psutil.Process(pid).exe()
    except (psutil.Error, OSError):
        return ""
    return os.path.realpath(found) if found else ""


def working_directory(pid: int) -> str:
    """The directory that a process works in, with links resolved; empty where the system doesn't show it."""
    try:
        found = psutil.Process(pid).cwd()
    except (psutil.Error, OSError):
        return ""
    return os.path.realpath(found) if found else ""


def owners(pid: int) -> tuple[int | str, int | str] | None:
    """The real and the effective user of a process; None if it has ended or is hidden."""
    try:
        process = psutil.Process(pid)
        if sys.platform == "win32":
            return process.username(), process.username()
        users = process.uids()
    except (psutil.Error, OSError):
        return None
    return users.real, users.effective


def own_owners() -> tuple[int | str, int | str]:
    """The users of this process, and so of every worker that it starts."""
    found = owners(os.getpid())
    if found is None:
        raise PermissionError("the system doesn't report the user of this process")
    return found


def is_of_kernel(_pid: int) -> bool:
    """Never: psutil doesn't tell, and only Linux lists such processes."""
    return False


def started_at(found: ProcessFacts) -> datetime:
    return datetime.fromtimestamp(found.start / 1_000_000, UTC)


def since_boot() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the system is suspended, as far as it has one.

    That of Windows does. On macOS it is the raw one: the clock that Python takes stands still while the lid is closed.
    """
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    return time.monotonic()


def age_seconds(start: int) -> float:
    """The age of a process whose identity has this `start`."""
    return time.time() - start / 1_000_000


def launch_options() -> dict[str, Any]:
    """Options for `Popen`, out of reach of our terminal's signals.

    Not CREATE_NO_WINDOW: on a console of its own CTRL_BREAK would not reach it.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def send(identity: ProcessIdentity, number: int) -> bool:
    """Signal exactly this process, as far as the system can. False if it has ended."""
    if identity.pid <= 1 or identity.pid == os.getpid():
        raise RefusedError(f"Process {identity.pid} is never signaled: it's the init process or the supervisor itself.")
    if not _still_there(identity):
        return False
    try:
        process = psutil.Process(identity.pid)
        if _start(process) != identity.start:
            return False
        _deliver(process, number)  # psutil compares once more before it signals
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from error
    return True


def wait_ended(identities: Sequence[ProcessIdentity], seconds: float) -> tuple[ProcessIdentity, ...]:
    """Wait until all have ended or the time is over. Returns those that are left.

    Not by psutil, which reaps children while it waits: their exit codes would be lost.
    """
    deadline = time.monotonic() + seconds
    left = [identity for identity in identities if not _has_ended(identity)]
    while left and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_SECONDS)
        left = [identity for identity in left if not _has_ended(identity)]
    return tuple(left)


def _facts(process: psutil.Process) -> ProcessFacts:
    with process.oneshot():
        start, state = _start(process), _state(process)
        try:
            name, ppid = process.name(), process.ppid()
        except psutil.ZombieProcess:  # some systems tell no more of one
            name, ppid = "", 0
        return ProcessFacts(process.pid, name, state, ppid, _session(process.pid), start)


def _token(process: psutil.Process) -> str:
    try:
        return process.environ().get(GENERATION_VARIABLE, "")
    except (psutil.Error, OSError):
        return ""


def _start(process: psutil.Process) -> int:
    """The creation time in microseconds, which a float still holds exactly enough to compare."""
    return round(process.create_time() * 1_000_000)


def _state(process: psutil.Process) -> str:
    try:
        letter = _LETTERS.get(process.status(), "S")
    except psutil.ZombieProcess:
        return "Z"
    if letter == "Z":
        with contextlib.suppress(psutil.Error):
            if process.num_threads() > 1:
                return "S"  # only its first thread has ended; the process goes on
    return letter


def _session(pid: int) -> int:
    """The session of a process; 0, which is nobody's, where the system doesn't tell."""
    if sys.platform == "win32":
        return pid
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _recheck(pid: int) -> ProcessFacts | None:
    """Tell a process that doesn't exist from one that psutil doesn't see: the kernel answers a signal 0 for both."""
    if sys.platform == "win32":
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    else:
        with contextlib.suppress(psutil.NoSuchProcess):
            return _facts(psutil.Process(pid))  # it came up between the two looks
    raise PermissionError(f"process {pid} exists, but is hidden from this user")


def _still_there(identity: ProcessIdentity) -> bool:
    found = facts(identity.pid)
    return found is not None and found.start == identity.start and found.state not in _ENDED


def _has_ended(identity: ProcessIdentity) -> bool:
    """False for one that the system hides."""
    try:
        return not _still_there(identity)
    except PermissionError:
        return False


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
