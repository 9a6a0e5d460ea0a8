"""The history of the demo's program: its newest version is in `program/`, and each commit says what it changed.

Earlier versions are made by taking the changes back, newest first. So the program is one real file that is linted
and run, and a change that does not fit it any more is an error, not a surprise in somebody's demo.
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
    """In one file, `new` stands where `old` stood. A whole new file has no `old`, and its `new` is all of it."""

    file: str
    new: str
    old: str | None = ""


@dataclass(frozen=True, slots=True)
class DemoCommit:
    """One commit. Those without changes begin the history: they hold all that is left when the others are undone."""

    author: str
    at: datetime
    message: str
    changes: tuple[Change, ...] = ()


HISTORY = (
    DemoCommit(ANN, datetime(2026, 1, 12, 9, 30, tzinfo=UTC), "Carry files from one folder to another"),
    DemoCommit(
        BEN,
        datetime(2026, 1, 13, 14, 5, tzinfo=UTC),
        "Name what the watcher needs\n\nA new host had no PyYAML, and the watcher ended before its first word.",
        (
            Change("requirements.txt", "PyYAML>=6\n", None),
            Change("README.md", ", what it needs in `requirements.txt`"),
        ),
    ),
    DemoCommit(
        ANN,
        datetime(2026, 1, 19, 10, 40, tzinfo=UTC),
        "Close the books before stopping\n\nThe file in hand is finished, and the last heartbeat says `stopped`.",
        (
            Change(
                "watcher.yaml", "# How long closing the books takes when it is asked to stop.\nclosing_seconds: 1.5\n\n"
            ),
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
        self.say("asked to stop: closing the books")
        self.stopped.wait(self.closing_seconds)
""",
            ),
            Change("watcher.py", "import signal\n"),
        ),
    ),
    DemoCommit(
        BEN,
        datetime(2026, 2, 2, 16, 20, tzinfo=UTC),
        "Leave files alone that are still being written\n\nHalf of the report of 30 January was carried over.",
        (
            Change("watcher.py", 'UNFINISHED = (".part", ".tmp")  # somebody is still writing these\n'),
            Change("watcher.py", "        files = [file for file in files if file.suffix not in UNFINISHED]\n"),
        ),
    ),
    DemoCommit(
        ANN,
        datetime(2026, 2, 4, 11, 15, tzinfo=UTC),
        "Say in the heartbeat how many files wait",
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
    """The files after each commit, by name, oldest first."""
    files = {name: (PROGRAM / name).read_text(encoding="utf-8") for name in FILES}
    found: list[Mapping[str, str]] = []
    for commit in reversed(history):
        found.append(dict(files))
        for change in reversed(commit.changes):
            _take_back(files, change)
    return found[::-1]


def _take_back(files: dict[str, str], change: Change) -> None:
    text = files[change.file]
    if text.count(change.new) != 1:
        raise ValueError(f"{change.file} has {change.new!r} {text.count(change.new)} times, not once")
    if change.old is None:
        del files[change.file]
    else:
        files[change.file] = text.replace(change.new, change.old)
