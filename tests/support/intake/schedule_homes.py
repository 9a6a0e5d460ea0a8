"""Homes with schedules whose time has come, without anybody waiting for a clock."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from supervisor_core.common.times import to_text
from supervisor_core.daemon.control.client import ask

if TYPE_CHECKING:
    from tests.support.homes import Home


def make_due(home: Home, name: str) -> str:
    """As if its next time had just come: what a clock does. That time, as text."""
    moment = to_text(datetime.now(UTC) - timedelta(seconds=1))
    with closing(sqlite3.connect(home.state_dir / "ledger.db", timeout=30)) as connection, connection:
        connection.execute("update schedules_t set next_at = ?, due_at = ? where name = ?", (moment, moment, name))
    return moment


def comes_due(home: Home, name: str) -> None:
    """The same while a daemon runs, which looks at once."""
    make_due(home, name)
    ask(str(home.state_dir), {"do": "wake"})


def scheduled(home: Home, name: str) -> dict[str, Any]:
    """How a schedule stands, as the shell lists it."""
    (found,) = [each for each in home.json("send", "schedule list") if each["name"] == name]
    return dict(found)
