"""Signals to one process and the wait for its end, never by PID alone; and stop signals sent to us.

On Linux a pidfd means one process, however often its PID is used again. A kernel before 5.3, or a sandbox, may refuse
pidfds; then the identity is checked right before an ordinary signal, which leaves a gap of microseconds, and waiting
looks again in short steps. Other systems go through `portable`.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from types import FrameType

from supervisor_core.common.errors import RefusedError
from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.host.process_facts.identity import state

BATCH = 64  # descriptors open at once, so that a big set does not meet the limit of open files
LONGEST_POLL_SECONDS = 3600.0  # poll counts milliseconds in 31 bits
LOOK_AGAIN_SECONDS = 0.02  # only where there are no pidfds


@cache
def has_pidfds() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def spare_descriptors() -> int:
    """The number of descriptors that may be held for long: half of the limit of this program."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 2


def send(identity: ProcessIdentity, number: int) -> bool:
    """Signal exactly this process. False if it has ended; `PermissionError` if that isn't allowed."""
    if identity.pid <= 1 or identity.pid == os.getpid():
        raise RefusedError(f"Process {identity.pid} is never signaled: it's the init process or the supervisor itself.")
    if not has_pidfds():
        return _send_checked(identity, number)
    with _open_descriptor(identity) as descriptor:
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
    return True


def wait_ended(identities: Sequence[ProcessIdentity], seconds: float) -> tuple[ProcessIdentity, ...]:
    """Wait until all have ended or the time is over. Returns those that are left."""
    deadline = time.monotonic() + seconds
    left: list[ProcessIdentity] = []
    for first in range(0, len(identities), BATCH):
        batch = identities[first : first + BATCH]
        left += _wait_batch(batch, deadline) if has_pidfds() else _wait_looking(batch, deadline)
    return tuple(left)


def _wait_batch(batch: Sequence[ProcessIdentity], deadline: float) -> list[ProcessIdentity]:
    waiting: dict[int, ProcessIdentity] = {}
    unverifiable: list[ProcessIdentity] = []
    poll = select.poll()
    with contextlib.ExitStack() as stack:
        for identity in batch:
            try:
                descriptor = stack.enter_context(_open_descriptor(identity))
            except PermissionError:
                unverifiable.append(identity)
                continue
            if descriptor is not None:
                waiting[descriptor] = identity
                poll.register(descriptor, select.POLLIN)  # readable once the process has ended, reaped or not
        while waiting:
            seconds = min(max(0.0, deadline - time.monotonic()), LONGEST_POLL_SECONDS)
            ready = poll.poll(math.ceil(seconds * 1000))
            for descriptor, _ in ready:
                poll.unregister(descriptor)
                del waiting[descriptor]
            if not ready and time.monotonic() >= deadline:
                break
        return unverifiable + list(waiting.values())


def descriptor_of(identity: ProcessIdentity) -> int | None:
    """A new descriptor of exactly this process, the caller's to close; None where it has ended.

    It is readable once the process has ended. `PermissionError` where nobody can tell who the process is. The
    identity is compared after opening: from then on the descriptor can mean nobody else.
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError as error:
        # EINVAL and ENOENT: the number names a thread of another process by now.
        if error.errno not in {errno.ESRCH, errno.EINVAL, errno.ENOENT}:
            raise
        return None
    try:
        there = _still_there(identity)
    except BaseException:
        os.close(descriptor)
        raise
    if not there:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def _open_descriptor(identity: ProcessIdentity) -> Iterator[int | None]:
    """The descriptor within a `with` block."""
    descriptor = descriptor_of(identity)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _send_checked(identity: ProcessIdentity, number: int) -> bool:
    if not _still_there(identity):
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def _wait_looking(batch: Sequence[ProcessIdentity], deadline: float) -> list[ProcessIdentity]:
    left = [identity for identity in batch if not state(identity).ended]
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_SECONDS)
        left = [identity for identity in left if not state(identity).ended]
    return left


def _still_there(identity: ProcessIdentity) -> bool:
    life = state(identity)
    if life is Liveness.UNVERIFIABLE:
        raise PermissionError(f"process {identity.pid} can't be verified, so it isn't signaled")
    return life.running


if sys.platform != "linux":
    from supervisor_core.host.process_facts.portable import wait_ended

# Windows has only the first of these names; there the numbers are words between us and `portable`.
TERMINATE = int(signal.SIGTERM)
KILL = int(getattr(signal, "SIGKILL", 9))
FREEZE = int(getattr(signal, "SIGSTOP", 19))
CONTINUE = int(getattr(signal, "SIGCONT", 18))


def wait_exit(identity: ProcessIdentity, timeout: float) -> bool:
    """Wait until a process has ended, ours or not, or the time is over. Returns whether it has ended."""
    return not wait_ended([identity], timeout)


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
