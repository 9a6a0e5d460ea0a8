"""Signals and waiting, whatever the system: each goes to one identity and never to a PID alone."""

from __future__ import annotations

import signal
import sys

from supervisor_core.adapters.processes_values import ProcessIdentity

if sys.platform == "linux":
    from supervisor_core.adapters.pidfd import send, wait_ended
else:
    from supervisor_core.adapters.platform_other import send, wait_ended

__all__ = ["CONTINUE", "FREEZE", "KILL", "TERMINATE", "send", "wait_ended", "wait_exit"]

# Windows has only the first of these names; there the numbers are words between us and `platform_other`.
TERMINATE = int(signal.SIGTERM)
KILL = int(getattr(signal, "SIGKILL", 9))
FREEZE = int(getattr(signal, "SIGSTOP", 19))
CONTINUE = int(getattr(signal, "SIGCONT", 18))


def wait_exit(identity: ProcessIdentity, timeout: float) -> bool:
    """Wait until a process has ended, ours or not, for at most so long; whether it has."""
    return not wait_ended([identity], timeout)
