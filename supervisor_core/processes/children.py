"""Our own children: reaped one by one when they end, their exit codes kept, left alone when we end first.

Children belong to this whole program, so there is one registry of them. Nothing here waits for "any child":
that would take the exit codes of children that others in this program have started.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import OrderedDict
from typing import NamedTuple

from supervisor_core.host.process_facts.facts import ProcessIdentity

EXITS_KEPT = 1024  # of children long gone; whoever wants one asks within moments


class Exit(NamedTuple):
    """A child that has ended. `code` is negative for a signal, None where somebody else took it."""

    identity: ProcessIdentity
    code: int | None


class Child(subprocess.Popen[bytes]):
    """A worker or server that we started. It may outlive us, on purpose: no warning when the handle goes first."""

    def __del__(self) -> None:
        """Do nothing: a worker left running is no mistake."""


_lock = threading.Lock()
_children: dict[ProcessIdentity, Child] = {}
_exits: OrderedDict[ProcessIdentity, int | None] = OrderedDict()
_news: list[Exit] = []


def register(identity: ProcessIdentity, child: Child) -> None:
    """Look after a child from now on."""
    with _lock:
        _children[identity] = child


def reap() -> tuple[Exit, ...]:
    """Reap every child of ours that has ended, and tell of each exit once, whoever reaped it. Never waits."""
    with _lock:
        for identity in list(_children):
            _reap_one(identity)
        news = tuple(_news)
        _news.clear()
    return news


def exit_code(identity: ProcessIdentity) -> int | None:
    """The exit code of a child that has ended, negative for a signal.

    None while it lives, for a process that is not our child, and where somebody else has reaped it.
    """
    with _lock:
        _reap_one(identity)
        return _exits.get(identity)


def _reap_one(identity: ProcessIdentity) -> None:
    child = _children.get(identity)
    if child is None:
        return
    code: int | None
    if sys.platform == "win32":
        code = child.poll()
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
        child.returncode = -1 if code is None else code  # tells the handle that its number is free again
    del _children[identity]
    _exits[identity] = code
    _news.append(Exit(identity, code))
    while len(_exits) > EXITS_KEPT:
        _exits.popitem(last=False)
    del _news[:-EXITS_KEPT]


def _forget_in_child() -> None:
    """After a fork: the parent's children are not ours, and its lock may have been held by another thread."""
    global _lock  # noqa: PLW0603 (a lock held across a fork can't be opened any more)
    _lock = threading.Lock()
    _children.clear()
    _news.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
