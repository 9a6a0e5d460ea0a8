"""The facts that several open pages share are never older than the change that a page was told of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from supervisor_core.common.events import EventBus
from supervisor_core.web.service import SETTLE_SECONDS, WebService


async def a_change_while_facts_are_gathered() -> None:
    class Facts:
        state = "running"

        async def gather(self) -> str:
            state = self.state
            await asyncio.sleep(0.3)
            return state

    facts: Any = Facts()
    doors: Any = SimpleNamespace(take_alerts=None)
    ledger: Any = None
    service = WebService("127.0.0.1:0", facts, doors, EventBus(), ledger, by_default=True)
    before = asyncio.create_task(service.facts())
    await asyncio.sleep(0.05)
    facts.state, settled = "paused", asyncio.create_task(asyncio.sleep(SETTLE_SECONDS))
    shown: Any = await before
    assert shown == "running"
    await settled
    shown = await service.facts()
    assert shown == "paused"


def test_after_a_change_a_page_gets_facts_that_were_gathered_after_it() -> None:
    asyncio.run(a_change_while_facts_are_gathered())
