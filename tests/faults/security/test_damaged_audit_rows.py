"""One altered cell of the audit trail hides nothing but itself: every reader goes on, and the check names the row."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from bot.views.answers.audit import AuditQuery, audit_page
from supervisor_core.commands.command import Command
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.audit.files import audit_csv
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, search
from supervisor_core.storage.audit.trail import page
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.shared_database import SendResult, SharedDatabase, SharedDatabaseSender
from supervisor_core.storage.store import Ledger
from tests.support.homes import Home
from tests.support.sampling import examples
from tests.support.storage.tampering import put_cell

HOST = "TestHost"
NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
ROWS = 6
SHARED = "shared.db"

values = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda each: each.encode("utf-8", "replace").decode()),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.sampled_from(
        ["2026-01-01 00:00:00.000000", "yesterday", "", "{", "[" * 5000, "a\0b", "x" * 1_000_000, "0" * 64]
    ),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a few rows, of which the first is in the shared database already."""
    folder = tmp_path_factory.mktemp("template")
    with Ledger(folder / LEDGER_FILE, HOST, shares=True) as ledger:
        for number in range(ROWS):
            row = AuditEntry("cli:anna", "PAUSE", f"W{number % 2}", task_id=f"t{number // 2}", label="anna - hotfix")
            ledger.audit(row, NOW + timedelta(seconds=number))
            if number == 0:
                _send(ledger, folder)
    return folder


def _send(ledger: Ledger, folder: Path) -> SendResult:
    database = SharedDatabase(f"sqlite:///{folder / SHARED}", 10)
    database.create_tables()
    return SharedDatabaseSender(ledger, database, folder, 10).send()


@given(st.integers(2, ROWS), st.sampled_from(chain.COLUMNS), values, st.booleans())
@example(3, "created_at", "yesterday", False)
@example(3, "details_json", b"\xff\xfe", True)
@example(3, "supervisor_id", b"\xff", True)
@example(3, "audit_id", "zzz", False)
@example(3, "audit_id", -7, False)
@example(3, "audit_id", 2**63 - 1, False)
@example(6, "audit_id", 5.5, False)
@example(6, "hash", b"0" * 64, False)
@example(3, "label", b"anna - hotfix", False)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_cell_no_reader_fails_and_the_check_names_that_row(
    template: Path, tmp_path_factory: pytest.TempPathFactory, row: int, column: str, value: Any, as_text: bool
) -> None:
    folder = tmp_path_factory.mktemp("copy") / "state"
    shutil.copytree(template, folder)
    assume(put_cell(folder / LEDGER_FILE, row, column, value, as_text=as_text and isinstance(value, bytes)))
    with Ledger(folder / LEDGER_FILE, HOST, shares=True) as ledger:
        whole, faults, *_ = ledger.read(chain.verify)
        assert whole == ROWS - 1
        assert faults
        stored = _ids_of_damaged(ledger)
        assert len(stored) == 1
        assert _named(faults) <= {str(row), stored[0]}
        _read_everything(ledger)
        result = _send(ledger, folder)
        assert (result.problem, result.waiting) == ("", 0)
        ledger.audit(AuditEntry("cli:anna", "RESUME", "W1"))
    shutil.rmtree(folder)


def _named(faults: list[chain.Fault]) -> set[str]:
    return {str(fault.audit_id)[:60] for fault in faults}


def _ids_of_damaged(ledger: Ledger) -> list[str]:
    rows = ledger.read(lambda connection: search(connection, AuditFilter(limit=100)))
    assert len(rows) == ROWS, "a damaged row hides no other row"
    return [str(each["audit_id"])[:60] for each in rows if "damaged" in each]


def _read_everything(ledger: Ledger) -> None:
    rows = ledger.read(lambda connection: search(connection, AuditFilter(limit=100)))
    json.dumps(rows).encode()
    audit_csv(rows).encode()
    for wanted in (AuditFilter(), AuditFilter(issuer="anna"), AuditFilter(targets=("W1",)), AuditFilter(since=NOW)):
        ledger.read(lambda connection, wanted=wanted: search(connection, wanted))  # type: ignore[misc]
        ledger.read(lambda connection, wanted=wanted: page(connection, wanted, 10))  # type: ignore[misc]
    shown = ledger.read(_all_pages)
    assert sum(1 for entry in shown if entry.damaged) == 1
    asking = AuditQuery(HOST, Command("audit", ""), AuditFilter(), "nonce")
    json.dumps(audit_page(asking, [(entry, "") for entry in shown])).encode()
    ledger.read(lambda connection: jobs.recent_for(connection, "W1", NOW, 10))


def _all_pages(connection: Connection) -> list[Any]:
    """All entries, by pages of two, each beginning beside the last one that has a place."""
    shown: list[Any] = []
    beside: RowPosition | None = None
    for _ in range(2 * ROWS):
        found = page(connection, AuditFilter(), 2, beside)
        shown += [entry for entry in found.entries if entry not in shown]
        placed = [entry for entry in found.entries if entry.audit_id is not None]
        if not found.older or not placed:
            return shown
        beside = RowPosition(placed[-1].supervisor_id, placed[-1].audit_id)
    raise AssertionError("the pages never end")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("home"), {"West": {"command": ["sleep", "60"]}}, {})
    with Ledger(made.state_dir / LEDGER_FILE, HOST) as ledger:
        for number in range(3):
            ledger.audit(AuditEntry("cli:anna", "PAUSE", "West", label="anna", task_id=f"t{number}"))
        ledger.audit(AuditEntry("cli:anna", "MUTED", HOST, target_type="supervisor"))
    return made


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("created_at", "2026-01-01 00:00:00.000000"),
        ("created_at", ""),
        ("details_json", "{"),
        ("details_json", b"\xff"),
    ],
)
def test_in_the_shell_a_damaged_row_is_shown_as_damaged_among_the_others(home: Home, column: str, value: Any) -> None:
    path = home.state_dir / LEDGER_FILE
    kept = path.with_name("kept.db")
    shutil.copy(path, kept)
    assert put_cell(path, 2, column, value, as_text=isinstance(value, bytes))
    try:
        shown = home.supervisor("audit")
        found = (shown.stdout.count("damaged  "), shown.stdout.count(" pause "))
        assert (shown.returncode, found) == (0, (1, 3)), shown.stderr
        assert [row["audit_id"] for row in home.json("audit") if row.get("damaged")] == [2]
        assert home.supervisor("audit", "--csv").stdout.count("read\n") == 1
        verdict = home.supervisor("audit", "verify")
        assert (verdict.returncode, "row 2 of TestHost was altered" in verdict.stdout) == (1, True), verdict.stderr
        assert "3 rows match their hashes" in verdict.stdout
    finally:
        shutil.copy(kept, path)
