"""The log: a line for people, the structured log for programs, and a copy on the drive.

[2026-02-05T14:30:15.234Z] [SUPERVISOR] [INFO] [task_20260205_001 - impl HT acquire] Action completed
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import NO_EVENT
from supervisor_core.common.text import escape, times
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import PRIVATE_FILE, UnreadableFileError
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.logging.events import EVENTS_FILE

COPY_WAITS_AT_MOST = 5000
"""Lines that wait for a slow drive. Further ones are only in the state folder, and a line says how many."""

COPY_AT_ONCE = 500
GATHER_SECONDS = 0.1
"""A call to the drive copies the lines of so long, unless there are so many before."""

REPEAT_SECONDS = 60.0
REPEATS_KEPT = 500
"""Different warnings and errors that are remembered. Beyond that, the oldest go."""

log = logging.getLogger(__name__)

LOGGERS = ("supervisor_core", "bot")
_task: ContextVar[tuple[str, str | None] | None] = ContextVar("task", default=None)
_worker: ContextVar[str | None] = ContextVar("worker", default=None)


@contextlib.contextmanager
def command_context(task_id: str, label: str | None, worker_id: str | None = None) -> Iterator[None]:
    """Lines logged within belong to this command, and in the structured log to this worker."""
    token = _task.set((task_id, label))
    try:
        with worker_context(worker_id or _worker.get()):
            yield
    finally:
        _task.reset(token)


@contextlib.contextmanager
def worker_context(worker_id: str | None) -> Iterator[None]:
    """Lines logged within are about this worker, in the structured log alone. `extra` takes precedence."""
    token = _worker.set(worker_id)
    try:
        yield
    finally:
        _worker.reset(token)


class Repeats(logging.Filter):
    """Passes the same warning or error once a minute, with the number of repeats since.

    Two are the same if they have the same text, command and worker; numbers in an exception's text don't count. The
    first handler that gets a record decides for all of them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: dict[tuple[object, ...], tuple[float, int]] = {}
        """When each last passed, oldest first, and its repeats since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING and not hasattr(record, "is_new"):
            record.is_new = True
            with contextlib.suppress(Exception), self._lock:  # the handler reports a message that can't be formatted
                record.is_new = self._is_new(record)
        return getattr(record, "is_new", True)

    def _is_new(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        cause = (type(error).__name__, re.sub(r"\d+", "#", str(error))) if error is not None else None
        message, now = record.getMessage(), self._clock()
        key = record.name, record.levelno, message, cause, _task.get(), _worker_of(record)
        since, repeats = self._recent.get(key, (-REPEAT_SECONDS, 0))
        if now - since < REPEAT_SECONDS:
            self._recent[key] = since, repeats + 1
            return False
        self._recent.pop(key, None)
        if len(self._recent) >= REPEATS_KEPT:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = now, 0
        if repeats:
            record.msg, record.args = f"{message} ({times(repeats)} more in the meantime)", None
        return True


class LineFormatter(logging.Formatter):
    """One line per record; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        task = _task.get()
        third = f" [{task[0]}{f' - {task[1]}' if task[1] else ''}]" if task else ""
        line = f"[{_time(record)}] [SUPERVISOR] [{record.levelname}]{third} {_message(record)}"
        if line.isprintable():
            return line
        return "".join(letter if letter.isprintable() else escape(letter) for letter in line)


class EventFormatter(logging.Formatter):
    """One JSON object per record, which ends with the fields of its `LogEvent`."""

    def format(self, record: logging.LogRecord) -> str:
        task = _task.get()
        event = {
            "timestamp": _time(record),
            "level": record.levelname,
            "event": getattr(record, "event", NO_EVENT),
            "message": _message(record),
            "logger": record.name,
            "worker_id": _worker_of(record),
            "task_id": getattr(record, "task_id", task[0] if task else None),
            "label": getattr(record, "label", task[1] if task else None),
            **getattr(record, "fields", {}),
        }
        return json.dumps(event, ensure_ascii=True)


class DriveCopy(logging.Handler):
    """Appends each line to a file on the drive, from its own thread. It counts lines that can't be copied."""

    def __init__(self, path: Path, drive: Drive, max_bytes: int, backups: int, mode: int) -> None:
        super().__init__()
        self._path, self._drive, self._mode = path, drive, mode
        self._max_bytes, self._backups = max_bytes, backups
        self._changing = threading.Lock()
        self._lines: list[str] = []
        self._lost = 0
        self._waiting, self._hurry = threading.Event(), threading.Event()
        self._closed = False
        self._refused = ""
        self._thread = threading.Thread(target=self._run, name="log-copy", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 (a line that can't be written must not stop whoever wrote it)
            self.handleError(record)
            return
        with self._changing:
            if len(self._lines) >= COPY_WAITS_AT_MOST:
                self._lost += 1
            else:
                self._lines.append(line)
            if len(self._lines) > COPY_AT_ONCE:
                self._hurry.set()
            self._waiting.set()

    def close(self) -> None:
        """Copy the waiting lines, if the drive takes them within a second."""
        with self._changing:
            self._closed = True
            self._hurry.set()
            self._waiting.set()
        self._thread.join(1.0)
        super().close()

    def _run(self) -> None:
        closed = False
        while not closed:
            self._waiting.wait()
            self._hurry.wait(GATHER_SECONDS)
            with self._changing:
                self._waiting.clear()
                self._hurry.clear()
                lines, self._lines = self._lines, []
                lost, self._lost = self._lost, 0
                closed = self._closed
            if lines:
                missing = self._copy(lines, lost)
                with self._changing:
                    self._lost += missing

    def _copy(self, lines: list[str], lost: int) -> int:
        """Copy these lines and a note about lost ones; returns the number that is still to be reported as lost."""
        if lost:
            now = _timestamp(datetime.now(UTC))
            lines = [*lines, f"[{now}] [SUPERVISOR] [WARNING] {lost} lines are only in the state folder"]
        try:
            self._drive.call(self._append, "".join(f"{line}\n" for line in lines))
        except DriveUnavailable:
            pass
        except (UnreadableFileError, OSError) as error:
            if str(error) != self._refused:  # once, in the local log
                self._refused = str(error)
                log.warning("the log isn't copied to the drive: %s", error)
        else:
            self._refused = ""
            return 0
        return len(lines) - bool(lost) + lost

    def _append(self, text: str) -> None:
        self._drive.confirm()
        drive_files.make_folder(self._drive.root, self._path.parent)
        data = text.encode("utf-8", "backslashreplace")
        drive_files.append(self._drive.root, self._path, data, self._mode, self._max_bytes, self._backups)


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotating file that nobody else may read, because it has workers' output and people's text."""

    _lost = 0
    _reported_at = -REPEAT_SECONDS

    def _open(self) -> Any:  # noqa: ANN401 (as the base class)
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, PRIVATE_FILE)

        return open(self.baseFilename, self.mode, encoding="utf-8", errors="backslashreplace", opener=private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the base class's name)
        """Report a full disk on stderr once a minute, with the number of missing lines."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._lost += 1
        if sys.stderr is not None and time.monotonic() - self._reported_at >= REPEAT_SECONDS:
            self._reported_at = time.monotonic()
            problem = f"{self.baseFilename} can't be written: {error.strerror or type(error).__name__}"
            with contextlib.suppress(OSError):
                text = f"[SUPERVISOR] [ERROR] {problem}; {self._lost} lines are missing so far\n"
                sys.stderr.write(f"[{_time(record)}] {text}")


def set_up(
    state_dir: Path, file_name: str, level: str, max_bytes: int, backups: int, *, to_stderr: bool = True
) -> list[logging.Handler]:
    """Log to the state folder and, for a program in the foreground, to stderr. Returns what `tear_down` takes."""
    files = [(file_name, LineFormatter()), (EVENTS_FILE, EventFormatter())]
    handlers = [
        add(_PrivateFile(state_dir / name, maxBytes=max_bytes, backupCount=backups), formatter)
        for name, formatter in files
    ]
    if to_stderr:
        handlers.append(add(logging.StreamHandler(sys.stderr)))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
    return handlers


def add(handler: logging.Handler, formatter: logging.Formatter | None = None) -> logging.Handler:
    handler.setFormatter(formatter or LineFormatter())
    handler.addFilter(Repeats())
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    return handler


def tear_down(handlers: list[logging.Handler]) -> None:
    """Remove and close the handlers, for a program that continues."""
    for handler in handlers:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(handler)
        handler.close()


def _time(record: logging.LogRecord) -> str:
    return _timestamp(datetime.fromtimestamp(record.created, UTC))


def _timestamp(time_utc: datetime) -> str:
    return f"{time_utc:%Y-%m-%dT%H:%M:%S}.{time_utc.microsecond // 1000:03d}Z"


def _worker_of(record: logging.LogRecord) -> str | None:
    return getattr(record, "worker_id", None) or _worker.get()


def _message(record: logging.LogRecord) -> str:
    """The text, with a traceback for an unexpected error; our own errors explain themselves."""
    text = record.getMessage()
    if record.exc_info:
        if isinstance(record.exc_info[1], SupervisorError):
            return f"{text}: {record.exc_info[1]}"
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    return text
