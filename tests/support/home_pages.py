"""What composes App Home, for a host without processes: its workers are what somebody says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.access import Rules
from bot.composing import Composing
from bot.home_page import HomePages
from bot.judging import Judging
from bot.offering import Offering
from bot.people import People
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.explanation import Explanation
from supervisor_core.handlers.newest_lines import Written
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.chat import ChatDoors
from supervisor_core.runtime.event_bus import EventBus


def pages_of(
    config: SupervisorConfig,
    ledger: Ledger,
    client: AsyncWebClient,
    team: str,
    workers: Callable[[], Sequence[Mapping[str, Any]]],
) -> HomePages:
    """By this configuration, with these workers at each look."""

    async def look() -> list[dict[str, Any]]:
        return [dict(each) for each in workers()]

    async def versions() -> Mapping[str, str]:
        return {}

    async def monitoring(_rests: bool, _issuer: Issuer) -> str:
        raise AssertionError("nobody asked for that")

    async def written(_workers: Sequence[str], _count: int) -> list[Written]:
        raise AssertionError("nobody asked for that")

    async def explain(_workers: Collection[str]) -> list[Explanation]:
        raise AssertionError("nobody asked for that")

    judging = Judging(People(client, ()), Rules(config.slack, config.teams, config.workers, team))
    heard = partial(EventBus().subscribe, name="home")
    doors = ChatDoors(look, lambda: None, monitoring, versions, heard, written, explain)
    return HomePages(config, judging, Offering(config, judging), Composing(), ledger, doors)
