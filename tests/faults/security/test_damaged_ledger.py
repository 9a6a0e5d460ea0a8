"""A damaged ledger: everybody says so in one line with what to do, workers go on, and pauses hold."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.daemon.services.retention import RetentionChore
from supervisor_core.storage.ledger_errors import LedgerDamaged, ledger_error
from tests.support.code.code_homes import a_code_host
from tests.support.homes import Home, a_home, demo_command
from tests.support.storage.damage import overwrite
from tests.support.waiting import wait_until

DAMAGE = ("header", "middle", "everything", "jobs_t")
COMMANDS = (
    ["send", "pause OrionMX", "--wait"],
    ["send", "why OrionMX"],
    ["send", "history OrionMX"],
    ["send", "schedule list"],
    ["send", "teams"],
    ["audit"],
    ["audit", "verify"],
    ["approvals"],
    ["alerts"],
    ["mute", "OrionMX", "1h"],
    ["unmute", "OrionMX"],
    ["db", "upgrade"],
)
NEEDS_JOBS = (["send", "pause OrionMX", "--wait"],)
"""What surely needs the table whose first page is gone; other commands may still work, by an index or from memory."""

LOG_BYTES = 20_000


def workers() -> dict[str, object]:
    settings = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
    return {"OrionMX": settings, "Paused": settings}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def refused_in_one_line(home: Home, *words: str) -> None:
    done = home.supervisor(*words)
    assert done.returncode == 1, (words, done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "is damaged" in done.stderr
    assert "supervisor doctor" in done.stderr
    assert not any(noise in done.stderr for noise in ("Traceback", "sqlalche.me", "SELECT", "unexpected"))


def says_what_to_do(home: Home) -> None:
    checks = home.json("doctor")["checks"]
    (ledger,) = (check for check in checks if check["name"] == "ledger")
    assert not ledger["ok"]
    assert "is damaged" in ledger["message"]
    assert all(words in ledger["remedy"] for words in ("supervisor daemon stop", "backup", ".recover"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_ledger_is_named_by_everybody_and_stops_no_worker(tmp_path: Path, damage: str) -> None:
    commands = NEEDS_JOBS if damage == "jobs_t" else COMMANDS
    with a_home(tmp_path, workers()) as home:
        daemon = home.start_daemon()
        assert home.supervisor("send", "pause Paused", "--wait").returncode == 0
        (pid,) = home.running_copies("OrionMX")
        overwrite(home.state_dir / "ledger.db", damage)
        cpu, began, log = cpu_seconds(daemon.pid), time.monotonic(), (home.folder / "daemon.log").stat().st_size
        for words in commands:
            refused_in_one_line(home, *words)
        if damage != "jobs_t":  # the daemon has that page in memory, and finds out at its hourly look
            wait_until(lambda: not home.json("status")["healthy"], 10, "the daemon found out")
            shown = home.supervisor("status")
            assert (shown.returncode, shown.stderr) == (1, "")
            assert "! The ledger" in shown.stdout
            assert "is damaged" in shown.stdout
            services = {each["name"]: each for each in home.json("status")["services"] if each["state"] == "running"}
            assert {each["health"] for each in services.values()} == {"degraded"}
        says_what_to_do(home)
        assert (home.worker("OrionMX")["pid"], home.worker("Paused")["pid"]) == (pid, None)
        assert cpu_seconds(daemon.pid) - cpu < 0.5 * (time.monotonic() - began) + 0.5, "it doesn't spin"
        said = home.daemon_log()
        assert (home.folder / "daemon.log").stat().st_size - log < LOG_BYTES
        assert "Traceback" not in said, said

        assert home.supervisor("stop").returncode == 0
        assert home.running_copies("OrionMX") == [pid]
        for words in commands:
            refused_in_one_line(home, *words)
        shown = home.supervisor("status")
        assert (shown.returncode, shown.stderr) == (1, "")
        assert "is damaged" in shown.stdout
        says_what_to_do(home)
        if damage != "jobs_t":
            refused = home.supervisor("start")
            assert refused.returncode == 1
            assert "is damaged" in refused.stderr
            assert "Traceback" not in refused.stderr
            assert home.supervisor("once", "--worker-id", "OrionMX").returncode == 1
        assert home.supervisor("once", "--worker-id", "Paused", "--heal").returncode == (damage != "jobs_t")
        assert (home.running_copies("OrionMX"), home.running_copies("Paused")) == ([pid], [])


def test_after_moving_the_damaged_files_aside_everything_works_again(tmp_path: Path) -> None:
    with a_home(tmp_path) as home:
        assert home.supervisor("once", "--heal").returncode == 0
        overwrite(home.state_dir / "ledger.db", "everything")
        assert home.supervisor("once").returncode == 1
        aside = home.folder / "aside"
        aside.mkdir()
        for path in home.state_dir.glob("ledger.db*"):
            path.rename(aside / path.name)
        assert home.supervisor("send", "diagnostics").returncode == 0
        assert home.supervisor("once").returncode == 0
        assert home.supervisor("audit", "verify").returncode == 0


def test_a_ledger_of_a_development_version_is_refused_with_what_to_do_and_left_as_it_is(tmp_path: Path) -> None:
    with a_home(tmp_path) as home:
        assert home.supervisor("db", "upgrade").returncode == 0
        path = home.state_dir / "ledger.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '0021'")
            connection.execute("DROP TABLE envelopes_t")
        before = path.read_bytes()
        for words in (("db", "upgrade"), ("send", "diagnostics"), ("start",)):
            refused = home.supervisor(*words)
            assert (refused.returncode, "Start anew" in refused.stderr) == (1, True), refused
            assert "Traceback" not in refused.stderr
        shown = home.supervisor("status")
        assert "! The ledger is of a development version (0021)" in shown.stdout
        refused = home.supervisor("backup", "copy.db")
        assert (refused.returncode, f"{path} is of a development version" in refused.stderr) == (1, True), refused
        assert path.read_bytes() == before
        (ledger,) = (check for check in home.json("doctor")["checks"] if check["name"] == "ledger")
        assert (ledger["ok"], "Start anew" in ledger["remedy"]) == (False, True)
        path.rename(home.folder / "old.db")
        assert home.supervisor("db", "upgrade").returncode == 0


def test_the_daemon_looks_for_damage_every_hour(tmp_path: Path) -> None:
    with a_code_host(tmp_path / "host", {"OrionMX": {"path": str(tmp_path)}}) as place:
        started = datetime.now(UTC)
        chore = RetentionChore(lambda: place.host, place.ledger, started)
        chore.work(started + timedelta(minutes=2))
        assert place.ledger.trouble is None
        overwrite(Path(place.ledger.name), "jobs_t")
        chore.work(started + timedelta(minutes=30))
        assert place.ledger.trouble is None, "not yet"
        chore.work(started + timedelta(minutes=63))
        assert isinstance(place.ledger.trouble, LedgerDamaged)


@pytest.mark.parametrize(
    ("code", "words", "says"),
    [
        (sqlite3.SQLITE_FULL, "database or disk is full", "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, "disk I/O error", "the disk has an error"),
        (sqlite3.SQLITE_CANTOPEN, "unable to open database file", "it can't be opened"),
        (sqlite3.SQLITE_READONLY, "attempt to write a readonly database", "it's read-only"),
        (sqlite3.SQLITE_BUSY, "database is locked", "it's locked"),
        (sqlite3.SQLITE_CORRUPT_INDEX, "database disk image is malformed", "is damaged"),
        (sqlite3.SQLITE_NOTADB, "file is not a database", "is damaged"),
        (sqlite3.SQLITE_ERROR, "no such table: jobs_t", "is damaged"),
    ],
)
def test_each_trouble_of_the_file_has_its_words(code: int, words: str, says: str) -> None:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    trouble = ledger_error(Path("/var/ledger.db"), error, "read")
    assert isinstance(trouble, LedgerUnavailable)
    assert says in trouble.message
    assert trouble.remedy
    assert trouble.retryable is (says != "is damaged")


def test_a_mistake_of_ours_is_no_trouble_of_the_file() -> None:
    error = sqlite3.OperationalError("no such column: typo")
    assert ledger_error(Path("/var/ledger.db"), error, "read") is None
    assert ledger_error(Path("/var/ledger.db"), ValueError("no error of SQLite's")) is None
