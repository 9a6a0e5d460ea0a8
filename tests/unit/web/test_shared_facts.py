"""The facts that several open pages share are never older than the change that a page was told of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor_core.common.events import EventBus
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.web import service as module
from supervisor_core.web.service import SETTLE_SECONDS, WebService


async def a_change_while_facts_are_gathered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Facts:
        state = "running"

        async def gather(self) -> str:
            state = self.state
            await asyncio.sleep(0.3)
            return state

    facts: Any = Facts()
    host = SimpleNamespace(config=load_supervisor_config(path, environ={}))
    daemon: Any = SimpleNamespace(context=SimpleNamespace(host=host, ledger=None), bus=EventBus(), incoming=None)
    monkeypatch.setattr(module, "FactCollector", lambda _: facts)
    service = WebService(daemon)
    before = asyncio.create_task(service.facts())
    await asyncio.sleep(0.05)
    facts.state, settled = "paused", asyncio.create_task(asyncio.sleep(SETTLE_SECONDS))
    shown: Any = await before
    assert shown == "running"
    await settled
    shown = await service.facts()
    assert shown == "paused"


def test_after_a_change_a_page_gets_facts_that_were_gathered_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("workers: {OrionMX: {command: [sleep, '9']}}")
    asyncio.run(a_change_while_facts_are_gathered(path, monkeypatch))
