"""Diagnostics: the report names what there is, holds no secret, and is written whatever hangs."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from supervisor_core.commands.command import Issuer
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.demo.repository import make_repository
from supervisor_core.diagnosis.reports.handlers import PART_SECONDS, generate_diagnostics
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.workers.context import open_doors
from tests.support.diagnosis.reports import (
    a_reporting_home,
    the_report,
    the_report_of_a_pass,
    told,
    with_database,
)
from tests.support.homes import Home, a_home, demo_command

SECRET = "hunter2'\"secret\\ü"  # with everything that is spelt differently in JSON, Python and addresses
URL_PASSWORD = "p@ss word%2F1"
SLACK_TOKEN = "xapp-1-A0APP-123456789-abcdef"


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[Home]:
    """A home whose worker has its code in a checkout."""
    with a_reporting_home(tmp_path) as home:
        yield home


def test_two_reports_in_one_second_are_two_files(reporting: Home) -> None:
    for number in (1, 2):
        reporting.drop_flag(f"supervisor_diagnostics_OrionMX_t{number}.flag", {})
    reporting.supervisor("once", "--worker-id", "OrionMX")
    results = [reporting.result("diagnostics", f"t{number}") for number in (1, 2)]
    paths = {result["details"]["report_path"] for result in results if result}
    assert len(paths) == 2
    assert all(Path(path).exists() for path in paths)


def test_a_report_names_what_hangs_on_the_worker_and_what_is_wrong_with_its_code(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    made = make_repository(tmp_path / "code")
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


def test_a_report_holds_no_secret_wherever_it_was_planted(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    made = make_repository(tmp_path / "code")
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
        logs, state = home.output("OrionMX").parent, home.nas / "00_STATE"
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
    log = reporting.output("OrionMX")
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
    assert "The drive isn't mounted" in answer["details"]["drive"]
    report = the_report(answer)
    assert report["unknown_parts"] == ["heartbeat", "folders", "pending_flags"]
    assert "The drive isn't mounted" in report["folders"]["error"]
    assert (report["disk"]["state_dir"]["total"] > 0, report["disk"]["drive"]["ok"]) == (True, False)
    assert (report["process"]["running"], report["database"]["connected"]) == (True, True)


def test_a_drive_that_hangs_delays_no_report(tmp_path: Path) -> None:
    """Here nothing else is there either: no ledger, no checkout, no worker. Each says so, and the report is written."""
    (tmp_path / "var").mkdir()
    (tmp_path / "nas").mkdir()
    document = {
        "supervisor": {"state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {"OrionMX": {"command": ["x"]}},
    }
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
    assert outcome.details["message"].endswith("Unknown: heartbeat, folders, log, pending flags, queue, audit")


def test_a_report_says_that_the_shared_database_can_not_be_reached_and_why(tmp_path: Path, database_url: str) -> None:
    """The server is there, and the database on it is not: the time and name of none are told."""
    away = make_url(database_url).set(database="hunter2_is_away")
    if away.get_backend_name() == "sqlite":
        away = away.set(database=str(tmp_path / "nowhere" / "fleet.db"))
    with with_database(tmp_path, away.render_as_string(hide_password=False)) as home:
        report, details = diagnosed(home)
    found = report["database"]
    assert (found["ok"], found["connected"], details["database_connected"]) == (True, False, False)
    assert (found["db_time"], found["db_name"], found["tz"]) == (None, None, None)
    assert f"the database can't be reached: {found['message']}" in details["message"]
    assert found["message"]


def diagnosed(home: Home) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of a pass that was told to diagnose by a flag, and the details of its result."""
    home.drop_flag("supervisor_diagnostics_OrionMX_d1.flag", {})
    home.supervisor("once", "--worker-id", "OrionMX")
    result = home.result("diagnostics", "d1")
    assert result is not None
    assert result["success"] is True
    return the_report(result), result["details"]


def test_a_report_names_all_folders_and_all_files_that_wait(tmp_path: Path) -> None:
    worker = {"command": demo_command(), "env": {"ARCHIVE": str(tmp_path / "home"), "STATE": "00_STATE"}}
    with a_home(tmp_path / "home", {"OrionMX": worker}, nas={"root": "nas", "layout": "cornerstone"}) as home:
        inbox = home.nas / "Worker_Inbox"
        inbox.mkdir()
        names = ["job_1.json", "supervisor_pause_Other.flag", "notes.txt"]
        for name in names:
            (inbox / name).write_text("{}")
        missing = home.nas / "03_REFERENCE"
        missing.symlink_to(tmp_path / "nowhere")
        report = the_report_of_a_pass(home)
        assert report["folders"]["state"]["path"] == str(home.nas / "00_STATE")
        assert report["folders"]["root"] == str(home.nas)
        assert report["disk"]["state_dir"]["path"] == str(home.state_dir)
        assert set(names) <= set(report["pending_flags"]["files"])
        assert (report["folders"]["missing"], report["folders"]["missing_count"]) == (["reference"], 1)
