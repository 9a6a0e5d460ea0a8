"""Processes on Linux: through psutil, except for the facts that are read from /proc for one of four reasons.

- psutil has no such fact: the boot id, the start in the kernel's ticks, kernel threads, the newest PID.
- The fact is read for every process of the host: `python -m tests.benchmarks scan` measures both ways.
- `status` and a pass that has nothing to do need it: importing psutil takes 19 ms (same benchmark), half of `status`.
- psutil answers less exactly: it guesses a hidden program, and splits a single argument. Adopting a worker needs both.
"""

from __future__ import annotations

import operator
import os
import time
from bisect import bisect_left
from datetime import UTC, datetime
from functools import cache
from typing import Any

from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE, ProcessFacts

_CHUNK = 1 << 16
_MAX_ENVIRONMENT = 4 << 20  # the kernel's own limit for arguments and environment is 2 MiB on most machines
_TOKEN = b"\0" + GENERATION_VARIABLE.encode() + b"="

# Positions after the closing parenthesis of /proc/PID/stat, where field 3 is number 0; see proc(5).
_STATE, _PPID, _SESSION, _FLAGS, _USER, _SYSTEM, _THREADS, _START, _PAGES = 0, 1, 3, 6, 11, 12, 17, 19, 21
_KERNEL_THREAD = 0x00200000  # the flag of those that the kernel runs for itself: they were never given an environment
_WITHOUT_MEMORY = frozenset("ZXx")


@cache
def boot_id() -> str:
    """The kernel's name for this boot. An `OSError` where it is hidden: then nothing can be verified."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def facts(pid: int) -> ProcessFacts | None:
    """The kernel's facts about a PID; None where no such process exists.

    `PermissionError` where it exists and is hidden from us (a /proc mounted with `hidepid`).

    From /proc: one line holds the start in ticks, which psutil doesn't show, and all the rest. `status` verifies every
    worker by it, and psutil's import costs 19 ms.
    """
    if pid < 1:
        return None
    try:
        return _parse(pid, _read(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return _recheck(pid)


def glance(pid: int) -> ProcessFacts | None:
    """The same, but None for a hidden process too."""
    try:
        return _parse(pid, _read(f"/proc/{pid}/stat"))
    except OSError:
        return None


def sight(pid: int) -> tuple[ProcessFacts, str] | None:
    """The facts about a process for a scan of all, with its generation token, empty if it has none.

    The facts come first. Where the PID changes hands in between, a token is then taken for that of a process which
    has ended, and which nobody can signal; the other way round it could be taken for a stranger's.

    From /proc: a walk does this for every process of the host.
    """
    try:
        line = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    found = _parse(pid, line)
    has_none = found.state in _WITHOUT_MEMORY or _is_of_kernel(line)
    return found, "" if has_none else token_of(pid)


def usage(pid: int) -> tuple[int, float] | None:
    """The resident memory in bytes and the CPU time in seconds; None for a missing or hidden process.

    From /proc: `status` asks this for every worker and its descendants.
    """
    try:
        line = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    rest = line[line.rindex(b")") + 2 :].split()
    ticks = int(rest[_USER]) + int(rest[_SYSTEM])
    return int(rest[_PAGES]) * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")


def pids() -> list[int]:
    """Every visible process, newest first, without threads.

    A process that forks and ends all the time is always the newest. Checked last, it would be gone by then.
    """
    listed = sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)
    first = bisect_left(listed, -newest_pid(), key=operator.neg)
    return listed[first:] + listed[:first]  # numbers above the newest are from before they began anew


def newest_pid() -> int:
    """The PID or thread number that was given last. If it's the same before and after, none was created."""
    return int(_read("/proc/loadavg").split()[-1])


def is_thread(pid: int) -> bool:
    """True for a thread's number. /proc answers for those as well, though it doesn't list them.

    From /proc: each file lock asks this, and so does `status`; psutil's import costs 19 ms.
    """
    try:
        status = _read(f"/proc/{pid}/status")
    except OSError:
        return False
    return f"\nTgid:\t{pid}\n".encode() not in status


def token_of(pid: int) -> str:
    """The generation token in the environment that a process was started with; empty without one.

    A process of another user does not show it, and neither does one that overwrote its own environment.

    From /proc: a walk does this for every process of the host.
    """
    try:
        environment = b"\0" + _read(f"/proc/{pid}/environ", _MAX_ENVIRONMENT)
    except OSError:
        return ""
    _, found, rest = environment.partition(_TOKEN)
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def arguments(pid: int) -> tuple[str, ...]:
    """The words that a process was started with; none where it has ended, or shows none.

    From /proc: a search for second copies does this for every process of the host, and psutil splits a single word
    at its spaces, so that another command could be taken for the worker's.
    """
    try:
        words = _read(f"/proc/{pid}/cmdline", _MAX_ENVIRONMENT)
    except OSError:
        return ()
    return tuple(os.fsdecode(words).split("\0")[:-1])


def executable(pid: int) -> str:
    """The program that a process runs, with links resolved; empty where the system doesn't show it.

    From /proc: where the system hides the program, psutil takes it from the command line, which the process itself
    can write. Adopting a worker depends on it.
    """
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")  # noqa: PTH115 (a Path costs more)
    except OSError:
        return ""


def working_directory(pid: int) -> str:
    """The directory that a process works in, with links resolved; empty where the system doesn't show it."""
    from supervisor_core.host.process_facts import portable  # late: only where a process claims to be a worker

    return portable.working_directory(pid)


def owners(pid: int) -> tuple[int | str, int | str] | None:
    """The real and the effective user of a process; None if it has ended or is hidden."""
    from supervisor_core.host.process_facts import portable  # late: only where a process claims to be a worker

    return portable.owners(pid)


def own_owners() -> tuple[int | str, int | str]:
    """The users of this process, and so of every worker that it starts."""
    return os.getuid(), os.geteuid()


def is_of_kernel(pid: int) -> bool:
    try:
        return _is_of_kernel(_read(f"/proc/{pid}/stat"))
    except OSError:
        return False


def started_at(found: ProcessFacts) -> datetime:
    """The start of a process by the wall clock as it is now.

    Not by psutil, which counts from a boot time in whole seconds.
    """
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return datetime.fromtimestamp(booted + found.start / os.sysconf("SC_CLK_TCK"), UTC)


def since_boot() -> float:
    """Seconds on a clock that nobody sets and that runs during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def age_seconds(start: int) -> float:
    """The age of a process whose identity has this `start`."""
    return since_boot() - start / os.sysconf("SC_CLK_TCK")


def launch_options() -> dict[str, Any]:
    """Options for `Popen`: a session of its own, out of reach of our terminal's signals."""
    return {"start_new_session": True}


def _parse(pid: int, line: bytes) -> ProcessFacts:
    # A name may hold anything, parentheses and spaces included; only the last one closes it.
    opening, closing = line.index(b"("), line.rindex(b")")
    name = line[opening + 1 : closing].decode(errors="replace")
    rest = line[closing + 2 :].split()
    state = rest[_STATE].decode()
    if state == "Z" and int(rest[_THREADS]) > 1:
        state = "S"  # only its first thread has ended; the process goes on
    return ProcessFacts(pid, name, state, int(rest[_PPID]), int(rest[_SESSION]), int(rest[_START]))


def _is_of_kernel(line: bytes) -> bool:
    return bool(int(line[line.rindex(b")") + 2 :].split(None, _FLAGS + 1)[_FLAGS]) & _KERNEL_THREAD)


def _recheck(pid: int) -> ProcessFacts | None:
    """Distinguish a missing process from a hidden one by signal 0, which the kernel answers for both."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    else:
        try:
            return _parse(pid, _read(f"/proc/{pid}/stat"))  # it came up between the two looks
        except (FileNotFoundError, ProcessLookupError):
            pass
    raise PermissionError(f"process {pid} exists, but /proc hides it from this user")


def _read(path: str, limit: int = _CHUNK) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = chunk = os.read(descriptor, _CHUNK)
        while len(chunk) == _CHUNK and len(content) < limit:  # what is shorter is the end: /proc is no pipe
            chunk = os.read(descriptor, _CHUNK)
            content += chunk
        return content
    finally:
        os.close(descriptor)
