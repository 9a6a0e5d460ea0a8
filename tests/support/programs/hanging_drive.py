"""Starts the command line on a host whose drive hangs while a file exists: each call that names the drive waits.

`python -m tests.support.programs.hanging_drive SIGNAL ROOT run` is `supervisor run`.
A drive counts as hanging after a second.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor_core.host.drive import Drive

TIMEOUT_SECONDS = 1.0


def hanging_drive(signal: Path, root: Path) -> tuple[str, ...]:
    """The program that is the command line on such a host."""
    return (sys.executable, "-m", "tests.support.programs.hanging_drive", str(signal), str(root))


_stat = os.stat


class _Hang:
    """Keeps whoever names a path of the drive waiting."""

    def __init__(self, signal: str, root: str) -> None:
        self._signal, self._root = signal, root
        sys.addaudithook(self._hear)
        for name in ("stat", "lstat", "access", "statvfs"):  # these tell no hook
            setattr(os, name, self._waiting(getattr(os, name)))

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" or event.startswith("os."):
            for each in arguments[:2]:
                self._wait(each)

    def _waiting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: object, *arguments: Any, **named: Any) -> Any:
            self._wait(path)
            return real(path, *arguments, **named)

        return call

    def _wait(self, path: object) -> None:
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(self._root):
            while self._hangs():
                time.sleep(0.02)

    def _hangs(self) -> bool:
        try:
            _stat(self._signal)
        except FileNotFoundError:
            return False
        return True


if __name__ == "__main__":
    _, signal, root, *words = sys.argv
    usual = Drive.__init__.__defaults__ or ()
    Drive.__init__.__defaults__ = (TIMEOUT_SECONDS, *usual[1:])
    _Hang(signal, root)
    from supervisor_core.cli import main

    sys.exit(main(words))
