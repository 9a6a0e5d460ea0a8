"""The handlers, end to end: real processes, real repositories, real databases, the real programs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from supervisor_core.common.times import from_text
from supervisor_core.workers.heartbeats.files import write_supervisor_heartbeat_file
from supervisor_core.workers.pauses import is_watcher_paused
from tests.support.code.code_homes import WHO, a_code_home, audited, by, message, picture, restarted, rests
from tests.support.code.odd_repositories import BROKEN, with_broken_filter
from tests.support.code.repositories import STRAIGHT, Clones, origin_and_checkout
from tests.support.daemon.single_passes import ME, beat, carry_out, labelled, log_of, rows, state, working
from tests.support.diagnosis.reports import (
    ARCHIVE_TABLES,
    OUR_TABLES,
    STAMP,
    a_reporting_home,
    make_tables,
    passed,
    the_report,
    told,
    verified,
    with_database,
)
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

FOLDERS = {"state", "raw", "work", "reference", "publish", "logs", "inbox", "outbox"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[Home]:
    """A home whose worker has its code in a checkout."""
    with a_reporting_home(tmp_path) as home:
        yield home


@pytest.fixture
def coded(tmp_path: Path) -> Iterator[tuple[Home, Clones]]:
    """A home whose worker has its code in a checkout, and that with its remote."""
    made = origin_and_checkout(tmp_path / "code")
    with a_code_home(tmp_path / "home", made.checkout.folder) as home:
        yield home, made


def test_pause_watcher_flag_created(home: Home) -> None:
    working(home)
    result = carry_out(home, "pause")
    assert (result["success"], result["error"], result["details"]["ending"]) == (True, None, "graceful")
    assert is_watcher_paused(state(home), "OrionMX")
    flag = json.loads((state(home) / "supervisor_pause_OrionMX.flag").read_text())
    assert (flag["worker_id"], flag["by"], flag["task_id"]) == ("OrionMX", f"file:{ME}", result["task_id"])
    assert home.everybody() == []
    assert "stopped after" in home.output("OrionMX").read_text(), "what was in hand was finished"
    assert home.supervisor("once", "--heal").returncode == 0
    assert home.running_copies("OrionMX") == [], "nothing starts it by itself"


def test_pause_watcher_with_label(home: Home) -> None:
    working(home)
    result = carry_out(home, "pause", "disk is full")
    labelled(home, result, "disk is full")
    flag = json.loads((state(home) / "supervisor_pause_OrionMX.flag").read_text())
    assert flag["label"] == f"{ME} - disk is full"


def test_resume_watcher_flag_deleted(home: Home) -> None:
    carry_out(home, "pause")
    result = carry_out(home, "resume")
    assert (result["success"], result["details"]["was_paused"]) == (True, True)
    assert not is_watcher_paused(state(home), "OrionMX")
    assert home.running_copies("OrionMX") == [result["details"]["pid"]]


def test_resume_watcher_with_label(home: Home) -> None:
    carry_out(home, "pause", "disk is full")
    labelled(home, carry_out(home, "resume", "disk is cleared"), "disk is cleared")


def test_restart_watcher_respects_pause_flag(home: Home) -> None:
    old = working(home)
    (state(home) / "supervisor_pause_OrionMX.flag").write_text("")
    result = carry_out(home, "restart_watcher")
    assert (result["success"], result["details"]["paused"]) == (True, True)
    assert result["details"]["old_pid"] == old
    assert is_watcher_paused(state(home), "OrionMX"), "the flag is left in place"
    (new,) = home.running_copies("OrionMX")
    wait_until(lambda: beat(home)["pid"] == new, 10, "the new one beats")
    assert (beat(home)["status"], beat(home)["items_done"]) == ("paused", 0)
    os.kill(new, signal.SIGKILL)
    assert home.supervisor("once", "--heal").returncode == 0, "once was all that the restart asked for"
    assert home.running_copies("OrionMX") == []


def test_restart_watcher_with_label(home: Home) -> None:
    old = working(home)
    result = carry_out(home, "restart_watcher", "hangs on a scan")
    labelled(home, result, "hangs on a scan")
    (new,) = home.running_copies("OrionMX")
    assert (result["details"]["old_pid"], result["details"]["new_pid"]) == (old, new)


def test_heartbeat_file_atomic_write(tmp_path: Path) -> None:
    """Whoever reads while it is written sees the old one or the new one, whole; and nothing else is left."""
    path = write_supervisor_heartbeat_file(tmp_path, "OrionMX", {"number": 0})
    assert path == tmp_path / "supervisor_heartbeat_OrionMX.json"
    over, seen = threading.Event(), []

    def read() -> None:
        while not over.is_set():
            seen.append(json.loads(path.read_bytes()))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 200):
            write_supervisor_heartbeat_file(tmp_path, "OrionMX", {"number": number, "padding": "x" * 20_000})
    finally:
        over.set()
        reader.join()
    numbers = [document["number"] for document in seen]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1, "it was read while it was written"
    with pytest.raises(ValueError, match="JSON"):
        write_supervisor_heartbeat_file(tmp_path, "OrionMX", {"number": float("nan")})
    assert json.loads(path.read_text())["number"] == 199
    assert os.listdir(tmp_path) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o640


def test_heartbeat_database_insert(home: Home) -> None:
    pid = working(home)
    assert home.supervisor("once").returncode == 0
    first = rows(home)
    assert set(first) == {"OrionMX", "supervisor_OrionMX"}
    mine, its = first["supervisor_OrionMX"], first["OrionMX"]
    assert mine["status_summary"] == "Supervisor OK - running, healthy. Actions: none"
    assert (its["pid"], its["status"], its["poll_seconds"]) == (pid, "running", 1.0)
    assert its["hostname"] == mine["hostname"] == socket.gethostname()
    assert its["status_summary"].startswith("running, healthy: running, heartbeat")
    told = from_text(its["last_heartbeat_at"])  # the file and the row write one moment in two forms
    wait_until(lambda: from_text(beat(home)["utc"]) > told, 10, "it beats again")
    assert home.supervisor("once").returncode == 0
    second = rows(home)
    assert set(second) == set(first), "updated, and not inserted again"
    for name, row in second.items():
        assert row["last_heartbeat_at"] > first[name]["last_heartbeat_at"]
    carry_out(home, "pause", "with a label")
    assert rows(home)["supervisor_OrionMX"]["status_summary"] == "Supervisor OK - paused. Actions: pause"
    (state(home) / "supervisor_pause_OrionMX.flag").unlink()
    assert home.supervisor("once").returncode == 1
    said = rows(home)["supervisor_OrionMX"]
    assert said["status"] == "error"
    assert said["status_summary"].startswith("Supervisor ERROR - OrionMX is missing: ")
    assert said["status_summary"].endswith(". State: stopped, missing")


def test_diagnostics_report_generated(reporting: Home) -> None:
    reporting.start_daemon()
    wait_until((reporting.nas / "00_STATE" / "watcher_heartbeat_OrionMX.json").exists, 10, "there is a heartbeat")
    reporting.drop_flag("supervisor_pause_Elsewhere.flag", {})
    assert reporting.supervisor("send", "restart so that there is a row", "--wait").returncode == 0

    answer = told(reporting, "diagnostics")

    assert (answer["success"], answer["error"]) == (True, None)
    path = Path(answer["details"]["report_path"])
    assert path.parent == reporting.nas / "05_LOGS" / "diagnostics"
    assert re.fullmatch(rf"diagnostics_OrionMX_{STAMP}\.json", path.name)
    assert [each.name for each in path.parent.iterdir()] == [path.name], "no temporary file is left beside it"
    assert path.stat().st_mode & 0o777 == 0o640
    report = the_report(answer)
    assert report["unknown_parts"] == answer["details"]["unknown_parts"] == []
    (pid,) = reporting.running_copies("OrionMX")
    process = report["process"]
    assert (process["running"], process["pid"], process["children"]) == (True, pid, [])
    assert process["memory_bytes"] > 1_000_000
    assert process["cpu_percent"] >= 0
    assert process["uptime_seconds"] >= 0.2
    assert {name: report["heartbeat"][name] for name in ("fresh", "healthy", "paused")} == {
        "fresh": True,
        "healthy": True,
        "paused": False,
    }
    assert (report["database"]["connected"], report["database"]["tz"]) == (True, "+00:00")
    folders = {name: value for name, value in report["folders"].items() if isinstance(value, dict)}
    assert set(folders) == FOLDERS
    assert all(folder["exists"] and folder["readable"] and folder["writable"] for folder in folders.values())
    assert (folders["inbox"]["files"], folders["logs"]["folders"]) == (1, 1)
    for disk in (report["disk"]["state_dir"], report["disk"]["drive"]):
        assert disk["total"] >= disk["used"] + disk["free"] > 0
        assert 0 <= disk["percent"] <= 100
    assert any("started" in line for line in report["log"]["lines"])
    assert (report["pending_flags"]["count"], report["pending_flags"]["for_others"]) == (0, 1)
    assert [row["action"] for row in report["audit"]["rows"]] == ["RESTART_WATCHER"]
    assert {"SQLAlchemy", "psutil"} <= set(report["versions"]["libraries"])
    git = report["git"]
    assert (git["branch"], git["dirty"], git["ahead"], git["behind"]) == ("main", False, 0, 0)
    assert re.fullmatch("[0-9a-f]{40}", git["head"])
    assert re.match(rf"OrionMX has been running for .* \(pid {pid}\); healthy", answer["details"]["message"])
    assert len(answer["details"]["message"]) < 300, "a card shows so much"


def test_diagnostics_with_label(reporting: Home) -> None:
    """By flag, in a pass, of a worker that does not run: the report is written all the same."""
    reporting.drop_flag("supervisor_diagnostics_OrionMX_t1.flag", {"label": "before the upgrade"})
    reporting.supervisor("once", "--worker-id", "OrionMX")
    answer = reporting.result("diagnostics", "t1")
    assert answer is not None
    assert answer["success"] is True
    name = Path(answer["details"]["report_path"]).name
    assert re.fullmatch(rf"diagnostics_OrionMX_{STAMP}_before_the_upgrade\.json", name)
    report = the_report(answer)
    assert (report["label"], report["task_id"]) == ("before the upgrade", "t1")
    assert report["audit_label"].endswith(" - before the upgrade")
    assert (report["process"]["running"], report["process"]["pid"]) == (False, None)
    assert (report["heartbeat"]["healthy"], report["heartbeat"]["found"]) == (False, False)
    assert report["unknown_parts"] == ["log"], "the worker never ran, so it wrote nothing"
    (row,) = reporting.audit("t1")
    assert (row["action"], row["outcome"], row["label"]) == ("DIAGNOSTICS", "success", report["audit_label"])
    log = (reporting.state_dir / "supervisor.log").read_text()
    assert "[t1 - before the upgrade] diagnostics of OrionMX succeeded" in log


def test_verify_db_all_tests_pass(tmp_path: Path, database_url: str) -> None:
    make_tables(database_url)
    with with_database(tmp_path, database_url) as home:
        answer = verified(home)
        tables = [f"table {name}" for name in (*OUR_TABLES, *ARCHIVE_TABLES)]
        assert passed(answer) == dict.fromkeys(["connection", "time and name", *tables, "time zone"], True)
        assert (answer["success"], answer["error"]) == (True, None)
        details = answer["details"]
        assert details["tz"] == "+00:00"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", details["db_time"])
        assert details["db_name"] == Path(make_url(database_url).database or "").name
        said = {test["name"]: test["message"] for test in details["tests"]}
        assert said["table containers_t"] == "2 rows"
        assert all(test["duration_seconds"] >= 0 for test in details["tests"])
        path = Path(details["report_path"])
        assert re.fullmatch(rf"db_verification_OrionMX_{STAMP}\.json", path.name)
        assert path.parent == home.nas / "05_LOGS" / "diagnostics"
        assert the_report(answer)["tests"] == details["tests"]


def test_verify_db_connection_fails(tmp_path: Path, database_url: str) -> None:
    """Away, on each engine: in words, with a remedy, and without the password."""
    away = make_url(database_url).set(database="hunter2_is_away")
    if away.get_backend_name() == "sqlite":
        away = away.set(database=str(tmp_path / "nowhere" / "fleet.db"))
    with with_database(tmp_path, away.render_as_string(hide_password=False)) as home:
        answer = verified(home)
        assert answer["success"] is False
        assert answer["error"].startswith("The database can't be reached: ")
        assert "Check that the server is up and database.url is right." in answer["error"]
        assert (answer["details"]["db_time"], answer["details"]["tz"]) == (None, None)
        assert not any(passed(answer).values())
        asked = [test["message"] for test in answer["details"]["tests"][1:]]
        assert set(asked) == {"skipped: no connection"}
        assert the_report(answer)["passed"] is False
        (row,) = home.audit("v1")
        assert (row["action"], row["outcome"]) == ("VERIFY_DB", "failure")


def test_verify_db_with_label(tmp_path: Path, database_url: str) -> None:
    make_tables(database_url)
    with with_database(tmp_path, database_url) as home:
        answer = verified(home, label="after maintenance")
        name = Path(answer["details"]["report_path"]).name
        assert re.fullmatch(rf"db_verification_OrionMX_{STAMP}_after_maintenance\.json", name)
        assert the_report(answer)["label"] == "after maintenance"
        (row,) = home.audit("v1")
        assert row["label"].endswith(" - after maintenance")


def test_update_code_runs_git_pull(coded: tuple[Home, Clones]) -> None:
    home, code = coded
    old, before = working(home), code.checkout.head
    first = code.comes_in({"watcher.py": "print('four')\n"}, "Count on")
    newest = code.comes_in({"new/file.txt": "here\n"}, "Add a file")
    result = carry_out(home, "update_code")
    assert (result["success"], code.checkout.head, code.checkout.on_disk()) == (True, newest, code.colleague.on_disk())
    told = audited(home, result, "success", ME)
    assert (told["up_to_date"], told["before"], told["after"]) == (False, before, newest)
    assert [commit["hash"] for commit in told["commits"]] == [newest, first]
    assert {file["path"]: file["change"] for file in told["files"]} == {
        "watcher.py": "changed",
        "new/file.txt": "added",
    }
    new = restarted(home, old, result)
    again = carry_out(home, "update_code")
    assert (again["success"], again["details"]["up_to_date"], again["details"]["after"]) == (True, True, newest)
    assert home.running_copies("OrionMX") == [new], "with nothing to pull, nobody is touched"


def test_update_code_with_label(coded: tuple[Home, Clones]) -> None:
    home, code = coded
    old = working(home)
    code.comes_in({"watcher.py": "print('four')\n"})
    result = carry_out(home, "update_code", "new parser")
    labelled(home, result, "new parser")
    assert result["details"]["label"] == "new parser"
    restarted(home, old, result)
    assert f"[{result['task_id']} - new parser] git merge in {code.checkout.folder}" in log_of(home)


def test_rollback_code_single_commit(coded: tuple[Home, Clones]) -> None:
    home, code = coded
    old, before = working(home), code.checkout.head
    result = carry_out(home, "rollback_code")
    assert code.checkout.on_disk() == code.checkout.files() == STRAIGHT.back(1).files
    assert code.checkout.log() == [code.checkout.head, *(commit.hash for commit in STRAIGHT.line)]
    words = message(code.checkout)
    assert words.startswith(f'Revert "Change 5"\n\nThis reverts commit {before}.\n')
    assert words.endswith(f"Requested by {ME}.\n\nSupervisor-Task: {result['task_id']}\n")
    assert by(code.checkout) == {WHO}, "whoever is configured for the supervisor, and not on the host"
    told = audited(home, result, "success", ME)
    assert (told["starting_commit"], told["final_commit"]) == (before, code.checkout.head)
    assert (told["commits_reverted"], told["reverted_commits"], told["failed_commit"]) == (1, [before], None)
    assert (told["success"], told["error"], told["label"]) == (True, None, None)
    assert code.origin.head == before, "it stays on the host"
    restarted(home, old, result)


def test_rollback_code_multiple_commits(coded: tuple[Home, Clones]) -> None:
    """Each is taken back by a commit of its own, newest first; a second rollback counts these."""
    home, code = coded
    old = working(home)
    result = carry_out(home, "rollback_code", commits_back=3)
    taken = [commit.hash for commit in STRAIGHT.line[:3]]
    assert (result["success"], result["details"]["reverted_commits"]) == (True, taken)
    assert code.checkout.on_disk() == STRAIGHT.back(3).files
    assert (code.checkout.status(), len(code.checkout.log())) == ("", 5 + 3)
    for reverted, made in zip(taken, reversed(code.checkout.log()[:3]), strict=True):
        assert f"This reverts commit {reverted}." in message(code.checkout, made)
    restarted(home, old, result)
    carry_out(home, "pause")
    again = carry_out(home, "rollback_code", commits_back=3)
    assert (code.checkout.on_disk(), rests(home, again)) == (STRAIGHT.head.files, True)


def test_rollback_code_failed_revert(tmp_path: Path) -> None:
    """The first revert goes through and stays; the second fails, and leaves nothing behind."""
    code = with_broken_filter(tmp_path / "code").checkout
    newest, second, *older = code.log()
    with a_code_home(tmp_path / "home", code.folder) as home:
        old = working(home)
        result = carry_out(home, "rollback_code", code=1, commits_back=3)
        assert not result["success"]
        told = audited(home, result, "failure", ME)
        assert (told["starting_commit"], told["final_commit"], told["failed_commit"]) == (newest, code.head, second)
        assert (told["commits_reverted"], told["reverted_commits"], told["error"]) == (1, [newest], result["error"])
        for words in (second[:7], BROKEN, "1 newer commit stayed reverted", f"undo OrionMX {result['task_id']}"):
            assert words in result["error"]
        assert code.log() == [code.head, newest, second, *older]
        assert f"This reverts commit {newest}." in message(code)
        assert (picture(code).under_way, code.status()) == ((), "")
        assert code.files() == code.on_disk()
        restarted(home, old, result)


def test_rollback_code_invalid_parameter(coded: tuple[Home, Clones]) -> None:
    """No number out of 1 to 10: refused at the door. More than there are: before the worker is touched."""
    home, code = coded
    old, before = working(home), picture(code.checkout)
    for wrong in (0, 11, "three"):
        result = carry_out(home, "rollback_code", code=1, commits_back=wrong)
        assert (result["success"], "commits_back" in result["error"]) == (False, True), wrong
        assert [(row["action"], row["outcome"]) for row in home.audit(result["task_id"])] == [("REFUSED", "failure")]
    too_many = carry_out(home, "rollback_code", code=1, commits_back=5)
    assert "can't be rolled back by 5 commits: it has only 5" in too_many["error"]
    told = audited(home, too_many, "failure", ME)
    assert (told["commits_reverted"], told["reverted_commits"], told["success"]) == (0, [], False)
    assert picture(code.checkout) == before
    assert home.running_copies("OrionMX") == [old]


def test_rollback_code_with_label(coded: tuple[Home, Clones]) -> None:
    home, code = coded
    result = carry_out(home, "rollback_code", "hotfix", commits_back=2)
    labelled(home, result, "hotfix")
    assert result["details"]["label"] == "hotfix"
    assert all(f"Requested by {ME} - hotfix." in message(code.checkout, made) for made in code.checkout.log()[:2])
    assert f"[{result['task_id']} - hotfix] git revert in " in log_of(home)
