"""Whether one of our pips still works on a Python, as one that outlives its supervisor."""

from __future__ import annotations

import contextlib

from supervisor_core.adapters.packages import OPTIONS, PIP


def pip_at_work(python: str) -> bool:
    """Whether a process of this host runs with the very words that we start pip with, for this Python."""
    import psutil  # seldom needed

    ours = [python, *PIP, *OPTIONS]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = process.cmdline()
            # Not only at the beginning: where `python` is a script, the shell that reads it comes first.
            if any(words[at : at + len(ours)] == ours for at, word in enumerate(words) if word == python):
                return True
    return False
