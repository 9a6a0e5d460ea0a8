"""Every id that the configuration names, looked up at Slack when the daemon has come up: as `supervisor doctor` would,
with the same judgement, and slowly enough to be in nobody's way.
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
"""For all of it, an outage of Slack's included; what was not looked at by then is said."""

AT_ONCE = 20
"""So many calls are made without a pause: a list of the usual length is looked at in a second."""

GAP_SECONDS = 1.2
"""Between two of the others: Slack bears 50 a minute of each method, and people's own commands need some of them."""

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1.0, 30.0
"""Between two tries at what Slack did not answer."""


async def find_unknown_ids(
    client: AsyncWebClient, config: SupervisorConfig, team_id: str, bot: str = "supervisor"
) -> list[str]:
    """What is wrong with the people, groups and channels that the configuration names, a sentence for each; none where
    all is well. It waits for a Slack that is away. `bot` is what the bot is called there."""
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
    """Asks until Slack answers, one call after the other where there are many."""

    def __init__(self, client: AsyncWebClient) -> None:
        super().__init__(client)
        self.last = ""
        """Why Slack did not answer when it was asked last."""
        self._calls = 0
        self._turn = asyncio.Lock()

    async def __call__(
        self,
        method: Callable[..., Awaitable[AsyncSlackResponse]],
        **arguments: Any,  # noqa: ANN401 (whatever the method takes)
    ) -> AsyncSlackResponse:
        """The answer; `SlackRefusalError` where Slack refuses."""
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
