"""`supervisor audit` for programs: JSON and CSV have the same columns."""

from __future__ import annotations

import csv
import io
import sqlite3
from pathlib import Path

from tests.support.homes import a_home


def test_json_and_csv_have_the_same_columns_and_rows(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as home:
        home.supervisor("send", "diagnostics first")
        home.supervisor("send", "diagnostics second")
        home.supervisor("once")
        with sqlite3.connect(home.state_dir / "ledger.db") as ledger:
            ledger.execute("UPDATE audit_log_t SET actor = 'cli:eve' WHERE audit_id = 1")
        as_json = home.json("audit")
        table = csv.DictReader(io.StringIO(home.supervisor("audit", "--csv").stdout))
        rows = list(table)
    assert set(table.fieldnames or ()) == set(as_json[0])
    for row, document in zip(rows, as_json, strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in document.items()}
    assert {document["command"] for document in as_json} == {"diagnostics"}
    assert [bool(document["damaged"]) for document in as_json] == [False, True]
