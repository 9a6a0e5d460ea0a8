"""The program as a process of its own without the third of a second of imports: forked from one that has made them.

It is the real `main`, in a process with its own arguments, folder, environment and output, made by the standard
library's fork server. A daemon that `supervisor start` begins, and each program that a test names, starts from nothing.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.support.daemon import short_silence
from tests.support.slack import short_pace

COMMAND_LINE = "supervisor_core.cli"
ARMED = "tests.support.programs.armed"
FLUSH_FAILED = 120
"""Python's exit code when it can't write the rest of its output."""


def forked() -> ForkServerContext:
    """The context for processes of a test's own; each begins with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.support.programs.everything"])
    return context


class WarmProcess:
    """A process that was forked; it is used like a `Popen`."""

    def __init__(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[Any], err: IO[Any], module: str
    ) -> None:
        self.args = [module, *words]
        self.returncode: int | None = None
        self._lock = threading.Lock()
        forked()
        self._end, program = forkserver.connect_to_new_process([out.fileno(), err.fileno()])
        with open(program, "wb") as pipe:  # noqa: PTH123 (a descriptor)
            pickle.dump({}, pipe)  # nothing of the test runner's
            pickle.dump(Program(module, list(words), str(cwd), dict(env)), pipe)
        self.pid = forkserver.read_signed(self._end)

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self.returncode is None and not select.select([self._end], [], [], timeout)[0]:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        with self._lock:
            if self.returncode is None:
                self.returncode = forkserver.read_signed(self._end)
                os.close(self._end)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it is waited for as soon as it has ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float, module: str = COMMAND_LINE
) -> subprocess.CompletedProcess[str]:
    """`supervisor words…` to its end, like `subprocess.run` with its output captured."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = WarmProcess(words, cwd, env, out, err, module)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(["supervisor", *words], code, *texts)


def warm_words(program: Sequence[str]) -> tuple[str, list[str]] | None:
    """The module and its first words, where this program is one that can be forked."""
    if tuple(program[:2]) == (sys.executable, "-m") and program[2] in (COMMAND_LINE, ARMED):
        return program[2], list(program[3:])
    return None


class Program:
    """The program that a forked process is."""

    def __init__(self, module: str, words: list[str], cwd: str, env: dict[str, str]) -> None:
        self.module, self.words, self.cwd, self.env = module, words, cwd, env

    def _bootstrap(self, _parent: int) -> NoReturn:
        """Called by the fork server in the child. It ends as Python does, but leaves all objects to the kernel."""
        files: Any = forkserver.get_inherited_fds()
        for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (the one of this process, to its end)
        os.chdir(self.cwd)
        os.environ.clear()
        os.environ.update(self.env)
        time.tzset()
        short_pace.use_if_wanted(os.environ)
        short_silence.use_if_wanted(os.environ)
        code = 0
        try:
            if self.module == COMMAND_LINE:
                from supervisor_core.cli import main

                sys.argv = ["supervisor", *self.words]
                code = main(self.words)
            else:
                sys.argv[1:] = self.words
                runpy.run_module(self.module, run_name="__main__", alter_sys=True)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
        except Exception:  # noqa: BLE001 (Python prints whatever a program raises)
            sys.excepthook(*sys.exc_info())
            code = 1
        getattr(threading, "_shutdown")()  # noqa: B009 (Python's own end: it waits for threads)
        getattr(atexit, "_run_exitfuncs")()  # noqa: B009 (see above)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = FLUSH_FAILED
        os._exit(code)
