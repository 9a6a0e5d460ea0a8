"""The log: a line for people, the structured log for programs, and a copy on the drive.

[2026-02-05T14:30:15.234Z] [SUPERVISOR] [INFO] [task_20260205_001 - impl HT acquire] Action completed
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import queue
import re
import stat
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

COPY_WAITS_AT_MOST = 1000
"""Lines that wait for a slow drive. Further ones are only in the state folder, and a line says how many."""

GATHER_SECONDS = 0.1
"""Time for more lines that one call to the drive copies, unless half of those that may wait are there."""

REPEAT_SECONDS = 60.0
REPEATS_KEPT = 500
"""Different warnings and errors that are remembered. Beyond that, those older than a minute go, else the oldest."""

log = logging.getLogger(__name__)

_FIGURES = re.compile(r"\d+")
_ROOTS = ("supervisor_core", "bot")
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
    """Lets the same warning or error through once a minute, with the number of repeats since.

    Two are the same if they have the same text, command and worker; numbers in an exception's text don't count. The
    first handler that gets a record decides for all of them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop a repeat; add the number of repeats to a line that passes."""
        if record.levelno < logging.WARNING:
            return True
        passes: bool | None = getattr(record, "passes", None)
        if passes is None:
            try:
                with self._lock:
                    passes = self._decide(record)
            except Exception:  # noqa: BLE001 (words that can't be formed are the handler's to report, not the caller's)
                passes = True
            record.passes = passes
        return passes

    def _decide(self, record: logging.LogRecord) -> bool:
        now, key = self._clock(), _sameness(record)
        since, count = self._seen.get(key, (-REPEAT_SECONDS, 0))
        if now - since < REPEAT_SECONDS:
            self._seen[key] = (since, count + 1)
            return False
        if len(self._seen) >= REPEATS_KEPT:
            self._seen = {each: seen for each, seen in self._seen.items() if now - seen[0] < REPEAT_SECONDS}
        self._seen.pop(key, None)
        if len(self._seen) >= REPEATS_KEPT:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (now, 0)
        if count:
            record.msg, record.args = f"{record.getMessage()} ({times(count)} more in the meantime)", None
        return True


def _sameness(record: logging.LogRecord) -> tuple[object, ...]:
    error = record.exc_info[1] if record.exc_info else None
    said = (type(error).__name__, _FIGURES.sub("#", str(error))) if error is not None else None
    return record.name, record.levelno, record.getMessage(), said, _task.get(), _about(record)


class LineFormatter(logging.Formatter):
    """One line per record; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        task = _task.get()
        third = f" [{task[0]}{f' - {task[1]}' if task[1] else ''}]" if task else ""
        line = f"[{_time(record)}] [SUPERVISOR] [{record.levelname}]{third} {_message(record)}"
        if line.isprintable():
            return line
        return "".join(character if character.isprintable() else escape(character) for character in line)


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
            "worker_id": _about(record),
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
        self._refused = ""
        self._lines: queue.Queue[str | None] = queue.Queue(COPY_WAITS_AT_MOST)
        self._lost = 0
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-copy", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
            if self._lines.qsize() > COPY_WAITS_AT_MOST // 2:
                self._hurry.set()
        except queue.Full:
            self._lost += 1  # the base class holds our lock here
        except Exception:  # noqa: BLE001 (a line that can't be written must not stop whoever wrote it)
            self.handleError(record)

    def close(self) -> None:
        """Copy the waiting lines, if the drive takes them within a second."""
        self._hurry.set()
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        self._thread.join(1.0)
        super().close()

    def _run(self) -> None:
        while True:
            lines = [self._lines.get()]
            self._hurry.wait(GATHER_SECONDS)
            self._hurry.clear()
            while not self._lines.empty():
                lines.append(self._lines.get_nowait())
            self._copy([line for line in lines if line is not None])
            if lines[-1] is None:
                return

    def _copy(self, lines: list[str]) -> None:
        if not lines:
            return
        said, text = self._lost, "\n".join(lines) + "\n"
        if said:
            text += f"[{_stamp(datetime.now(UTC))}] [SUPERVISOR] [WARNING] {said} lines are only in the state folder\n"
        try:
            self._drive.call(self._append, text)
            self._refused = ""
            change = -said  # and not to zero: more may have been lost while this was on its way
        except DriveUnavailable:
            change = len(lines)
        except (UnreadableFileError, OSError) as error:
            change = len(lines)
            if str(error) != self._refused:  # once, in the log at home
                self._refused = str(error)
                log.warning("the log isn't copied to the drive: %s", error)
        self.acquire()
        try:
            self._lost += change
        finally:
            self.release()

    def _append(self, text: str) -> None:
        self._drive.confirm()
        drive_files.make_folder(self._drive.root, self._path.parent)
        data = text.encode("utf-8", "backslashreplace")
        drive_files.append(self._drive.root, self._path, data, self._mode, self._max_bytes, self._backups)


def set_up(
    state_dir: Path, file_name: str, level: str, max_bytes: int, backups: int, *, to_stderr: bool = True
) -> list[logging.Handler]:
    """Log to the state folder and, for a program in the foreground, to stderr. Returns what `tear_down` takes."""
    handlers: list[logging.Handler] = [
        _rotating(state_dir / file_name, max_bytes, backups, LineFormatter()),
        _rotating(state_dir / EVENTS_FILE, max_bytes, backups, EventFormatter()),
    ]
    if to_stderr:
        stream = logging.StreamHandler(sys.stderr)
        stream.setFormatter(LineFormatter())
        handlers.append(stream)
    repeats = Repeats()
    for handler in handlers:
        handler.addFilter(repeats)
    for name in _ROOTS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        for handler in handlers:
            logger.addHandler(handler)
    return handlers


def add(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(LineFormatter())
    handler.addFilter(Repeats())
    for name in _ROOTS:
        logging.getLogger(name).addHandler(handler)
    return handler


def tear_down(handlers: list[logging.Handler]) -> None:
    """Remove and close the handlers, for a program that continues."""
    for handler in handlers:
        for name in _ROOTS:
            logging.getLogger(name).removeHandler(handler)
        handler.close()


LONGEST_LINE = 256 * 1024
"""No line is longer: a message has the end of an output at most."""


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating file that nobody else may read, because it has workers' output and people's words."""

    _lost = 0
    _said = -REPEAT_SECONDS

    def _open(self) -> Any:  # noqa: ANN401 (what the base class says)
        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=_private)

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 (the base class's name)
        """True if the line has no room. One look at the open file; the base class takes five, and forms each line."""
        if self.stream is None:
            self.stream = self._open()
        facts = os.fstat(self.stream.fileno())
        room = self.maxBytes - facts.st_size
        if self.maxBytes <= 0 or room > LONGEST_LINE or not stat.S_ISREG(facts.st_mode):
            return False
        return len(self.format(record)) >= room

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the base class's name)
        """Handle a full disk: stderr still has the line, and says once a minute how many the file lacks."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._lost += 1
        if sys.stderr is None or time.monotonic() - self._said < REPEAT_SECONDS:
            return
        self._said = time.monotonic()
        why = error.strerror or type(error).__name__
        with contextlib.suppress(OSError):
            said = f"{self.baseFilename} can't be written: {why}; {self._lost} lines are missing so far"
            sys.stderr.write(f"[{_time(record)}] [SUPERVISOR] [ERROR] {said}\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)


def _rotating(path: Path, max_bytes: int, backups: int, formatter: logging.Formatter) -> logging.Handler:
    handler = _PrivateRotatingFile(
        path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(formatter)
    return handler


def _time(record: logging.LogRecord) -> str:
    return _stamp(datetime.fromtimestamp(record.created, UTC))


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _about(record: logging.LogRecord) -> str | None:
    return getattr(record, "worker_id", None) or _worker.get()


def _message(record: logging.LogRecord) -> str:
    """The text, with a traceback for an unexpected error; our own errors explain themselves."""
    text = record.getMessage()
    if record.exc_info:
        if isinstance(record.exc_info[1], SupervisorError):
            return f"{text}: {record.exc_info[1]}"
        text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
    return text
