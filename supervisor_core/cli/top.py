"""`supervisor top`: the status as a live view, until `q` or Ctrl-C. Piped, it prints once."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from datetime import UTC, datetime

from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.cli.host import read_config
from supervisor_core.cli.output import DIM, paint, terminal_width, wants_color
from supervisor_core.cli.status import StatusText, ask_status
from supervisor_core.config.raw import state_dir_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


REFRESH_SECONDS = 2.0
POLL_SECONDS = 0.2
"""How often keys, the size of the terminal and the daemon's runtime file are checked."""

QUIT = ("q", "Q", "\x03", "\x04")
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The alternate screen without a cursor, and back."""


def add_parser(subparsers: Subparsers) -> None:
    description = "Show the workers live, with their current CPU and memory. `q` quits."
    parser = add_command(subparsers, "top", run, description, "top")
    parser.add_argument("--services", action="store_true", help="show the internal services even when all are well")


def run(arguments: argparse.Namespace) -> int:
    """Show the live view, or one picture where there is no terminal to control."""
    state_dir = state_dir_of(read_config(arguments.config))
    samples: dict[str, tuple[int, float, float]] = {}
    """Of each worker at the last picture: its pid, the time, and its CPU seconds."""

    def picture() -> str:
        status, now = ask_status(state_dir, arguments.config), time.monotonic()
        for worker in status["workers"]:  # its share of a CPU since the last picture, else since its start
            pid, seconds, before = worker["pid"], worker.get("cpu_seconds"), samples.pop(worker["id"], None)
            if pid is None or seconds is None:
                continue
            if before and before[0] == pid and now > before[1]:
                worker["cpu_percent"] = max(100 * (seconds - before[2]) / (now - before[1]), 0.0)
            samples[worker["id"]] = (pid, now, seconds)
        text = StatusText(terminal_width(), datetime.now(UTC), colored=wants_color())
        return text.status(status, services=arguments.services or None)

    if not (sys.stdin.isatty() and sys.stdout.isatty()) or sys.platform == "win32":
        print(picture())
        return 0
    with _screen():
        while True:
            _draw(picture())
            if _wait(os.path.join(state_dir, "runtime.json")):  # noqa: PTH118 (as quick as `status`)
                return 0


def _draw(text: str) -> None:
    columns, rows = os.get_terminal_size()
    lines = text.split("\n")
    if len(lines) > rows - 1:
        hidden = len(lines) - max(rows - 2, 0)
        lines = [*lines[: max(rows - 2, 0)], f"… {hidden} more lines: `supervisor status` shows all"]
    footer = f"{datetime.now(UTC):%H:%M:%S} UTC, every {REFRESH_SECONDS:g} s. q quits"[: columns - 1]
    sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in lines))
    sys.stdout.write(f"{paint(footer, DIM if wants_color() else '')}\x1b[K\x1b[J")
    sys.stdout.flush()


def _wait(runtime_file: str) -> bool:
    """Wait until it is time for a new picture; True when somebody quits."""
    deadline, before = time.monotonic() + REFRESH_SECONDS, _facts(runtime_file)
    while time.monotonic() < deadline and _facts(runtime_file) == before:
        readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
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
    single_keys = termios.tcgetattr(descriptor)
    single_keys[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, single_keys)
        sys.stdout.write(ENTER)
        yield
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)
