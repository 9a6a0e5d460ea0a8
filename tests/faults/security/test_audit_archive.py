"""Old rows of the audit trail move to a file, and the chain stays verifiable, whenever the archiving is killed."""

from __future__ import annotations

import json
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete

from supervisor_core.storage.audit import chain, files
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log
from tests.support.homes import Home
from tests.support.programs.armed import armed
from tests.support.storage.tampering import put_cell

HOST = "TestHost"
OLD = datetime(2025, 2, 5, 14, 30, 15, tzinfo=UTC)
OLD_ROWS, NEW_ROWS = files.REMOVED_AT_ONCE + 10, 5
POINTS = (
    "audit.archive:before",
    "audit.archive:after",
    "audit_log_t.archived:before",
    "audit_log_t.archived:after",
    "audit_log_t.removed:after",
    "audit_log_t.removed:after#2",
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with more old rows than are removed at once, and a few new ones."""
    folder = tmp_path_factory.mktemp("template")
    write_rows(folder, OLD_ROWS, OLD)
    write_rows(folder, NEW_ROWS, datetime.now(UTC))
    return folder


def write_rows(folder: Path, count: int, at: datetime) -> None:
    def write(connection: Connection) -> None:
        for number in range(count):
            chain.append(connection, HOST, a_row(number), at + timedelta(seconds=number))

    with opened(folder) as ledger:
        ledger.write(write)


def a_row(number: int) -> AuditEntry:
    return AuditEntry("cli:anna", "PAUSE", f"W{number}")


def opened(folder: Path) -> Ledger:
    return Ledger(folder / LEDGER_FILE, HOST)


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", {"West": {"command": ["sleep", "60"]}}, {})
    shutil.copytree(template, made.state_dir)
    return made


def ids(home: Home) -> list[int]:
    return [row["audit_id"] for row in home.audit()]


def test_archived_rows_leave_the_ledger_and_the_trail_is_verified_across_the_file(home: Home, tmp_path: Path) -> None:
    done = home.supervisor("audit", "archive", "--before", "2026-01-01", "--out", "old.jsonl")
    assert done.returncode == 0, done.stderr
    assert f"Archived {OLD_ROWS} rows of {HOST}, 1 to {OLD_ROWS}" in done.stdout
    left = sorted(home.audit(), key=lambda row: row["audit_id"])
    assert [row["audit_id"] for row in left] == list(range(OLD_ROWS + 1, OLD_ROWS + NEW_ROWS + 2))
    recorded = left[-1]
    assert (recorded["action"], json.loads(recorded["details_json"])["last_id"]) == ("AUDIT_ARCHIVED", OLD_ROWS)
    assert home.supervisor("audit", "verify").returncode == 0
    across = home.supervisor("audit", "verify", "--file", "old.jsonl")
    assert (across.returncode, "The ledger continues from there" in across.stdout) == (0, True), across.stdout
    assert home.supervisor("audit", "export", "--out", "rest.jsonl").returncode == 0
    both = home.json("audit", "verify", "--file", "rest.jsonl", "--file", "old.jsonl")
    assert both["ok"], both
    assert [(part["first_id"], part["last_id"]) for part in both["files"]] == [(1, OLD_ROWS + NEW_ROWS + 1)]
    again = home.supervisor("audit", "archive", "--before", "2026-01-01", "--out", "old.jsonl")
    assert (again.returncode, again.stdout) == (0, "There are no rows to archive.\n")

    # Without a ledger or a configuration, an altered and a cut file are found.
    alone = tmp_path / "alone"
    alone.mkdir()
    whole = (home.folder / "old.jsonl").read_text()
    (alone / "cut").write_text("".join(whole.splitlines(keepends=True)[:-3]))
    cut = home.supervisor("audit", "verify", "--file", str(alone / "cut"))
    assert (cut.returncode, "the ledger doesn't continue it" in cut.stdout) == (1, True), cut.stdout
    home.config.unlink()
    for name, content, named in (
        ("whole", whole, ""),
        ("altered", whole.replace('"W7"', '"W8"'), "row 8 of TestHost was altered"),
        ("gap", whole.replace(whole.splitlines()[4] + "\n", ""), "row 5 of TestHost is missing"),
        ("junk", whole + "\udcff{\n", f"In the files, line {OLD_ROWS + 1} isn't an audit row"),
    ):
        (alone / name).write_text(content, errors="surrogateescape")
        said = home.supervisor("audit", "verify", "--file", str(alone / name))
        assert (said.returncode, named in said.stdout) == (1 if named else 0, True), said.stdout + said.stderr
        assert "Not compared with a ledger" in said.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_no_row_is_lost_and_the_next_run_finishes(home: Home, point: str) -> None:
    words = ("audit", "archive", "--before", "2026-01-01", "--out")
    killed = home.supervisor(*words, "first.jsonl", program=armed(point))
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert home.supervisor("audit", "verify").returncode == 0
    done = home.supervisor(*words, "second.jsonl")
    assert done.returncode == 0, done.stderr
    assert ids(home)[0] == OLD_ROWS + 1
    files = [name for name in ("first.jsonl", "second.jsonl") if (home.folder / name).exists()]
    verdict = home.json("audit", "verify", *(word for name in files[:1] for word in ("--file", name)))
    assert verdict["ok"], verdict
    assert [(part["first_id"], part["last_id"]) for part in verdict["files"]] == [(1, OLD_ROWS)]


def test_damaged_rows_are_not_archived(home: Home) -> None:
    assert put_cell(home.state_dir / LEDGER_FILE, 7, "actor", "cli:mallory")
    done = home.supervisor("audit", "archive", "--before", "2026-01-01", "--out", "old.jsonl")
    assert (done.returncode, f"row 7 of {HOST} was altered" in done.stderr) == (1, True), done.stderr
    assert not (home.folder / "old.jsonl").exists()
    assert len(ids(home)) == OLD_ROWS + NEW_ROWS
    exported = home.supervisor("audit", "export", "--out", "all.jsonl")
    assert f"Exported {OLD_ROWS + NEW_ROWS} rows to" in exported.stdout, "the damaged one is in the file"
    said = home.supervisor("audit", "verify", "--file", "all.jsonl").stdout
    assert f"In the files, row 7 of {HOST} was altered" in said
    assert f"In the ledger, row 7 of {HOST} was altered" in said


def test_old_rows_that_no_row_records_as_archived_are_a_loss(home: Home) -> None:
    with opened(home.state_dir) as ledger:
        ledger.write(lambda connection: connection.execute(delete(audit_log).where(audit_log.c.audit_id <= 4)))
    said = home.supervisor("audit", "verify")
    assert (said.returncode, "no row records the archiving" in said.stdout) == (1, True), said.stdout


def test_a_trail_that_was_cut_off_is_found_by_the_hash_that_was_noted(home: Home) -> None:
    said = home.supervisor("audit", "verify").stdout
    noted = said.split()[-1].rstrip(".")
    assert len(noted) == 64
    assert home.supervisor("audit", "verify", "--hash", noted).returncode == 0
    with opened(home.state_dir) as ledger:
        last = audit_log.c.audit_id == OLD_ROWS + NEW_ROWS
        ledger.write(lambda connection: connection.execute(delete(audit_log).where(last)))
        ledger.audit(a_row(1))
    assert home.supervisor("audit", "verify").returncode == 0
    cut = home.supervisor("audit", "verify", "--hash", noted)
    assert (cut.returncode, "No row has the hash" in cut.stdout) == (1, True), cut.stdout
