"""Runs programs to their end, such as git and pip: without a shell, with a time limit and bounded output.

`processes` starts workers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from supervisor_core.common.errors import SupervisorError
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.process_facts.signals import launch_options, wait_exit

SECONDS = 30.0
KEPT_BYTES = 256 * 1024
"""The bytes kept of each stream, half from its beginning and half from its end: far more than anybody reads."""

GRACE_SECONDS = 2.0
"""The time between SIGTERM and SIGKILL for a late program, in which git removes its locks."""

GONE_SECONDS = 2.0
"""The wait after SIGKILL. A longer wait means that the kernel waits for a drive."""

CHUNK = 64 * 1024


class ProgramError(SupervisorError):
    """A program can't be started."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    command: tuple[str, ...]
    exit_code: int | None
    """Negative for a signal; None if not even SIGKILL ended it."""
    output: str
    errors: str
    seconds: float
    timed_out: bool = False
    truncated: bool = False
    """True if the middle of the output was left out; the text alone doesn't prove it."""

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """True for an exit with code 0, in time."""
        return self.exit_code == 0 and not self.timed_out


def run_command(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: bytes = b"",
    timeout: float = SECONDS,
    keep_bytes: int = KEPT_BYTES,
    exact: bool = False,
    only_looks: bool = False,
) -> ProgramResult:
    """Run a program until it ends or its time is over. Its standard input is `given`.

    The output is decoded for people; with `exact`, so that file names that aren't UTF-8 can be used again.

    The whole process group ends with the program. A program that `only_looks` also ends with us. Its environment is
    exactly `env`, or ours if that is None. `ProgramError` if it can't be started; any later problem is in the result.
    """
    started = time.monotonic()
    child = _start(command, cwd, env, has_input=bool(given))
    if only_looks:
        _read_only.add(child.pid)
    if (stdin := child.stdin) is not None:

        def feed() -> None:
            with contextlib.suppress(OSError), stdin:  # it isn't an error if the program has ended or doesn't read
                stdin.write(given)

        threading.Thread(target=feed, name="program-input", daemon=True).start()
    streams = [_Stream(pipe, keep_bytes) for pipe in (child.stdout, child.stderr) if pipe is not None]
    identity = identify(child.pid)  # known until we have reaped it
    in_time = False
    try:
        in_time = identity is None or wait_exit(identity, timeout)
    finally:
        if not in_time and identity is not None:
            _ask_group(child.pid)
            wait_exit(identity, GRACE_SECONDS)
        _end_group(child.pid)  # before the program is reaped: until then nobody else has its PID
        _read_only.discard(child.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GONE_SECONDS)
    output, errors = (stream.text("surrogateescape" if exact else "replace") for stream in streams)
    seconds, truncated = time.monotonic() - started, streams[0].left_out > 0
    return ProgramResult(tuple(command), child.returncode, output, errors, seconds, not in_time, truncated)


_read_only: set[int] = set()
"""The PIDs of programs that change nothing. They aren't reaped yet, so nobody else has these PIDs."""


@atexit.register
def _end_all() -> None:
    """End the programs that only look: their callers were in threads that nobody waits for."""
    for pid in tuple(_read_only):
        _end_group(pid)


def _start(
    command: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, *, has_input: bool
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 (a list of words, and no shell)
            list(command),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=True,
            **launch_options(),  # a group of its own, and no terminal to ask at
        )
    except FileNotFoundError:
        if cwd is not None and not cwd.is_dir():
            raise ProgramError(f"{command[0]} can't run in {cwd}: no such folder.") from None
        raise ProgramError(f"The program {command[0]} isn't installed.", remedy=f"Install {command[0]}.") from None
    except (OSError, ValueError) as error:
        raise ProgramError(f"{command[0]} can't run: {getattr(error, 'strerror', None) or error}.") from None


class _Stream(threading.Thread):
    """Reads a pipe to its end and keeps its beginning and its end. The writer never waits."""

    def __init__(self, pipe: IO[bytes], keep_bytes: int) -> None:
        super().__init__(name="program-output", daemon=True)
        self._pipe = pipe
        self._half = max(keep_bytes // 2, 1)
        self._first, self._last, self.left_out = bytearray(), bytearray(), 0
        self.start()

    def run(self) -> None:
        with self._pipe as pipe:
            while chunk := os.read(pipe.fileno(), CHUNK):
                room = self._half - len(self._first)
                self._first += chunk[:room]
                self._last += chunk[room:]
                surplus = len(self._last) - self._half
                if surplus > 0:
                    self.left_out += surplus
                    del self._last[:surplus]

    def text(self, undecodable: str) -> str:
        """The output. It doesn't wait for processes outside the group, which may keep the pipe open forever."""
        self.join(GONE_SECONDS)
        first, last, left_out = bytes(self._first), bytes(self._last), self.left_out
        if not left_out:
            return (first + last).decode(errors=undecodable)
        # Whole lines, where there are any: half a secret couldn't be masked.
        start, end = first[: first.rfind(b"\n") + 1] or first, last[last.find(b"\n") + 1 :] or last
        left_out += len(first) - len(start) + len(last) - len(end)
        middle = f"\n… {left_out} bytes left out …\n"
        return start.decode(errors=undecodable).rstrip("\n") + middle + end.decode(errors=undecodable)


if sys.platform == "win32":

    def _ask_group(pid: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.CTRL_BREAK_EVENT)

    def _end_group(pid: int) -> None:
        import psutil

        with contextlib.suppress(psutil.Error):
            program = psutil.Process(pid)
            for member in (*program.children(recursive=True), program):
                with contextlib.suppress(psutil.Error):
                    member.kill()

else:

    def _ask_group(pid: int) -> None:
        _signal_group(pid, signal.SIGTERM)

    def _end_group(pid: int) -> None:
        _signal_group(pid, signal.SIGKILL)

    def _signal_group(pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses where only the dead are left
            os.killpg(pid, number)
