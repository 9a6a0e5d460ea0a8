"""`supervisor top`: the status as a live view, until `q` or Ctrl-C. Piped, it prints once."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from datetime import UTC, datetime

from supervisor_core.cli.status import StatusText, ask_status, read_quickly
from supervisor_core.cli.table import DIM, paint, terminal_width, wants_colour
from supervisor_core.config.raw import state_dir_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

REFRESH_SECONDS = 2.0
LOOK_SECONDS = 0.2
"""How often keys, the size of the terminal and the daemon's runtime file are checked."""

RUNTIME_FILE = "runtime.json"
QUIT = ("q", "Q", "\x03", "\x04")
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The alternate screen without a cursor, and back."""


def run(options: argparse.Namespace) -> int:
    """Show the live view, or one picture where there is no terminal to control."""
    state_dir = state_dir_of(read_quickly(options.config))
    rates = CpuRates()

    def picture() -> str:
        status = ask_status(state_dir, options.config)
        rates.add(status["workers"], time.monotonic())
        text = StatusText(terminal_width(), datetime.now(UTC), coloured=wants_colour())
        return text.status(status, services=options.services or None)

    if not (sys.stdin.isatty() and sys.stdout.isatty()) or sys.platform == "win32":
        print(picture())
        return 0
    with _screen():
        while True:
            _draw(picture())
            if _wait(os.path.join(state_dir, RUNTIME_FILE)):  # noqa: PTH118 (as quick as `status`)
                return 0


class CpuRates:
    """The CPU share of each worker between two looks; since its start where there was no look before."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float, float]] = {}

    def add(self, workers: list[dict[str, Any]], now: float) -> None:
        """Add `cpu_percent` to the documents of workers that were seen before with the same process."""
        for worker in workers:
            pid, seconds = worker["pid"], worker.get("cpu_seconds")
            before = self._last.pop(worker["id"], None)
            if pid is None or seconds is None:
                continue
            if before and before[0] == pid and now > before[1]:
                worker["cpu_percent"] = max(100 * (seconds - before[2]) / (now - before[1]), 0.0)
            self._last[worker["id"]] = (pid, now, seconds)


def fit(text: str, rows: int) -> list[str]:
    """The lines that fit into a terminal with so many rows, the last of which is the footer."""
    lines, room = text.split("\n"), max(rows - 1, 1)
    if len(lines) <= room:
        return lines
    hidden = len(lines) - room + 1
    return [*lines[: room - 1], f"… {hidden} more lines: `supervisor status` shows all"]


def _draw(text: str) -> None:
    columns, rows = os.get_terminal_size()
    footer = f"{datetime.now(UTC):%H:%M:%S} UTC, every {REFRESH_SECONDS:g} s. q quits"[: columns - 1]
    lines = [*fit(text, rows), paint(footer, DIM if wants_colour() else "")]
    sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines[:-1]) + f"{lines[-1]}\x1b[K\x1b[J")
    sys.stdout.flush()


def _wait(runtime_file: str) -> bool:
    """Wait until it is time for a new picture; True when somebody quits."""
    deadline, before = time.monotonic() + REFRESH_SECONDS, _facts(runtime_file)
    while time.monotonic() < deadline and _facts(runtime_file) == before:
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
        if readable:
            typed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
            if not typed or any(key in typed for key in QUIT):
                return True
    return False


def _facts(runtime_file: str) -> tuple[object, ...]:
    """What changes with the daemon's state and with the terminal."""
    with contextlib.suppress(OSError):
        return os.stat(runtime_file).st_mtime_ns, os.get_terminal_size()  # noqa: PTH116
    return ()


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """The alternate screen and single keys; everything is restored, also when the program is told to stop."""
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    ours = termios.tcgetattr(descriptor)
    ours[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, ours)
        sys.stdout.write(ENTER)
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)
