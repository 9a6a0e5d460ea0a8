"""`supervisor doctor`, Slack's part, put together: what is off is said once, and so is that Slack is away."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial

from bot.doctor import app, people
from bot.doctor import app as interactivity
from bot.doctor import channels as places
from bot.doctor.checks import REACH, SlackQueries, SlackUnreachableError
from bot.doctor.tokens import hidden, judge, secrets_of
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.slack_settings import SlackCredentials
from supervisor_core.doctor.checks import Check, examine
from supervisor_core.doctor.daemon import DaemonState, observe_daemon
from supervisor_core.doctor.host import not_compared
from supervisor_core.storage.ledger_file import LEDGER_FILE

NAME = "slack"
LONGEST_SECONDS = 45.0
"""For all that is asked of Slack: some hundred ids at five at a time, or a few calls that hang."""

LOOK_SECONDS = 5.0
"""For a look into the state folder, whose disk may hang; the daemon answers within two."""


def slack_checks(config: SupervisorConfig) -> list[Check]:
    """Everything about Slack, and the clock, which is compared with Slack's."""
    if not config.slack.enabled:
        return [not_compared("Slack is off"), Check(NAME, True, "off: slack.enabled is false")]
    slack = config.slack
    wanted = bool(slack.alert_channel or slack.access.operators or slack.access.approvers)
    tokens = judge(config.environ, config.path.parent, wanted=wanted)
    if tokens.credentials is None:
        return [not_compared("Slack can't be asked without the right tokens"), tokens.check]
    checks = asyncio.run(_Examination(config, tokens.credentials, _seen(config)).run())
    clicks = examine({interactivity.NAME: partial(interactivity.look, config.state_dir / LEDGER_FILE)}, LOOK_SECONDS)
    return hidden(secrets_of(tokens.credentials), [tokens.check, *checks, *clicks])


def _seen(config: SupervisorConfig) -> DaemonState:
    """The daemon; where it can't be told whether there is one, it is not assumed that there is none."""
    try:
        return DaemonThreads("doctor", 1).submit(observe_daemon, config).result(LOOK_SECONDS)
    except (FutureTimeout, OSError):
        return DaemonState("unresponsive")


class _Examination:
    """What is found is kept at once, so that an end by the clock loses nothing."""

    def __init__(self, config: SupervisorConfig, credentials: SlackCredentials, seen: DaemonState) -> None:
        self._config = config
        self._app_token = credentials.app_token.get_secret_value() if credentials.app_token else ""
        self._seen = seen
        self._asking = SlackQueries.of(credentials)
        self._found: list[Check] = []

    async def run(self) -> list[Check]:
        """All checks, in the order in which they are told."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._ask()
        except SlackUnreachableError as error:
            self._found.append(self._away(str(error), error.remedy))
        except TimeoutError:
            self._found.append(self._away(f"Slack was not done answering within {LONGEST_SECONDS:g} s", REACH))
        if not any(check.name == "clock" for check in self._found):
            self._found.insert(0, not_compared("Slack can't be reached"))
        return self._found

    async def _ask(self) -> None:
        me, found = await app.bot_token(self._asking)
        self._found += found
        url, token = await app.app_token(self._asking, self._app_token)
        self._found.append(token)
        if me and url and (another := await app.of_one_app(self._asking, me, url)):
            self._found[-1] = another
        if url:
            self._found.append(await app.connection(url, self._seen))
        if me is not None:
            self._found += await places.look(self._asking, self._config, me.user)
            self._found += await people.look(self._asking, self._config, me.team_id)

    def _away(self, why: str, remedy: str) -> Check:
        rest = "what is not told here was not looked at"
        return Check(NAME, False, f"{why} ({self._asking.url}); {rest}", remedy)
