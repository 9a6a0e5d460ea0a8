"""The handlers, end to end: real processes, real repositories, real databases, the real programs."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from sqlalchemy import create_engine, make_url, text

from supervisor_core.adapters import is_watcher_paused, read_heartbeat_file, write_supervisor_heartbeat_file
from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.config import load_supervisor_config
from supervisor_core.demo.repository import make_repository
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.jobs import Job, JobState
from supervisor_core.handlers import generate_diagnostics
from supervisor_core.handlers.diagnostics import PART_SECONDS
from supervisor_core.ledger import schema
from supervisor_core.ledger.engine import shared_engine
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.host import opened_ledger
from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until

ME = getpass.getuser()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def state(home: Home) -> Path:
    """The folder of pause flags and heartbeats."""
    return home.nas / "00_STATE"


def carry_out(home: Home, handler: str, label: str | None = None, code: int | None = 0) -> dict[str, Any]:
    """Drop a flag, run a pass, and see its result."""
    task_id = f"task_{handler}_{len(list(home.outbox.glob('*'))) if home.outbox.exists() else 0}"
    home.drop_flag(f"supervisor_{handler}_OrionMX_{task_id}.flag", {"label": label} if label else {})
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert code is None or done.returncode == code, done.stderr
    result = home.result(handler, task_id)
    assert result is not None, done.stderr
    return result


def log_of(home: Home) -> str:
    """What the passes logged."""
    return (home.state_dir / "supervisor.log").read_text()


def labelled(home: Home, result: dict[str, Any], label: str) -> None:
    """The label is in the result, in the audit trail behind who asked, and in the lines of the log."""
    assert result["label"] == label
    (row,) = home.audit(result["task_id"])
    assert row["label"] == f"{ME} - {label}"
    assert json.loads(row["details_json"])["label"] == label
    lines = [line for line in log_of(home).splitlines() if result["task_id"] in line]
    assert any(f"[{result['task_id']} - {label}]" in line for line in lines), lines


def working(home: Home) -> int:
    """The worker, brought up by a pass and seen to beat; its PID."""
    assert home.supervisor("once", "--heal").returncode == 0
    (pid,) = home.running_copies("OrionMX")
    wait_until(lambda: beat(home).get("pid") == pid, 10, "the worker beats")
    return pid


def beat(home: Home) -> dict[str, Any]:
    """What the worker last said of itself."""
    return read_heartbeat_file(state(home) / "watcher_heartbeat_OrionMX.json") or {}


def rows(home: Home) -> dict[str, dict[str, Any]]:
    """`workers_t`, as another program reads it."""
    connection = sqlite3.connect(home.state_dir / "ledger.db")
    connection.row_factory = sqlite3.Row
    try:
        return {row["worker_id"]: dict(row) for row in connection.execute("SELECT * FROM workers_t")}
    finally:
        connection.close()


def test_pause_watcher_flag_created(home: Home) -> None:
    working(home)
    result = carry_out(home, "pause")
    assert (result["success"], result["error"], result["details"]["ending"]) == (True, None, "graceful")
    assert is_watcher_paused(state(home), "OrionMX")
    flag = json.loads((state(home) / "supervisor_pause_OrionMX.flag").read_text())
    assert (flag["worker_id"], flag["by"], flag["task_id"]) == ("OrionMX", f"file:{ME}", result["task_id"])
    assert home.everybody() == []
    assert "stopped after" in (home.nas / "05_LOGS/workers/OrionMX.log").read_text(), "what was in hand was finished"
    assert home.supervisor("once", "--heal").returncode == 0
    assert home.running_copies("OrionMX") == [], "nothing starts it by itself"


def test_pause_watcher_with_label(home: Home) -> None:
    working(home)
    result = carry_out(home, "pause", "disk is full")
    labelled(home, result, "disk is full")
    flag = json.loads((state(home) / "supervisor_pause_OrionMX.flag").read_text())
    assert flag["label"] == f"{ME} - disk is full"


def test_pause_watcher_already_paused(home: Home) -> None:
    first = carry_out(home, "pause", "first")
    flag = (state(home) / "supervisor_pause_OrionMX.flag").read_text()
    again = carry_out(home, "pause", "again")
    assert (again["success"], again["details"]["already_paused"]) == (True, True)
    said = json.loads(flag)
    assert f"already paused by {ME} - first since " in again["details"]["message"]
    details = again["details"]
    assert (details["by"], details["at"], details["task_id"]) == (f"file:{ME}", said["at"], first["task_id"])
    assert (state(home) / "supervisor_pause_OrionMX.flag").read_text() == flag


def test_resume_watcher_flag_deleted(home: Home) -> None:
    carry_out(home, "pause")
    result = carry_out(home, "resume")
    assert (result["success"], result["details"]["was_paused"]) == (True, True)
    assert not is_watcher_paused(state(home), "OrionMX")
    assert home.running_copies("OrionMX") == [result["details"]["pid"]]


def test_resume_watcher_with_label(home: Home) -> None:
    carry_out(home, "pause", "disk is full")
    labelled(home, carry_out(home, "resume", "disk is cleared"), "disk is cleared")


def test_resume_watcher_already_running(home: Home) -> None:
    pid = working(home)
    result = carry_out(home, "resume")
    assert (result["success"], result["details"]["already_running"], result["details"]["pid"]) == (True, True, pid)
    assert home.running_copies("OrionMX") == [pid]


def test_resume_watcher_that_dies_at_once_is_a_failure_with_the_end_of_its_stderr(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo before; echo no such table: pages_t >&2; exit 3"]
    with a_home(tmp_path / "home", {"OrionMX": {"command": command, "start_grace_seconds": 5}}) as home:
        carry_out(home, "pause")
        result = carry_out(home, "resume", code=1)
        assert not result["success"]
        assert "exit code 3" in result["error"]
        assert "no such table: pages_t" in result["error"]
        assert "is not paused any more, but could not be started" in result["error"]
        assert result["details"]["was_paused"]
        (row,) = home.audit(result["task_id"])
        assert (row["action"], row["outcome"]) == ("RESUME", "failure")


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


@pytest.mark.parametrize("words", ["ignore-term", "fork", "daemonize"])
def test_pause_ends_a_worker_that_ignores_term_and_one_that_forks(tmp_path: Path, words: str) -> None:
    worker = {"command": demo_command("--misbehave", words), "start_grace_seconds": 0.2, "stop_timeout_seconds": 1}
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        working(home)
        result = carry_out(home, "pause")
        assert result["success"], result
        assert result["details"]["killed"], "somebody did not end when asked"
        assert home.everybody() == []


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


def test_heartbeat_file_says_how_the_pass_went(home: Home) -> None:
    path = state(home) / "supervisor_heartbeat_OrionMX.json"
    assert home.supervisor("once").returncode == 1
    said = json.loads(path.read_text())
    assert set(said) == {"supervisor_id", "worker_id", "timestamp", "success", "error", "actions"}
    assert (said["supervisor_id"], said["worker_id"], said["success"]) == ("TestHost", "OrionMX", False)
    assert "OrionMX is missing" in said["error"]
    carry_out(home, "pause")
    said = json.loads(path.read_text())
    assert (said["success"], said["error"], said["actions"]) == (True, None, ["pause"])


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
    wait_until(lambda: beat(home)["utc"] > its["last_heartbeat_at"], 10, "it beats again")
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


# --- the reports: diagnostics and verify_db ---

ARCHIVE_TABLES = ("containers_t", "segments_t", "publication_instances_t", "pages_t")
OUR_TABLES = ("jobs_t", "workers_t", "audit_log_t")
FOLDERS = {"state", "raw", "work", "reference", "publish", "logs", "inbox", "outbox"}
STAMP = r"\d{8}T\d{6}Z"
SECRET = "hunter2'\"secret\\ü"  # with everything that is spelt differently in JSON, Python and addresses
URL_PASSWORD = "p@ss word%2F1"
SLACK_TOKEN = "xapp-1-A0APP-123456789-abcdef"


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[Home]:
    """A home whose worker runs under a daemon, with its code in a checkout."""
    made = make_repository(_folder(tmp_path / "code"))
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "code": {"path": str(made.checkout)}}
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        yield home


def _folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def told(home: Home, words: str) -> dict[str, Any]:
    """A command sent and waited for: what it told."""
    answer: dict[str, Any] = home.json("send", words, "--wait")
    return answer


def the_report(answer: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(Path(answer["details"]["report_path"]).read_text())
    return report


def passed(answer: dict[str, Any]) -> dict[str, bool]:
    return {test["name"]: test["passed"] for test in answer["details"]["tests"]}


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
    assert answer["details"]["message"].startswith(f"OrionMX runs as pid {pid}")
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


def test_two_reports_in_one_second_are_two_files(reporting: Home) -> None:
    for number in (1, 2):
        reporting.drop_flag(f"supervisor_diagnostics_OrionMX_t{number}.flag", {})
    reporting.supervisor("once", "--worker-id", "OrionMX")
    results = [reporting.result("diagnostics", f"t{number}") for number in (1, 2)]
    paths = {result["details"]["report_path"] for result in results if result}
    assert len(paths) == 2
    assert all(Path(path).exists() for path in paths)


def test_a_report_names_what_hangs_on_the_worker_and_what_is_wrong_with_its_code(tmp_path: Path) -> None:
    made = make_repository(_folder(tmp_path / "code"))
    (made.checkout / "watcher.py").write_text("changed")
    (made.checkout / "new file").write_text("")
    command = ["{python}", "-c", "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"]
    worker = {"command": command, "start_grace_seconds": 0.5, "code": {"path": str(made.checkout)}}
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        home.supervisor("once", "--heal")
        report = the_report_of_a_pass(home)
    (child,) = report["process"]["children"]
    assert (child["name"], report["process"]["children_count"]) == ("sleep", 1)
    assert child["memory_bytes"] > 0
    git = report["git"]
    assert (git["dirty"], git["changes"]) == (True, ["watcher.py", "new file"])
    assert (git["changed_count"], git["untracked_count"]) == (1, 1)


def the_report_of_a_pass(home: Home) -> dict[str, Any]:
    assert home.supervisor("send", "diagnostics").returncode == 0
    home.supervisor("once", "--worker-id", "OrionMX")
    (path,) = (home.nas / "05_LOGS" / "diagnostics").iterdir()
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def test_a_report_holds_no_secret_wherever_it_was_planted(tmp_path: Path) -> None:
    made = make_repository(_folder(tmp_path / "code"))
    address = "postgresql+psycopg://me:p%40ss%20word%252F1@127.0.0.1:1/fleet"
    spelt = [SECRET, URL_PASSWORD, "p%40ss%20word%252F1", address, json.dumps(SECRET), repr(SECRET)]
    spelt += [f"https://bot:{word}@example.org/x" for word in ("other-pass-1", "other/pass@2")]
    spelt += [SLACK_TOKEN, "xoxb-99999-nobody-configured-this"]
    git_config = made.checkout / ".git" / "config"
    git_config.write_text(git_config.read_text().replace(str(made.origin), "https://bot:other-pass-3@example.org/x"))
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "--allow-empty", "-m", SECRET],
        cwd=made.checkout,
        check=True,
    )
    (made.checkout / f"{SECRET} file").write_text("")
    worker = {
        "command": demo_command(),
        "env": {"API_KEY": SECRET},
        "code": {"path": str(made.checkout)},
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}, inbox={"secret": SECRET}, database={"url": address}) as home:
        (home.folder / ".env").write_text(f"SLACK_APP_TOKEN={SLACK_TOKEN}\n")
        logs, state = home.nas / "05_LOGS" / "workers", home.nas / "00_STATE"
        logs.mkdir(parents=True)
        state.mkdir()
        (logs / "OrionMX.log").write_text("\n".join(f"line {number}: {each}" for number, each in enumerate(spelt)))
        beat = {"status": f"ill {SECRET}", "utc": "2026-02-05T14:30:15Z", "errors": spelt}
        (state / "watcher_heartbeat_OrionMX.json").write_text(json.dumps(beat))
        (state / "supervisor_pause_OrionMX.flag").write_text(json.dumps({"by": SECRET, "label": URL_PASSWORD}))
        with opened_ledger(load_supervisor_config(home.config)) as ledger:
            details = {"said": spelt, SECRET: [{"deep": spelt}]}
            ledger.audit(AuditEntry(f"cli:{SECRET}", "PAUSE", "OrionMX", label=SECRET, details=details))
        report = the_report_of_a_pass(home)
        (path,) = (home.nas / "05_LOGS" / "diagnostics").iterdir()
        written = [path.read_text(), *(each.read_text() for each in home.outbox.iterdir())]
    assert "****" in report["log"]["lines"][0]
    assert len(report["log"]["lines"]) == len(spelt)
    assert "PAUSE" in [row["action"] for row in report["audit"]["rows"]]
    assert (report["git"]["untracked_count"], report["git"]["subject"]) == (1, "****")
    planted = {SECRET, json.dumps(SECRET)[1:-1], json.dumps(json.dumps(SECRET)[1:-1])[1:-1], "hunter2", URL_PASSWORD}
    planted |= {
        "p%40ss",
        "word%2F1",
        "word%252F1",
        "other-pass-1",
        "other/pass",
        "pass@2",
        "other-pass-3",
        SLACK_TOKEN,
        "xoxb-99999",
    }
    assert [(secret, text) for secret in planted for text in written if secret in text] == []


def test_a_report_stays_small_whatever_the_log_is(reporting: Home) -> None:
    """A line of 100 MB of which the last is a whole line, and a log that is one line alone."""
    log = reporting.nas / "05_LOGS" / "workers" / "OrionMX.log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(100_000_000)
        file.seek(0, 2)
        file.write(b"\nthe \x1b[31mlast\xff one\n")
    report = the_report_of_a_pass(reporting)
    assert report["log"]["lines"] == ["the \\x1b[31mlast\N{REPLACEMENT CHARACTER} one"]
    assert report["log"]["size_bytes"] > 100_000_000
    with log.open("r+b") as file:
        file.truncate(100_000_000)
    reporting.supervisor("send", "diagnostics again")
    reporting.supervisor("once", "--worker-id", "OrionMX")
    (again,) = (reporting.nas / "05_LOGS" / "diagnostics").glob("*_again.json")
    assert len(json.loads(again.read_text())["log"]["lines"][0]) == 2000
    assert again.stat().st_size < 100_000


def test_without_the_drive_the_report_lies_at_home_and_says_what_could_not_be_asked(reporting: Home) -> None:
    reporting.start_daemon()
    reporting.nas.rename(reporting.folder / "unmounted")
    answer = told(reporting, "diagnostics drive is away")
    reporting.folder.joinpath("unmounted").rename(reporting.nas)
    assert answer["success"] is True
    path = Path(answer["details"]["report_path"])
    assert path.parent == reporting.state_dir / "diagnostics"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "The drive is not there" in answer["details"]["drive"]
    report = the_report(answer)
    assert report["unknown_parts"] == ["heartbeat", "folders", "log", "pending_flags"]
    assert "The drive is not there" in report["folders"]["error"]
    assert (report["disk"]["state_dir"]["total"] > 0, report["disk"]["drive"]["ok"]) == (True, False)
    assert (report["process"]["running"], report["database"]["connected"]) == (True, True)


def test_a_drive_that_hangs_delays_no_report(tmp_path: Path) -> None:
    """Here nothing else is there either: no ledger, no checkout, no worker. Each says so, and the report is written."""
    (tmp_path / "var").mkdir()
    (tmp_path / "nas").mkdir()
    document = {"supervisor": {"state_dir": "var"}, "nas": {"root": "nas"}, "workers": {"OrionMX": {"command": ["x"]}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    host = open_doors(load_supervisor_config(tmp_path / "config.yaml", environ={}))
    back = threading.Event()
    with pytest.raises(DriveUnavailable):
        host.drive.call(back.wait, timeout=0.01)
    issuer, filed_at = Issuer("cli:anna", "anna"), datetime.now(UTC)
    job = Job(1, "Host", "t1", "OrionMX", "diagnostics", {}, None, issuer, "cli", JobState.STARTED, filed_at)
    outcome = generate_diagnostics(host, job)
    back.set()
    assert outcome.success
    report = json.loads(Path(outcome.details["report_path"]).read_text())
    assert report["seconds"] < PART_SECONDS
    assert report["unknown_parts"] == ["heartbeat", "folders", "log", "pending_flags", "queue", "audit"]
    assert "hangs" in report["folders"]["error"]
    assert "unable to open database file" in report["audit"]["error"]
    assert (report["process"]["running"], report["database"]["connected"]) == (False, False)
    assert outcome.details["message"].endswith("Not known: heartbeat, folders, log, pending flags, queue, audit")


def make_tables(url: str, names: Sequence[str] = ARCHIVE_TABLES) -> None:
    """Our own by migrations, the archive's by hand, with two rows in each."""
    engine = shared_engine(url)
    schema.ensure(engine)
    with engine.begin() as connection:
        for name in names:
            connection.execute(text(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)"))
            connection.execute(text(f"INSERT INTO {name} VALUES (1), (2)"))
    engine.dispose()


@contextmanager
def with_database(folder: Path, url: str, **database: Any) -> Iterator[Home]:
    # The socket counts, but the configuration asks for a host all the same.
    named = make_url(url).set(host="localhost").render_as_string(hide_password=False) if "psycopg" in url else url
    settings = {"url": named, "critical_tables": [*OUR_TABLES, *ARCHIVE_TABLES], **database}
    with a_home(folder / "home", {"OrionMX": {"command": demo_command()}}, database=settings) as home:
        yield home


def verified(home: Home, task_id: str = "v1", label: str | None = None) -> dict[str, Any]:
    """Verify in a pass; its result file."""
    home.drop_flag(f"supervisor_verify_db_OrionMX_{task_id}.flag", {"label": label})
    home.supervisor("once", "--worker-id", "OrionMX")
    result = home.result("verify_db", task_id)
    assert result is not None
    return result


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


def test_without_a_shared_database_the_ledger_is_verified(reporting: Home) -> None:
    reporting.start_daemon()
    answer = told(reporting, "verify-db")
    assert answer["success"] is True
    details = answer["details"]
    assert (details["database"], details["db_name"], details["tz"]) == ("the ledger", "ledger.db", "+00:00")
    assert [name for name in passed(answer) if name.startswith("table")] == [f"table {name}" for name in OUR_TABLES]


def test_verify_db_connection_fails(tmp_path: Path, database_url: str) -> None:
    """Away, on each engine: in words, with a remedy, and without the password."""
    away = make_url(database_url).set(database="hunter2_is_away")
    if away.get_backend_name() == "sqlite":
        away = away.set(database=str(tmp_path / "nowhere" / "fleet.db"))
    with with_database(tmp_path, away.render_as_string(hide_password=False)) as home:
        answer = verified(home)
        assert answer["success"] is False
        assert answer["error"].startswith("The database can't be reached: ")
        assert "Is the server up, and database.url right?" in answer["error"]
        assert (answer["details"]["db_time"], answer["details"]["tz"]) == (None, None)
        assert not any(passed(answer).values())
        asked = [test["message"] for test in answer["details"]["tests"][1:]]
        assert set(asked) == {"not asked: there is no connection"}
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


def test_a_missing_table_is_a_failed_test_and_the_others_are_asked(tmp_path: Path, database_url: str) -> None:
    make_tables(database_url, ARCHIVE_TABLES[1:])
    with with_database(tmp_path, database_url) as home:
        answer = verified(home)
        failed = [name for name, well in passed(answer).items() if not well]
        assert failed == ["table containers_t"]
        assert "containers_t" in answer["error"]
        assert answer["details"]["tz"] == "+00:00"


@contextmanager
def locked_table(url: str) -> Iterator[Callable[[], None]]:
    """While it lasts, `containers_t` can't be read; yields what kills the connections that wait for it."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    kind = engine.dialect.name
    try:
        with engine.connect() as holder, engine.connect() as other:
            if kind == "postgresql":
                holder.execute(text("BEGIN"))
                holder.execute(text("LOCK TABLE containers_t IN ACCESS EXCLUSIVE MODE"))
            elif kind == "sqlite":
                holder.execute(text("PRAGMA journal_mode = DELETE"))
                holder.execute(text("BEGIN EXCLUSIVE"))
            else:
                holder.execute(text("LOCK TABLES containers_t WRITE"))

            def kill() -> None:
                if kind == "postgresql":
                    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%count%'"
                    (pid,) = wait_until(lambda: other.execute(text(query)).scalars().all(), 20, "it waits")
                    other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
                else:
                    query = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
                    (pid,) = wait_until(lambda: other.execute(text(query)).scalars().all(), 20, "it waits")
                    other.execute(text(f"KILL {pid}"))

            yield kill
            holder.execute(text("UNLOCK TABLES" if kind in ("mysql", "mariadb") else "ROLLBACK"))
    finally:
        engine.dispose()


def test_a_slow_table_fails_in_its_time_and_alone(tmp_path: Path, database_url: str) -> None:
    """SQLite locks its whole file, so there it is not alone; it fails in its time all the same."""
    make_tables(database_url)
    only = [*OUR_TABLES[:1], "containers_t"]
    with with_database(tmp_path, database_url, query_timeout_seconds=0.6, critical_tables=only) as home:
        with locked_table(database_url):
            answer = verified(home)
        assert answer["success"] is False
        slow = next(test for test in answer["details"]["tests"] if not test["passed"])
        assert slow["duration_seconds"] < 8
        if "sqlite" not in database_url:
            assert [name for name, well in passed(answer).items() if not well] == ["table containers_t"]
            assert slow["duration_seconds"] >= 0.5


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_killed_in_the_middle_fails_one_test_and_the_next_has_another(
    tmp_path: Path, database_url: str
) -> None:
    make_tables(database_url)
    with with_database(tmp_path, database_url) as home:
        home.start_daemon()
        with locked_table(database_url) as kill:
            sent = home.json("send", "verify-db")
            kill()
            answer = wait_until(lambda: home.result("verify_db", sent["task_id"]), 40, "there is a result")
        assert answer is not None
        assert [name for name, well in passed(answer).items() if not well] == ["table containers_t"]


@contextmanager
def frozen_server(url: str) -> Iterator[None]:
    """The server's processes, all of them, stopped by a signal."""
    query = make_url(url).query
    place = Path(str(query["host"])) if "host" in query else Path(str(query["unix_socket"])).parent
    pid_file = place / ("postmaster.pid" if "host" in query else "pid")
    server = psutil.Process(int(pid_file.read_text().split()[0]))
    processes = [server, *server.children(recursive=True)]
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_a_frozen_server_holds_nobody_up(tmp_path: Path, database_url: str) -> None:
    make_tables(database_url)
    with with_database(tmp_path, database_url, query_timeout_seconds=1) as home:
        with frozen_server(database_url):
            answer = verified(home)
            home.drop_flag("supervisor_diagnostics_OrionMX_d1.flag", {})
            home.supervisor("once", "--worker-id", "OrionMX")
        assert answer["error"].startswith("The database can't be reached: ")
        assert sum(test["duration_seconds"] for test in answer["details"]["tests"]) < 20
        diagnostics = home.result("diagnostics", "d1")
        assert diagnostics is not None
        assert (diagnostics["success"], diagnostics["details"]["database_connected"]) == (True, False)
        assert verified(home, "v2")["success"] is True, "it answers again"
