"""`kill -9` of the daemon at every step of a command that goes from one worker to the next: the order holds, nothing is
done twice, and each worker is told of once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed, distinct
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=2)

WORKERS = ("West", "North", "South")
RESTS: dict[str, Any] = {**SLEEPER, "enabled": False}
ONE_AT_A_TIME = {"id": "TestHost", "state_dir": "var", "inbox_poll_seconds": 0.5, "parallel": 1}

ROAD = (
    "jobs_t.claimed:before",
    "jobs_t.claimed:after",
    "jobs_t.started:before",
    "jobs_t.started:after",
    "handler:before",
    "handler:after",
    "jobs_t.done:before",
    "jobs_t.done:after",
)
AFTERWARDS = ("result.file:before", "result.file:after", "outbox_t.sent:before", "outbox_t.sent:after")
"""What is done with the outcome of one while the next may be at work already."""

CUT_OFF = ROAD[3:7]
"""Where a job is under way."""


def told(home: Home, task: str) -> list[tuple[str, str]]:
    return [(row["target_id"], row["outcome"]) for row in home.audit(task)]


def killed(home: Home, point: str, words: str) -> str:
    """The daemon dies of this command; its task id."""
    daemon = home.start_daemon(program=armed(point))
    task: str = home.json("send", words)["task_id"]
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
    return task


def goes_on(home: Home, task: str) -> list[tuple[str, str]]:
    """The next daemon; what the trail says once all have their outcome, and their result files."""
    home.start_daemon()
    wait_until(lambda: len(told(home, task)) == len(WORKERS), 20, "each has its outcome")
    names = [f"supervisor_result_restart_watcher_{task}{end}.json" for end in ("", "_North", "_South")]
    wait_until(lambda: all((home.outbox / name).exists() for name in names), 20, "each has its result file")
    assert home.supervisor("audit", "verify").returncode == 0
    assert [who for who, _ in told(home, task)] == list(WORKERS), "in order, each once"
    return told(home, task)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Its workers are paused, so that a restart only starts them."""
    with a_home(tmp_path / "home", dict.fromkeys(WORKERS, SLEEPER), supervisor=ONE_AT_A_TIME) as made:
        pause_all(made)
        yield made


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Home]:
    """The first of its workers can't be restarted."""
    workers = {"West": RESTS, "North": SLEEPER, "South": SLEEPER}
    with a_home(tmp_path / "home", workers, supervisor=ONE_AT_A_TIME) as made:
        pause_all(made)
        yield made


def pause_all(home: Home) -> None:
    (home.nas / "00_STATE").mkdir(parents=True, exist_ok=True)
    for worker in WORKERS:
        (home.nas / "00_STATE" / f"supervisor_pause_{worker}.flag").touch()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(ROAD))
@pytest.mark.parametrize("time", [1, 2], ids=["in the first", "in the second"])
def test_killed_at_a_step_the_others_have_their_turn_or_are_told_that_they_had_none(
    home: Home, point: str, time: int
) -> None:
    task = killed(home, f"{point}#{time}", "restart all")
    outcomes = [word for _, word in goes_on(home, task)]
    if point in CUT_OFF:
        assert outcomes == ["success"] * (time - 1) + ["interrupted"] + ["failure"] * (len(WORKERS) - time)
    else:
        assert outcomes == ["success"] * len(WORKERS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(AFTERWARDS))
def test_killed_while_a_result_is_written_at_most_the_next_is_cut_off(home: Home, point: str) -> None:
    task = killed(home, point, "restart all")
    outcomes = [word for _, word in goes_on(home, task)]
    assert outcomes in (["success"] * 3, ["success", "interrupted", "failure"], ["success", "success", "interrupted"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(CUT_OFF))
def test_killed_in_the_middle_of_one_it_keeps_going_where_it_was_told_to(home: Home, point: str) -> None:
    task = killed(home, point, "restart all --keep-going")
    assert [word for _, word in goes_on(home, task)] == ["interrupted", "success", "success"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["jobs_t.done:before", "jobs_t.done:after"])
def test_killed_while_a_failure_is_written_down_the_others_end_with_it_or_after_it(failing: Home, point: str) -> None:
    """The failure and the ends of the others are one transaction: there is nothing between."""
    task = killed(failing, point, "restart all")
    before = told(failing, task)
    assert len(before) in (0, len(WORKERS))
    outcomes = [word for _, word in goes_on(failing, task)]
    assert outcomes == ["failure" if before else "interrupted", "failure", "failure"]
    assert before in ([], told(failing, task))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["jobs_t.interrupted:before", "jobs_t.interrupted:after"])
def test_killed_again_while_the_interruption_is_written_down_all_are_told_once(home: Home, point: str) -> None:
    task = killed(home, "jobs_t.started:after", "restart all")
    second = home.start_daemon(program=armed(point), wait=False)
    assert second.wait(30) == -signal.SIGKILL
    assert [word for _, word in goes_on(home, task)] == ["interrupted", "failure", "failure"]
