"""Refused messages: the first is recorded at once, a flood once a minute with its number, a command always."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import select

from supervisor_core.common.service import Blocking
from supervisor_core.fleet.host import refusals
from supervisor_core.fleet.host.refusals import RefusedMessages
from supervisor_core.fleet.rows import RefusedCommand, is_refusal, refused_because, refused_command
from supervisor_core.storage import tables
from supervisor_core.storage.store import Ledger
from tests.support.storage.ledger_rows import opened


def details(ledger: Ledger) -> list[tuple[str, int]]:
    query = select(tables.audit_log.c.details_json).order_by(tables.audit_log.c.audit_id)
    found = [json.loads(each) for each in ledger.read(lambda look: look.execute(query).scalars().all())]
    return [(each["error"], each["count"]) for each in found]


def test_a_flood_is_one_row_a_minute_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "FOLD_SECONDS", 0.5)

    async def main(ledger: Ledger) -> None:
        messages = RefusedMessages("web-1", ledger, Blocking())
        for _ in range(1000):
            await messages.note("junk")
        assert details(ledger) == [("junk", 1)]
        await asyncio.sleep(0.5)
        await messages.note("junk")
        await messages.note("a command of the hub", "task_1")
        assert details(ledger) == [("junk", 1), ("junk", 1000), ("a command of the hub", 1)]

    with opened(tmp_path, "web-1") as ledger:
        asyncio.run(main(ledger))


def test_the_hub_reads_the_reason_and_the_command_of_such_a_row() -> None:
    row = {
        "action": "REFUSED",
        "actor": "fleet:hub",
        "task_id": "task_1",
        "details_json": '{"error": "No.", "count": 3}',
    }
    assert is_refusal(row)
    assert refused_command(row) == RefusedCommand("task_1", "No (3 times)")
    assert refused_command({**row, "task_id": None}) is None
    assert refused_command({**row, "actor": "anna"}) is None
    assert refused_because("junk") == "it doesn't say why"
