"""Signals to one process and the wait for its end, never by PID alone; and stop signals sent to us.

psutil compares the identity right before each signal. Where Linux has pidfds, one of them tells of an exit at once;
elsewhere waiting looks again in short steps.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import identity_of, process_at, state

# Windows has only the first of these names; there the numbers are words between us and `_deliver`.
TERMINATE = int(signal.SIGTERM)
KILL = int(getattr(signal, "SIGKILL", 9))
FREEZE = int(getattr(signal, "SIGSTOP", 19))
CONTINUE = int(getattr(signal, "SIGCONT", 18))

LONGEST_POLL_SECONDS = 3600.0  # poll counts milliseconds in 31 bits
LOOK_AGAIN_SECONDS = 0.02  # only where there are no pidfds


def launch_options() -> dict[str, Any]:
    """Options for `Popen`: out of reach of our terminal's signals.

    Not CREATE_NO_WINDOW: on a console of its own CTRL_BREAK wouldn't reach it.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def send(identity: ProcessIdentity, number: int) -> bool:
    """Signal exactly this process. False if it has ended; `PermissionError` if that isn't allowed."""
    import psutil

    if identity.pid <= 1 or identity.pid == os.getpid():
        raise RefusedError(f"Process {identity.pid} is never signaled: it's the init process or the supervisor itself.")
    life = state(identity)
    if life is Liveness.UNVERIFIABLE:
        raise PermissionError(f"process {identity.pid} can't be verified, so it isn't signaled")
    process = process_at(identity.pid) if life.running else None
    if process is None or identity_of(process) != identity:
        return False
    try:
        _deliver(process, number)  # psutil compares once more before it signals
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from error
    return True


def _deliver(process: Any, number: int) -> None:  # noqa: ANN401 (a psutil.Process, which is imported late)
    if sys.platform != "win32":
        process.send_signal(number)
    elif number == FREEZE:
        process.suspend()
    elif number == CONTINUE:
        process.resume()
    elif number == KILL:
        process.kill()
    else:
        # Every polite signal is CTRL_BREAK; one that can't be delivered leaves the worker to the time limit.
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.CTRL_BREAK_EVENT)


def open_exit_notice(identity: ProcessIdentity) -> int | None:
    """A new pidfd of exactly this process, which is readable once that has ended; the caller closes it.

    None where it has ended already, and where there are no pidfds or none is left.
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except (AttributeError, OSError):
        return None
    if state(identity).running:  # compared after opening: from then on the descriptor can mean nobody else
        return descriptor
    os.close(descriptor)
    return None


def wait_exit(identity: ProcessIdentity, timeout: float) -> bool:
    """Wait until a process has ended, ours or not, or the time is over. Returns whether it has ended.

    Not by psutil, which reaps children while it waits: their exit codes would be lost.
    """
    deadline = time.monotonic() + timeout
    descriptor = open_exit_notice(identity)
    if descriptor is not None:
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(math.ceil(min(max(timeout, 0.0), LONGEST_POLL_SECONDS) * 1000)):
                return False
        finally:
            os.close(descriptor)
    while not state(identity).ended:
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_AGAIN_SECONDS)
    return True


def wait_ended(identities: Sequence[ProcessIdentity], seconds: float) -> tuple[ProcessIdentity, ...]:
    """Wait until all have ended or the time is over. Returns those that are left."""
    deadline = time.monotonic() + seconds
    return tuple(identity for identity in identities if not wait_exit(identity, deadline - time.monotonic()))


STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


class StopRequest:
    """A request to stop. `by` is its signal; empty without one."""

    by = ""

    def __bool__(self) -> bool:
        return bool(self.by)


@contextlib.contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Note a stop signal instead of ending; the caller checks between two steps. Does nothing outside the main thread.

    A signal that our parent ignores (`nohup` and SIGHUP) stays ignored.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(number: int, _frame: FrameType | None) -> None:
        request.by = signal.Signals(number).name

    known = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    numbers = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
