"""The log: its exact lines, their structured twin, their rotation, and their copy on a drive that may hang."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.logging import log as logs
from tests.support.waiting import wait_until

log = logging.getLogger("supervisor_core.under_test")


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """What a test sets up must not reach the next one."""
    roots = [logging.getLogger(name) for name in ("supervisor_core", "bot")]
    before = [(root, root.level, root.propagate, list(root.handlers)) for root in roots]
    yield
    for root, level, propagate, handlers in before:
        logs.tear_down([handler for handler in root.handlers if handler not in handlers])
        root.setLevel(level)
        root.propagate = propagate


@pytest.fixture
def home(tmp_path: Path) -> Path:
    logs.set_up(tmp_path, "supervisor.log", "INFO", 10_000, 2, to_stderr=False)
    return tmp_path


def lines(home: Path) -> list[str]:
    return (home / "supervisor.log").read_text().splitlines()


def events(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "events.jsonl").read_text().splitlines()]


def test_a_line_is_exactly_as_it_is_promised(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1770301815.234)
    monkeypatch.setattr(time, "time_ns", lambda: 1_770_301_815_234_000_000)
    with logs.command_context("task_20260205_001", "impl HT acquire"):
        log.info("Action completed")
    with logs.command_context("task_20260205_001", None):
        log.error("No label")
    log.warning("No task")
    assert lines(home) == [
        "[2026-02-05T14:30:15.234Z] [SUPERVISOR] [INFO] [task_20260205_001 - impl HT acquire] Action completed",
        "[2026-02-05T14:30:15.234Z] [SUPERVISOR] [ERROR] [task_20260205_001] No label",
        "[2026-02-05T14:30:15.234Z] [SUPERVISOR] [WARNING] No task",
    ]


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("two\nlines", r"two\nlines"),
        ("\r\t\0\x1b[31m\x7f", r"\r\t\x00\x1b[31m\x7f"),
        ("\u2028\u2029\x85\u202e", r"\u2028\u2029\x85\u202e"),
        ("Zoë 🙂", "Zoë 🙂"),
        (r"back\slash", r"back\slash"),
    ],
    ids=ascii,
)
def test_whatever_is_in_it_an_event_is_one_line(home: Path, message: str, written: str) -> None:
    with logs.command_context("t\n1", "a\nb"):
        log.info("%s", message)
    (line,) = lines(home)
    assert line.endswith(rf" [t\n1 - a\nb] {written}")
    (event,) = events(home)
    assert event["message"] == message


def test_an_exception_is_one_line_with_its_traceback(home: Path) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it failed")
    (line,) = lines(home)
    assert re.search(r"it failed\\nTraceback .*ValueError: two\\nlines$", line)


def test_the_twin_says_the_same_in_json(home: Path) -> None:
    with logs.command_context("t1", "hotfix"):
        log.info("started", extra=LogEvent.WORKER_STARTED.extra(worker_id="OrionMX", pid=4711))
    log.info("plain")
    told, plain = events(home)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(told.pop("timestamp")))
    assert told == {
        "level": "INFO",
        "event": "worker.started",
        "message": "started",
        "logger": "supervisor_core.under_test",
        "worker_id": "OrionMX",
        "task_id": "t1",
        "label": "hotfix",
        "pid": 4711,
    }
    assert (plain["event"], plain["task_id"], plain["worker_id"]) == ("log", None, None)


def test_the_level_counts_and_other_programs_logs_stay_out(home: Path) -> None:
    log.debug("too little")
    logging.getLogger("elsewhere").error("not ours")
    logging.getLogger("bot.intake").info("ours as well")
    assert [line.rpartition("] ")[2] for line in lines(home)] == ["ours as well"]


def test_files_rotate_lose_no_line_and_are_private(home: Path) -> None:
    for number in range(400):
        log.info("line %04d", number)
    names = sorted(path.name for path in home.iterdir())
    assert names == [f"{name}{end}" for name in ("events.jsonl", "supervisor.log") for end in ("", ".1", ".2")]
    for path in home.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size <= 10_000
    kept = "".join((home / f"supervisor.log{end}").read_text() for end in (".2", ".1", ""))
    numbers = [int(number) for number in re.findall(r"line (\d+)", kept)]
    assert numbers == list(range(numbers[0], 400))


class Copied:
    """A drive with a copy of the log."""

    def __init__(self, folder: Path, drive: type[Drive] = Drive) -> None:
        self.root = folder / "nas"
        self.root.mkdir()
        self.path = self.root / "05_LOGS" / "supervisor.log"
        self.drive = drive(self.root, timeout_seconds=0.2)
        self.handler = logs.DriveCopy(self.path, self.drive, 10**6, 2, 0o640)
        logs.add(self.handler)
        logging.getLogger("supervisor_core").setLevel("INFO")

    def text(self) -> str:
        """What is in it; nothing before its first line, and nothing in the moment between two files of a rotation."""
        try:
            return self.path.read_text()
        except FileNotFoundError:
            return ""

    def shows(self, words: str) -> None:
        wait_until(lambda: words in self.text(), 5, f"{words!r} is on the drive")


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def test_a_burst_of_more_lines_than_may_wait_is_copied_whole(copied: Copied) -> None:
    many = logs.COPY_WAITS_AT_MOST * 3 // 2
    for number in range(many):
        log.info("of many: %d", number)
        if number % logs.COPY_AT_ONCE == 0:
            time.sleep(0.03)  # the copying thread gets a turn
    copied.shows(f"of many: {many - 1}")
    assert copied.text().count("of many") == many


def test_while_the_drive_hangs_nobody_waits_and_afterwards_it_is_said_how_much_is_missing(copied: Copied) -> None:
    release = threading.Event()
    with pytest.raises(DriveUnavailable):
        copied.drive.call(release.wait, timeout=0.02)
    begun = time.monotonic()
    for number in range(2 * logs.COPY_WAITS_AT_MOST):
        log.info("while it hung %d", number)
    assert time.monotonic() - begun < 5
    release.set()
    wait_until(lambda: not copied.drive.hangs, 5, "the drive is back")

    def told() -> bool:
        log.info("back")
        return "lines are only in the state folder" in copied.text()

    wait_until(told, 5, "the loss is said")
    missing = sum(map(int, re.findall(r"(\d+) lines are only in the state folder", copied.text())))
    arrived = copied.text().count("while it hung")
    assert missing + arrived >= 2 * logs.COPY_WAITS_AT_MOST


def test_lines_lost_while_others_are_on_their_way_are_counted_too(tmp_path: Path) -> None:
    """The drive is slow but answers: what found the queue full meanwhile must be said as well."""
    entered, release = threading.Event(), threading.Event()

    class Slow(Drive):
        def call(self, work, *arguments, timeout=None):  # type: ignore[no-untyped-def]
            if not entered.is_set():
                entered.set()
                assert release.wait(10)
            return super().call(work, *arguments, timeout=timeout)

    copied = Copied(tmp_path, Slow)
    log.info("the first")
    assert entered.wait(5)
    for number in range(logs.COPY_WAITS_AT_MOST + 7):
        log.info("behind it %d", number)
    release.set()
    copied.shows("7 lines are only in the state folder")


def test_a_drive_that_is_not_mounted_is_not_made_and_a_later_line_arrives(copied: Copied) -> None:
    copied.root.rmdir()
    log.info("lost")
    time.sleep(3 * logs.GATHER_SECONDS)
    assert not copied.root.exists()
    copied.root.mkdir()
    log.info("later")
    copied.shows("later")
    copied.shows("1 lines are only in the state folder")


def test_closing_copies_what_came_while_others_were_on_their_way(tmp_path: Path) -> None:
    entered, release = threading.Event(), threading.Event()

    class Slow(Drive):
        def call(self, work, *arguments, timeout=None):  # type: ignore[no-untyped-def]
            entered.set()
            assert release.wait(10)
            return super().call(work, *arguments, timeout=timeout)

    copied = Copied(tmp_path, Slow)
    log.info("the first")
    assert entered.wait(5)
    log.info("the last")
    threading.Timer(0.1, release.set).start()
    logs.tear_down([copied.handler])
    assert "the last" in copied.text()


def test_closing_does_not_wait_for_a_drive_that_hangs(tmp_path: Path) -> None:
    release = threading.Event()

    class Hanging(Drive):
        def call(self, work, *arguments, timeout=None):  # type: ignore[no-untyped-def]
            release.wait()

    copied = Copied(tmp_path, Hanging)
    log.info("it hangs")
    begun = time.monotonic()
    logs.tear_down([copied.handler])
    assert time.monotonic() - begun < 3
    release.set()


def test_a_line_that_can_not_be_made_does_not_stop_who_logged_it(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log.info("%d", "no number")
    log.info("goes on")
    copied.shows("goes on")
