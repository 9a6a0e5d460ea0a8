"""The same error is logged once a minute, with how often it came since."""

from __future__ import annotations

import io
import logging

import pytest

from supervisor_core.common.errors import TemporaryError
from supervisor_core.host.logging.log import REPEAT_SECONDS, REPEATS_KEPT, LineFormatter, Repeats, worker_context


class Log:
    """A logger with two handlers that share one filter, as a daemon's has."""

    def __init__(self) -> None:
        self.now = 0.0
        self.logger = logging.Logger("supervisor_core.test")  # noqa: LOG001 (one that nobody else has)
        self.repeats = Repeats(lambda: self.now)
        self.streams = [io.StringIO(), io.StringIO()]
        for stream in self.streams:
            handler = logging.StreamHandler(stream)
            handler.setFormatter(LineFormatter())
            handler.addFilter(self.repeats)
            self.logger.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        """What was logged, without its head."""
        one, other = (stream.getvalue() for stream in self.streams)
        assert one == other
        return [line.partition("] [SUPERVISOR] ")[2] for line in one.splitlines()]


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_same_error_comes_once_a_minute_with_its_count(log: Log) -> None:
    for second in range(3 * int(REPEAT_SECONDS)):
        log.now = float(second)
        log.logger.error("the disk is %s", "full")
    again = f"[ERROR] the disk is full ({int(REPEAT_SECONDS) - 1} times more in the meantime)"
    assert log.lines == ["[ERROR] the disk is full", again, again]


def test_other_words_another_level_and_another_worker_are_other_errors(log: Log) -> None:
    for _ in range(2):
        log.logger.error("one")
        log.logger.warning("one")
        log.logger.error("another")
        for worker_id in ("North", "South"):
            with worker_context(worker_id):
                log.logger.error("one")
            log.logger.error("two", extra={"worker_id": worker_id})
    assert len(log.lines) == 7


def test_what_is_no_warning_always_comes(log: Log) -> None:
    for _ in range(3):
        log.logger.info("a look")
    assert len(log.lines) == 3


def test_an_exception_is_the_same_whatever_its_figures_are(log: Log) -> None:
    for number in range(3):
        try:
            raise ValueError(f"row {number}")
        except ValueError:
            log.logger.exception("it failed")
    (line,) = log.lines
    assert "Traceback" in line


def test_an_error_of_ours_has_words_and_no_traceback(log: Log) -> None:
    try:
        raise TemporaryError("The disk is full.", remedy="Make room.")
    except TemporaryError:
        log.logger.exception("it failed")
    assert log.lines == ["[ERROR] it failed: The disk is full. Make room."]


def test_of_a_flood_of_different_errors_only_the_newest_are_remembered(log: Log) -> None:
    for number in [*range(REPEATS_KEPT + 1), REPEATS_KEPT]:
        log.logger.error("error %s", number)
    assert len(log.lines) == REPEATS_KEPT + 1, "the newest is known"
    log.logger.error("error 0")
    assert len(log.lines) == REPEATS_KEPT + 2, "the oldest is forgotten"


def test_a_message_that_can_not_be_formed_reaches_nobody_who_logs(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.logger.error("%d of them", "many")
    assert "Logging error" in capsys.readouterr().err
