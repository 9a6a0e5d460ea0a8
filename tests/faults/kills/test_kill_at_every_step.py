"""`kill -9` of the daemon at every step of a command's road: it ran once or is reported as interrupted, told once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Home, a_home
from tests.support.programs.armed import BESIDE, armed, distinct
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

TASK = "task_20260205_001"
FLAG = f"supervisor_pause_OrionMX_{TASK}.flag"
BODY = {"task_id": TASK, "handler": "pause", "label": "hotfix test"}

# Every crash point on the road of a flag, in the order in which it passes them. `test_no_point_is_forgotten` holds
# this list against what the program really passes.
BEFORE_THE_HANDLER = (
    "flag.claim:before",
    "flag.claim:after",
    "flag.row:before",
    "flag.row:after",
    "flag.remove:before",
    "flag.remove:after",
    "jobs_t.claimed:before",
    "jobs_t.claimed:after",
    "jobs_t.started:before",
)
IN_THE_HANDLER = (
    "jobs_t.started:after",
    "handler:before",
    "pause.copy:after",
    "pause.flag:after",
    "job.progress:after",
    "worker.stop:before",
    "worker.stop:ordered",
    "worker.stop:after",
    "handler:after",
    "jobs_t.done:before",
)
AFTER_THE_HANDLER = (
    "jobs_t.done:after",
    "result.file:before",
    "result.file:written",
    "result.file:after",
    "outbox_t.sent:before",
    "outbox_t.sent:after",
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def crash_at(home: Home, point: str) -> None:
    """Start an armed daemon, drop the flag, and see the daemon die of it."""
    daemon = home.start_daemon(program=armed(point))
    home.drop_flag(FLAG, BODY)
    assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()


def told_once(home: Home) -> str:
    """Start the daemon again; the outcome as it was told, once in each place."""
    home.start_daemon()
    wait_until(lambda: home.result("pause", TASK), 20, "there is a result")
    wait_until(lambda: not any((home.inbox / "processing").iterdir()), 10, "nothing is left in processing")
    (row,) = home.audit(TASK)
    result = home.result("pause", TASK)
    assert result is not None
    assert [path.name for path in home.outbox.iterdir()] == [f"supervisor_result_pause_{TASK}.json"]
    assert result["success"] == (row["outcome"] == "success")
    assert not list(home.inbox.glob("*.flag"))
    assert home.supervisor("audit", "verify").returncode == 0
    assert row["label"].endswith(" - hotfix test")
    return str(row["outcome"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(BEFORE_THE_HANDLER))
def test_killed_before_the_handler_began_it_is_run_once(home: Home, point: str) -> None:
    crash_at(home, point)
    assert told_once(home) == "success"
    assert home.running_copies("OrionMX") == []
    assert home.worker("OrionMX")["paused"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(IN_THE_HANDLER))
def test_killed_while_the_handler_was_at_work_it_is_reported_as_interrupted(home: Home, point: str) -> None:
    crash_at(home, point)
    assert told_once(home) == "interrupted"
    result = home.result("pause", TASK)
    assert result is not None
    assert "It isn't run again automatically." in result["error"]
    # What it says about now is true: paused or not, running or not, and never two copies.
    worker = home.worker("OrionMX")
    assert result["details"]["paused"] == worker["paused"]
    assert home.running_copies("OrionMX") == ([worker["pid"]] if worker["pid"] else [])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", distinct(AFTER_THE_HANDLER))
def test_killed_after_the_outcome_was_written_it_is_told_all_the_same(home: Home, point: str) -> None:
    crash_at(home, point)
    assert told_once(home) == "success"
    assert home.running_copies("OrionMX") == []


def test_no_point_is_forgotten(home: Home, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    home.start_daemon(program=armed(f"trace:{trace}"))
    started = len(trace.read_text().splitlines())
    home.drop_flag(FLAG, BODY)
    # Not in their order: what the ledger does after a commit and what it woke may come in either.
    known = {*BEFORE_THE_HANDLER, *IN_THE_HANDLER, *AFTER_THE_HANDLER}
    wait_until(lambda: known <= set(trace.read_text().splitlines()[started:]), 20, "the command went its whole road")
    assert set(trace.read_text().splitlines()[started:]) - BESIDE == known


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["worker.start:before", "worker.start:after"])
def test_killed_while_it_starts_a_worker_the_next_one_finds_it_and_starts_no_second(home: Home, point: str) -> None:
    daemon = home.start_daemon(program=armed(point), wait=False)
    assert daemon.wait(30) == -signal.SIGKILL
    home.start_daemon()
    wait_until(lambda: home.worker("OrionMX")["health"] == "healthy", 10, "the worker is healthy")
    assert home.running_copies("OrionMX") == [home.worker("OrionMX")["pid"]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("point", "sent_it"), [("command.file:before", False), ("command.file:after", True)])
def test_a_shell_killed_while_it_sends_has_sent_it_or_not(home: Home, point: str, sent_it: bool) -> None:
    """Where it has, nobody was told; the row is found all the same. A later command shows that nothing else waits."""
    sent = home.supervisor("send", "pause hotfix test", program=armed(point))
    assert sent.returncode == -signal.SIGKILL
    home.start_daemon()
    if sent_it:
        wait_until(lambda: home.worker("OrionMX")["paused"], 10, "what was queued has run")
    assert home.json("send", "resume", "--wait")["success"]
    assert [row["action"] for row in home.audit()] == ["PAUSE", "RESUME"][not sent_it :]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["command.file:before", "command.file:after"])
def test_a_daemon_killed_while_a_shell_sends_runs_the_command_once(home: Home, point: str) -> None:
    """The shell can't know whether the daemon queued it, and queues it under the same id."""
    daemon = home.start_daemon(program=armed(point))
    sent = home.supervisor("send", "pause hotfix test")
    assert daemon.wait(30) == -signal.SIGKILL
    assert sent.returncode == 0, sent.stderr
    assert "No daemon is running" in sent.stdout
    home.start_daemon()
    wait_until(lambda: home.worker("OrionMX")["paused"], 10, "the command has run")
    assert home.json("send", "resume", "--wait")["success"]
    assert [row["action"] for row in home.audit()] == ["PAUSE", "RESUME"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["flag.reject:before", "flag.reject:after"])
def test_killed_while_it_rejects_a_flag_it_is_told_once(home: Home, point: str) -> None:
    daemon = home.start_daemon(program=armed(point))
    home.drop_flag(FLAG, {"label": "no/slash"})
    assert daemon.wait(30) == -signal.SIGKILL
    home.start_daemon()
    wait_until(lambda: home.result("pause", TASK), 20, "there is a result")
    wait_until(lambda: not any((home.inbox / "processing").iterdir()), 10, "nothing is left in processing")
    assert [row["action"] for row in home.audit()] == ["REFUSED"]
    assert sorted(path.name for path in (home.inbox / "rejected").iterdir()) == [FLAG, f"{FLAG}.reason.txt"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["jobs_t.interrupted:before", "jobs_t.interrupted:after"])
def test_a_daemon_killed_with_a_command_in_hand_twice_still_tells_it_once(home: Home, point: str) -> None:
    crash_at(home, "jobs_t.started:after")
    second = home.start_daemon(program=armed(point), wait=False)
    assert second.wait(30) == -signal.SIGKILL
    assert told_once(home) == "interrupted"
