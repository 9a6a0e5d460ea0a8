"""`kill -9` at every move of a schedule: it is added once, removed once, and each of its times is run once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Home, a_home
from tests.support.intake.schedule_homes import comes_due, make_due, scheduled
from tests.support.programs.armed import armed, distinct
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=2)

ADD = 'schedule add nightly "daily 03:00" pause OrionMX hotfix'

# Every crash point of a schedule that runs. `test_no_point_is_forgotten` holds these against what programs really pass.
ADDED = ("schedules_t.added:before", "schedules_t.added:after")
RUN = ("schedules_t.filed:before", "schedules_t.filed:after")
REMOVED = ("schedules_t.removed:before", "schedules_t.removed:after")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def killed(home: Home, point: str, *words: str) -> None:
    done = home.supervisor(*words, program=armed(point))
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stdout, done.stderr)


def actions(home: Home) -> list[str]:
    assert home.supervisor("audit", "verify").returncode == 0
    return [row["action"] for row in home.audit()]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(ADDED))
def test_killed_while_it_was_added_it_is_there_with_its_row_or_not_at_all(home: Home, point: str) -> None:
    killed(home, point, "send", ADD)
    there = point == ADDED[1]
    assert actions(home) == ["SCHEDULE_ADDED"] * there
    again = home.supervisor("send", ADD)
    assert (again.returncode == 0) is not there, again.stderr
    assert [each["name"] for each in home.json("send", "schedule list")] == ["nightly"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(REMOVED))
def test_killed_while_it_was_removed_it_is_gone_with_its_row_or_goes_on(home: Home, point: str) -> None:
    home.supervisor("send", ADD)
    killed(home, point, "send", "schedule remove nightly")
    home.supervisor("send", "schedule remove nightly")
    assert home.json("send", "schedule list") == []
    assert actions(home) == ["SCHEDULE_ADDED", "SCHEDULE_REMOVED"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(RUN))
def test_killed_while_it_was_run_that_time_is_run_once(home: Home, point: str) -> None:
    home.supervisor("send", ADD)
    make_due(home, "nightly")
    daemon = home.start_daemon(program=armed(point), wait=False)
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    home.start_daemon()
    wait_until(lambda: scheduled(home, "nightly")["last_outcome"] == "succeeded", 30, "it ran")
    assert actions(home) == ["SCHEDULE_ADDED", "PAUSE"]
    (_, row) = home.audit()
    assert (row["actor"], row["label"]) == ("schedule:nightly", "nightly - hotfix")


def test_no_point_is_forgotten(home: Home, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    program = (sys.executable, "-m", "tests.support.programs.armed", f"trace:{trace}")
    assert home.supervisor("send", ADD, program=program).returncode == 0
    home.start_daemon(program=program)
    comes_due(home, "nightly")
    wait_until(lambda: scheduled(home, "nightly")["last_outcome"] == "succeeded", 30, "it ran")
    assert home.supervisor("send", "schedule remove nightly", program=program).returncode == 0
    assert [point for point in trace.read_text().split() if point.startswith("schedules_t")] == [
        *ADDED,
        *RUN,
        *REMOVED,
    ]
