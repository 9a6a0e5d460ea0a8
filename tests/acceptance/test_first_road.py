"""The first road as an operator walks it: a command from the shell, or a flag dropped by hand, to the audit trail."""

from __future__ import annotations

import getpass
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until

ME = getpass.getuser()
NOBODY = (sys.executable, "-m", "tests.support.programs.unprivileged")
"""The command line, run by somebody who may not read the home of the test."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def test_a_command_from_the_shell_stops_a_real_worker_and_the_audit_trail_says_who_asked(home: Home) -> None:
    home.start_daemon()
    (pid,) = home.running_copies("OrionMX")

    sent = home.supervisor("send", "pause hotfix test", "--wait")

    assert (sent.returncode, sent.stderr) == (0, "")
    assert "\nok: OrionMX is paused\n" in sent.stdout
    assert not Path(f"/proc/{pid}").exists()
    (row,) = home.audit()
    assert (row["action"], row["target_id"], row["outcome"]) == ("PAUSE", "OrionMX", "success")
    assert (row["actor"], row["label"]) == (f"cli:{ME}", f"{ME} - hotfix test")
    assert json.loads(row["details_json"])["label"] == "hotfix test"
    table = home.supervisor("audit").stdout
    assert "hotfix test" in table
    status = home.supervisor("status")
    assert status.returncode == 0, "paused by a person is not unhealthy"
    assert f"paused by {ME} at " in status.stdout
    assert "UTC: hotfix test" in status.stdout


def test_a_flag_dropped_by_hand_does_the_same(home: Home) -> None:
    home.start_daemon()
    (home.inbox / "supervisor_pause_OrionMX.flag").write_text('{"label": "by hand"}')
    wait_until(lambda: home.worker("OrionMX")["paused"], 10, "the worker is paused")
    wait_until(lambda: list(home.outbox.glob("*.json")), 10, "there is a result")
    (row,) = home.audit()
    assert (row["actor"], row["label"], row["outcome"]) == (f"file:{ME}", f"{ME} - by hand", "success")
    (path,) = home.outbox.iterdir()
    result = json.loads(path.read_text())
    assert path.name == f"supervisor_result_pause_{row['task_id']}.json"
    keys = {"timestamp", "supervisor_id", "worker_id", "task_id", "handler", "success", "error", "details"}
    assert keys <= set(result)
    assert (result["supervisor_id"], result["worker_id"], result["success"]) == ("TestHost", "OrionMX", True)


def test_an_empty_flag_made_with_touch_means_no_parameters_once_it_has_settled(home: Home) -> None:
    home.start_daemon()
    (home.inbox / "supervisor_pause_OrionMX.flag").touch()
    wait_until(lambda: home.worker("OrionMX")["paused"], 15, "the worker is paused")


def test_pause_and_resume_bring_the_worker_back(home: Home) -> None:
    home.start_daemon()
    (first,) = home.running_copies("OrionMX")
    assert home.json("send", "pause", "--wait")["success"]
    assert home.running_copies("OrionMX") == []
    again = home.json("send", "pause again", "--wait")
    assert (again["success"], again["details"]["already_paused"]) == (True, True)
    resumed = home.json("send", "resume", "--wait")
    (second,) = home.running_copies("OrionMX")
    assert resumed["success"]
    assert resumed["details"]["pid"] == second != first
    assert not (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").exists()
    already = home.json("send", "resume", "--wait")
    assert (already["success"], already["details"]["already_running"]) == (True, True)
    assert home.running_copies("OrionMX") == [second]


def test_workers_outlive_the_daemon_and_the_next_one_takes_them_over(home: Home) -> None:
    home.start_daemon()
    (pid,) = home.running_copies("OrionMX")
    stopped = home.supervisor("stop")
    assert (stopped.returncode, "OrionMX" in stopped.stdout) == (0, True)
    assert home.running_copies("OrionMX") == [pid]
    home.start_daemon()
    assert home.worker("OrionMX")["pid"] == pid
    assert home.running_copies("OrionMX") == [pid]
    assert home.json("send", "pause", "--wait")["success"], "the next one can stop what it did not start"
    assert home.running_copies("OrionMX") == []


def test_a_killed_daemon_leaves_one_worker_and_status_says_stale(home: Home) -> None:
    daemon = home.start_daemon()
    (pid,) = home.running_copies("OrionMX")
    daemon.kill()
    daemon.wait()
    status = home.supervisor("status", "--json")
    document = json.loads(status.stdout)
    assert (status.returncode, document["supervisor"]["state"]) == (1, "stale")
    assert document["workers"][0]["pid"] == pid, "the workers' live facts are shown all the same"
    home.start_daemon()
    assert home.running_copies("OrionMX") == [pid]


def test_a_second_daemon_is_refused_and_names_the_first(home: Home) -> None:
    daemon = home.start_daemon()
    second = home.supervisor("run")
    assert (second.returncode, second.stderr.strip()) == (
        1,
        f"supervisor: supervisor already running (pid {daemon.pid})",
    )


def test_several_workers_are_one_command_with_an_outcome_each(tmp_path: Path) -> None:
    worker = {"command": demo_command(), "start_grace_seconds": 0.2}
    with a_home(tmp_path / "home", {"North": worker, "South": worker}) as home:
        home.start_daemon()
        outcome = home.json("send", "pause all maintenance", "--wait")
        assert outcome["success"]
        assert [each["worker_id"] for each in outcome["details"]["workers"]] == ["North", "South"]
        rows = home.audit(outcome["task_id"])
        assert sorted(row["target_id"] for row in rows) == ["North", "South"]
        asked = home.supervisor("send", "pause")
        assert (asked.returncode, "North" in asked.stderr) == (2, True)


def test_bad_grammar_queues_nothing_and_says_what_was_expected(home: Home) -> None:
    for text, expected in {
        "puase OrionMX": "pause OrionMX",
        "rollback 11": "1 to 10",
        "pause orinmx": "OrionMX",
        "pause hot/fix": "/",
    }.items():
        sent = home.supervisor("send", text, "--wait")
        assert sent.returncode == 2, text
        assert expected in sent.stderr
        assert "Traceback" not in sent.stderr
    assert home.supervisor("send", "").returncode == 0, "nothing at all is a question, and answered"
    home.start_daemon()
    assert home.json("send", "resume", "--wait")["success"]
    assert [row["action"] for row in home.audit()] == ["RESUME"], "nothing was queued before"


def test_words_without_quotes_are_understood_as_well(home: Home) -> None:
    sent = home.supervisor("send", "pause", "OrionMX", "no", "quotes")
    assert (sent.returncode, sent.stdout.startswith("Queued: pause OrionMX")) == (0, True)


def test_a_second_use_of_a_task_id_is_the_same_command_or_refused(home: Home) -> None:
    home.start_daemon()
    home.drop_flag("supervisor_pause_OrionMX_t7.flag", {})
    wait_until(lambda: home.result("pause", "t7"), 10, "it is paused")
    home.drop_flag("supervisor_resume_OrionMX_t7.flag", {})
    rejected = home.inbox / "rejected" / "supervisor_resume_OrionMX_t7.flag.reason.txt"
    wait_until(rejected.exists, 10, "the other command is refused")
    assert "belongs to another command" in rejected.read_text()
    assert home.running_copies("OrionMX") == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; those of pytest are for their owner alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_whoever_may_not_look_is_told_whose_it_is(open_folder: Path) -> None:
    with a_home(open_folder / "home") as home:
        home.supervisor("send", "pause")
        home.state_dir.chmod(0)  # who does not run the tests as root is shut out by this, nobody anyway
        refused = home.supervisor("status", program=NOBODY)
        home.state_dir.chmod(0o700)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert f"belongs to {ME}" in refused.stderr or f"chmod u+rwX {home.state_dir}" in refused.stderr


def results(home: Home) -> str:
    """All result files."""
    return "".join(path.read_text() for path in home.outbox.glob("*.json"))


def test_a_secret_that_a_worker_prints_before_it_dies_is_not_told(tmp_path: Path) -> None:
    worker = {
        "command": ["sh", "-c", "echo connecting to db://me:$DBPW@host; exit 3"],
        "env": {"DBPW": "hunter2secret"},
        "start_grace_seconds": 5,
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        home.start_daemon()
        told = home.supervisor("send", "resume", "--wait")
        wait_until(lambda: "connecting to db://****@host" in results(home), 10, "the result is written")
        everything = [told.stdout, home.daemon_log(), json.dumps(home.audit()), json.dumps(home.status())]
        everything.append(results(home))
        assert not [text for text in everything if "hunter2secret" in text]


def test_without_a_daemon_a_command_waits_for_the_next_pass(home: Home) -> None:
    sent = home.supervisor("send", "pause for later")
    assert (sent.returncode, "next pass" in sent.stdout) == (0, True)
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 0, done.stderr
    (row,) = home.audit()
    assert (row["action"], row["outcome"]) == ("PAUSE", "success")


def test_waiting_in_vain_ends_with_1_and_says_that_the_command_goes_on(home: Home) -> None:
    sent = home.supervisor("send", "pause", "--wait", "--timeout", "0.5")
    assert sent.returncode == 1
    assert "No outcome after 0.5 s" in sent.stdout
