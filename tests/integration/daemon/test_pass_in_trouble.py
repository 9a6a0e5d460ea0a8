"""A pass that something of its own fails: it goes on to its heartbeat, and the heartbeat says so."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.daemon.single_pass import Supervisor
from supervisor_core.storage.ledger_file import LEDGER_FILE
from tests.support.homes import Home, a_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home with a worker that is paused, so that all is well, and was seen to be by a pass."""
    with a_home(tmp_path / "home") as made:
        for name, value in made.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(made.folder)
        made.nas.joinpath("00_STATE").mkdir()
        made.nas.joinpath("00_STATE", "supervisor_pause_OrionMX.flag").touch()
        assert run(made) == 0
        assert heartbeat(made)["success"]
        yield made


def run(home: Home, *, heal: bool = False) -> int:
    return Supervisor(home.config, "OrionMX").run_once(heal=heal)


def heartbeat(home: Home) -> dict[str, Any]:
    path = home.nas / "00_STATE" / "supervisor_heartbeat_OrionMX.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def in_ledger(home: Home, statement: str) -> list[Any]:
    connection = sqlite3.connect(home.state_dir / LEDGER_FILE)
    with connection:
        rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def spoil(home: Home) -> None:
    for path in home.state_dir.glob(f"{LEDGER_FILE}*"):
        path.unlink()
    (home.state_dir / LEDGER_FILE).write_bytes(b"no ledger at all " * 1000)


def test_a_ledger_that_is_none_is_said_in_the_heartbeat(home: Home) -> None:
    before = heartbeat(home)
    spoil(home)
    assert run(home) == 1
    said = heartbeat(home)
    assert said["timestamp"] > before["timestamp"]
    assert not said["success"]
    assert "ledger.db is damaged: file is not a database" in said["error"]
    assert "The heartbeat couldn't be recorded" in said["error"], "the row comes first"


def test_a_ledger_of_a_newer_version_is_said_in_the_heartbeat(home: Home) -> None:
    in_ledger(home, "UPDATE alembic_version SET version_num = '9999'")
    assert run(home) == 1
    assert "at version 9999, which is newer than this program" in heartbeat(home)["error"]


def test_what_nobody_expected_is_said_in_the_heartbeat_too(home: Home) -> None:
    in_ledger(home, "DROP TABLE outbox_t")
    assert run(home) == 1
    assert "no such table: outbox_t" in heartbeat(home)["error"]


def test_nothing_is_healed_where_the_waiting_commands_are_not_known(home: Home) -> None:
    (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").unlink()
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    spoil(home)
    assert run(home, heal=True) == 1
    assert home.running_copies("OrionMX") == []
    assert "OrionMX is missing" in heartbeat(home)["error"]


def test_a_row_that_is_refused_is_said_in_the_file(home: Home) -> None:
    refusing = "BEFORE UPDATE ON workers_t BEGIN SELECT RAISE(ABORT, 'not here'); END"
    in_ledger(home, f"CREATE TRIGGER refusing {refusing}")
    assert run(home) == 1
    said = heartbeat(home)
    assert not said["success"]
    assert "The heartbeat couldn't be recorded" in said["error"]


def test_a_file_that_is_refused_is_said_in_the_row(home: Home) -> None:
    path = home.nas / "00_STATE" / "supervisor_heartbeat_OrionMX.json"
    path.unlink()
    path.mkdir()
    (path / "something").touch()
    assert run(home) == 1
    row = "SELECT status, status_summary FROM workers_t WHERE worker_id = 'supervisor_OrionMX'"
    ((status, summary),) = in_ledger(home, row)
    assert status == "error"
    assert path.name in summary
