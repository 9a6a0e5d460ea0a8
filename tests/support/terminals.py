"""A program on a real pseudo-terminal of 24 lines and 80 columns, where somebody types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.waiting import wait_until

SECONDS = 60.0


class Terminal:
    """What the program shows, and what is typed."""

    def __init__(self, descriptor: int, pid: int) -> None:
        self.descriptor, self.pid = descriptor, pid
        self.before = termios.tcgetattr(descriptor)
        self.shown = ""
        self._seen = 0
        """The end of the text that was waited for last."""
        self._code: int | None = None

    def wait_for(self, text: str, clean: Callable[[str], str] = str) -> str:
        """Wait until this is shown behind what was waited for before; returns all that came."""
        deadline = time.monotonic() + SECONDS
        while text not in clean(self.shown[self._seen :]):
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.shown!r}"
            assert self._read(), f"{text!r} did not come: {self.shown!r}"
        shown = clean(self.shown[self._seen :])
        self._seen = len(self.shown) if clean is not str else self.shown.index(text, self._seen) + len(text)
        return shown

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def answer(self, question: str, words: str) -> None:
        self.wait_for(question)
        self.type(f"{words}\n")

    def press(self, key: str) -> None:
        """Press a key that isn't echoed as text. Python misses a Ctrl-C between its prompt and its read."""
        syscall = Path(f"/proc/{self.pid}/syscall")
        wait_until(lambda: syscall.read_text().split()[1:2] == ["0x0"], SECONDS, "it reads what is typed")
        self.type(key)

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"it did not end: {self.shown!r}"
        self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def close(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)

    def _read(self) -> bool:
        if not select.select([self.descriptor], [], [], 2)[0]:
            return True
        found = b""
        with suppress(OSError):  # the program is gone
            found = os.read(self.descriptor, 65536)
        self.shown += found.decode(errors="replace").replace("\r\n", "\n")
        return bool(found)


@contextmanager
def on_terminal(words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Iterator[Terminal]:
    pid, descriptor = pty.fork()
    if pid == 0:  # pragma: no cover
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a test runner in the background ignores it
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.chdir(folder)
        os.execvpe(words[0], list(words), dict(environ))
    terminal = Terminal(descriptor, pid)
    try:
        yield terminal
    finally:
        terminal.close()
