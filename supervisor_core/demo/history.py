"""The history of the demo's program: its newest version is in `program/`, and each commit lists its changes.

Earlier versions are made by reverting the changes, newest first. So the program is one real file that is linted and
run, and a change that no longer fits is an error in a test, not a surprise in the demo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

PROGRAM = Path(__file__).parent / "program"
FILES = ("README.md", "requirements.txt", "watcher.py", "watcher.yaml")

ANN = "Ann Archer <ann@example.org>"
BEN = "Ben Brook <ben@example.org>"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file from `old` to `new`. A file that the commit adds has no `old`."""

    file: str
    new: str
    old: str | None = ""


@dataclass(frozen=True, slots=True)
class DemoCommit:
    """One commit. The first one has no changes: it's what is left when all others are reverted."""

    author: str
    at: datetime
    message: str
    changes: tuple[Change, ...] = ()


HISTORY = (
    DemoCommit(ANN, datetime(2026, 1, 12, 9, 30, tzinfo=UTC), "Move files from one folder to another"),
    DemoCommit(
        BEN,
        datetime(2026, 1, 13, 14, 5, tzinfo=UTC),
        "List the dependencies\n\nThe watcher failed to start on a new host without PyYAML.",
        (
            Change("requirements.txt", "PyYAML>=6\n", None),
            Change("README.md", ", dependencies in `requirements.txt`"),
        ),
    ),
    DemoCommit(
        ANN,
        datetime(2026, 1, 19, 10, 40, tzinfo=UTC),
        "Finish the current file before stopping\n\nThe last heartbeat reports the status `stopped`.",
        (
            Change("watcher.yaml", "# Seconds that the watcher takes to shut down.\nclosing_seconds: 0.8\n\n"),
            Change("watcher.py", '        self.closing_seconds = float(settings["closing_seconds"])\n'),
            Change(
                "watcher.py",
                """\
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: self.stopping.set())
""",
            ),
            Change(
                "watcher.py",
                """\
        self.log("stopping")
        self.stopped.wait(self.closing_seconds)
""",
            ),
            Change("watcher.py", "import signal\n"),
        ),
    ),
    DemoCommit(
        BEN,
        datetime(2026, 2, 2, 16, 20, tzinfo=UTC),
        "Skip files that are still being written\n\nOnly half of the report of January 30 was moved.",
        (
            Change("watcher.py", 'UNFINISHED = (".part", ".tmp")  # still being written\n'),
            Change("watcher.py", "        files = [file for file in files if file.suffix not in UNFINISHED]\n"),
        ),
    ),
    DemoCommit(
        ANN,
        datetime(2026, 2, 4, 11, 15, tzinfo=UTC),
        "Report the number of waiting files in the heartbeat",
        (Change("watcher.py", '                "waiting": len(self.waiting()),\n'),),
    ),
    DemoCommit(
        BEN,
        datetime(2026, 2, 5, 8, 50, tzinfo=UTC),
        "Look twice a second, not every two seconds",
        (Change("watcher.yaml", "poll_seconds: 0.5\n", "poll_seconds: 2\n"),),
    ),
)


def versions(history: Sequence[DemoCommit] = HISTORY) -> list[Mapping[str, str]]:
    """The files as of each commit, by name, oldest first."""
    files = {name: (PROGRAM / name).read_text(encoding="utf-8") for name in FILES}
    found: list[Mapping[str, str]] = []
    for commit in reversed(history):
        found.append(dict(files))
        for change in reversed(commit.changes):
            _revert(files, change)
    return found[::-1]


def _revert(files: dict[str, str], change: Change) -> None:
    text = files[change.file]
    if text.count(change.new) != 1:
        raise ValueError(f"{change.file} has {change.new!r} {text.count(change.new)} times, not once")
    if change.old is None:
        del files[change.file]
    else:
        files[change.file] = text.replace(change.new, change.old)
