"""What composes App Home, for a host without processes: its workers are what somebody says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.people import People
from bot.access.rules import AccessRules
from bot.outbound.content import MessageComposer
from bot.outbound.home import HomePages
from supervisor_core.commands.command import Issuer
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.wiring import ChatContext, CodeReader
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import WorkerLog
from supervisor_core.storage.store import Ledger


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

    async def written(_workers: Sequence[str], _count: int) -> list[WorkerLog]:
        raise AssertionError("nobody asked for that")

    async def explain(_workers: Collection[str]) -> list[Explanation]:
        raise AssertionError("nobody asked for that")

    def nothing(*_words: object) -> tuple[Any, ...]:
        raise AssertionError("nobody asked for that")

    judging = AccessChecks(People(client, ()), AccessRules(config.slack, config.teams, config.workers, team))
    code = CodeReader(nothing, nothing, nothing)
    doors = ChatContext(look, lambda: None, monitoring, versions, written, explain, code)
    return HomePages(config, judging, AllowedCommands(config, judging), MessageComposer(), ledger, doors)
