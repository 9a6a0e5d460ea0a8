"""`supervisor doctor`, Slack's part, put together: what is off is said once, and so is that Slack is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from bot.doctor import app
from bot.doctor.asking import Asking, AwayError
from bot.doctor.interactivity import interactivity
from bot.doctor.people import people
from bot.doctor.places import places
from bot.doctor.tokens import judge, secrets_of
from bot.doctor.words import REACH
from supervisor_core.config import SupervisorConfig
from supervisor_core.config.credentials import SlackCredentials
from supervisor_core.ledger.store import FILE_NAME
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.doctor.clock import not_compared
from supervisor_core.runtime.doctor.daemon import Seen, see

NAME = "slack"
LONGEST_SECONDS = 45.0
"""For all that is asked of Slack: some hundred ids at five at a time, or a few calls that hang."""

HIDDEN = "…"


def slack_checks(config: SupervisorConfig) -> list[Check]:
    """Everything about Slack, and the clock, which is compared with Slack's."""
    if not config.slack.enabled:
        return [not_compared("Slack is off"), Check(NAME, True, "off: slack.enabled is false")]
    tokens = judge(config.environ, config.path.parent)
    if tokens.credentials is None:
        return [not_compared("Slack can't be asked without tokens"), tokens.check]
    checks = asyncio.run(_Examination(config, tokens.credentials, see(config)).run())
    return _without(secrets_of(tokens.credentials), [tokens.check, *checks])


class _Examination:
    """What is found is kept at once, so that an end by the clock loses nothing."""

    def __init__(self, config: SupervisorConfig, credentials: SlackCredentials, seen: Seen) -> None:
        self._config = config
        self._app_token = credentials.app_token.get_secret_value() if credentials.app_token else ""
        self._seen = seen
        self._asking = Asking(credentials)
        self._found: list[Check] = []

    async def run(self) -> list[Check]:
        """All checks, in the order in which they are told."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._ask()
        except AwayError:
            self._found.append(self._away(self._asking.away))
        except TimeoutError:
            self._found.append(self._away(f"Slack was not done answering within {LONGEST_SECONDS:g} s"))
        if not any(check.name == "clock" for check in self._found):
            self._found.insert(0, not_compared("Slack can't be reached"))
        return [*self._found, interactivity(self._config.state_dir / FILE_NAME)]

    async def _ask(self) -> None:
        me, found = await app.bot_token(self._asking)
        self._found += found
        url, token = await app.app_token(self._asking, self._app_token)
        another = await app.of_one_app(self._asking, me, url) if me and url else None
        self._found.append(another or token)
        if url:
            self._found.append(await app.connection(url, self._seen))
        if me is not None:
            self._found += await places(self._asking, self._config, me.user)
            self._found += await people(self._asking, self._config, me.team_id)

    def _away(self, why: str) -> Check:
        rest = "what is not told here was not looked at"
        return Check(NAME, False, f"{why} ({self._asking.url}); {rest}", REACH)


def _without(secrets: Iterable[str], checks: list[Check]) -> list[Check]:
    """No check shows a secret; whatever Slack or a library put into its words is hidden."""
    for secret in secrets:
        checks = [
            replace(check, message=check.message.replace(secret, HIDDEN), remedy=check.remedy.replace(secret, HIDDEN))
            for check in checks
        ]
    return checks
