"""Exit codes: of our own children, which are reaped one by one when they end, and of adopted workers where the kernel
tells.

Children belong to this whole program, so there is one registry of them. Nothing here waits for "any child":
that would take the exit codes of children that others in this program have started. Children are left alone when we
end first; a program that replaces us in the same process (`exec`) inherits them, ended ones included.

Since Linux 6.15, whoever holds a pidfd of another's child can read its exit code once its parent has reaped it.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections import OrderedDict
from contextlib import suppress

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identity_of, state
from supervisor_core.host.process_facts.signals import open_exit_notice

EXITS_KEPT = 1024  # of children long gone; whoever wants one asks within moments


class Child(subprocess.Popen[bytes]):
    """A worker or server that we started. It may outlive us, on purpose: no warning when the handle goes first."""

    def __del__(self) -> None:
        """Do nothing: a worker left running is no mistake."""


_lock = threading.Lock()
_children: dict[ProcessIdentity, Child | None] = {}
"""Without a handle where the program that we replaced has started it."""
_adopted: dict[ProcessIdentity, int] = {}
"""A pidfd of each adopted worker that isn't our child."""
_exits: OrderedDict[ProcessIdentity, int | None] = OrderedDict()


def register(identity: ProcessIdentity, child: Child) -> None:
    """Look after a child from now on."""
    with _lock:
        _children[identity] = child


def inherit() -> None:
    """Look after the children of the program that we have replaced, those included that have ended meanwhile."""
    if sys.platform == "win32":
        return
    import psutil

    with _lock:
        for child in psutil.Process().children():
            _children.setdefault(identity_of(child))


def follow(identity: ProcessIdentity) -> None:
    """Learn the exit code of this live process, if it isn't our child."""
    with _lock:
        if identity in _children or identity in _adopted or sys.platform != "linux":
            return
        descriptor = open_exit_notice(identity)
        if descriptor is None:
            return
        try:
            _exit_status(descriptor)
        except OSError:  # no such request in this kernel: its exit code stays unknown
            os.close(descriptor)
        else:
            _adopted[identity] = descriptor


def stop_following() -> None:
    with _lock:
        while _adopted:
            os.close(_adopted.popitem()[1])


def reap() -> None:
    """Reap every child of ours that has ended. Never waits."""
    with _lock:
        for identity in list(_children):
            _reap_one(identity)


def exit_code(identity: ProcessIdentity) -> int | None:
    """The exit code of a process that has ended, negative for a signal.

    None while it lives or `is_unreaped`, where somebody else has reaped our child, and for a process that is neither
    our child nor followed.
    """
    with _lock:
        _reap_one(identity)
        _read_exit(identity)
        return _exits.get(identity)


def is_unreaped(identity: ProcessIdentity) -> bool:
    """True for a followed process that has ended, but whose parent hasn't reaped it: its exit code is known soon."""
    with _lock:
        return identity in _adopted and state(identity).ended


def _reap_one(identity: ProcessIdentity) -> None:
    if identity not in _children:
        return
    child = _children[identity]
    code: int | None
    if sys.platform == "win32":
        code = child.poll() if child is not None else None
        if code is None:
            return
    else:
        # Not `poll`: where the code was taken by somebody else, that claims the child ended well.
        try:
            pid, status = os.waitpid(identity.pid, os.WNOHANG)
        except ChildProcessError:
            code = None
        else:
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
        if child is not None:
            child.returncode = -1 if code is None else code  # tells the handle that its number is free again
    del _children[identity]
    _keep_exit(identity, code)


def _read_exit(identity: ProcessIdentity) -> None:
    """Take the exit code of a followed process from the kernel, once it has been reaped."""
    if identity not in _adopted:
        return
    try:
        status = _exit_status(_adopted[identity])
    except ProcessLookupError:  # reaped, and this kernel doesn't keep exit codes
        code = None
    else:
        if status is None:
            return
        code = os.waitstatus_to_exitcode(status)
    os.close(_adopted.pop(identity))
    _keep_exit(identity, code)


def _keep_exit(identity: ProcessIdentity, code: int | None) -> None:
    _exits[identity] = code
    while len(_exits) > EXITS_KEPT:
        _exits.popitem(last=False)


_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, struct pidfd_info), from <linux/pidfd.h>
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii")  # mask, cgroup, eleven ids, and the status as `waitpid` returns it


def _exit_status(descriptor: int) -> int | None:
    """The status of a process that has been reaped; None before that. `OSError` if the kernel doesn't tell."""
    import fcntl

    info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13))
    fcntl.ioctl(descriptor, _PIDFD_GET_INFO, info)
    mask, *_, status = _PIDFD_INFO.unpack(info)
    return status if mask & _PIDFD_INFO_EXIT else None


def _forget_in_child() -> None:
    """After a fork: the parent's children are not ours, and its lock may have been held by another thread."""
    global _lock  # noqa: PLW0603 (a lock held across a fork can't be opened any more)
    _lock = threading.Lock()
    _children.clear()
    with suppress(OSError):
        stop_following()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
