"""Looks up every id in the configuration when the daemon has started, with the checks of `supervisor doctor`.

It's slow enough to leave Slack's rate limits to people's commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.doctor import channels as places
from bot.doctor import people
from bot.doctor.slack_queries import SlackQueries, SlackUnreachableError
from supervisor_core.config.load import SupervisorConfig

LONGEST_SECONDS = 1800.0
"""Time for all lookups, including an outage of Slack; the rest is reported as not looked up."""

AT_ONCE = 20
"""Calls without a pause, enough for a list of the usual length."""

GAP_SECONDS = 1.2
"""Pause between further calls. Slack allows 50 a minute of each method, and people's commands need some."""

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1.0, 30.0
"""Delays between tries."""


async def find_unknown_ids(
    client: AsyncWebClient, config: SupervisorConfig, team_id: str, bot: str = "supervisor"
) -> list[str]:
    """The problems with the people, groups and channels in the configuration, a sentence for each. It waits while Slack
    is away. `bot` is the bot's name."""
    asking = _PatientLookup(client)
    checks = []
    late = []
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            checks += await people.check_people(asking, config, team_id)
            checks += await places.check_channels(asking, config, bot)
    except TimeoutError:
        why = f" ({asking.last})" if asking.last else ""
        late = [f"Some ids in the configuration couldn't be looked up{why}. `supervisor doctor` checks them again"]
    return [*(f"{check.message}. {check.remedy}".rstrip(". ") for check in checks if not check.ok), *late]


class _PatientLookup(SlackQueries):
    """Asks until Slack answers, and spaces many calls out."""

    def __init__(self, client: AsyncWebClient) -> None:
        super().__init__(client)
        self.last = ""
        """The reason for the last missing answer."""
        self._calls = 0
        self._turn = asyncio.Lock()

    async def __call__(
        self,
        method: Callable[..., Awaitable[AsyncSlackResponse]],
        **arguments: Any,  # noqa: ANN401 (whatever the method takes)
    ) -> AsyncSlackResponse:
        """The answer; `SlackRefusalError` if Slack refuses."""
        delay = FIRST_DELAY_SECONDS
        while True:
            await self._in_turn()
            try:
                return await super().__call__(method, **arguments)
            except SlackUnreachableError as error:
                self.away, self.last = "", str(error)
                await asyncio.sleep(max(delay, error.seconds))
                delay = min(delay * 2, LONGEST_DELAY_SECONDS)

    async def _in_turn(self) -> None:
        async with self._turn:
            self._calls += 1
            if self._calls > AT_ONCE:
                await asyncio.sleep(GAP_SECONDS)
