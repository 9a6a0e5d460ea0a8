"""The rows that Slack adds to the doctor's table. What is off is reported once, and so is a Slack that is away."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as FutureTimeout

from bot.doctor import app, channels, people
from bot.doctor.slack_queries import REACH, SlackQueries, SlackUnreachableError
from bot.doctor.tokens import check_tokens, hide_secrets, secret_values
from bot.outbound.slack_api import one_session
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.slack_credentials import SlackCredentials
from supervisor_core.doctor.checks import Check, CheckResult
from supervisor_core.doctor.daemon import DaemonState, observe_daemon
from supervisor_core.doctor.host import CLOCK, check_clock
from supervisor_core.host.network import NetworkError
from supervisor_core.storage.ledger_file import LEDGER_FILE

NAME = "slack"
LONGEST_SECONDS = 45.0
"""For all calls to Slack: some hundred ids at five at a time, or a few calls that hang."""

LOOK_SECONDS = 5.0
"""For a look into the state folder, whose disk may hang; the daemon answers within two."""


def check_slack(config: SupervisorConfig) -> list[CheckResult]:
    """Everything about Slack but clicks, and the clock, which is compared with Slack's."""
    if not config.slack.enabled:
        return [check_clock("Slack is off"), CheckResult(NAME, True, "off: slack.enabled is false")]
    tokens, credentials = _tokens(config)
    if credentials is None:
        return [check_clock("needs valid Slack tokens"), tokens]
    try:
        checks = _SlackChecks(config, credentials, _daemon_state(config))
    except NetworkError:
        reason = "needs a valid proxy and certificates; see network"
        return [check_clock(reason), tokens, CheckResult(NAME, True, f"not checked: {reason}")]
    results = asyncio.run(checks.run())
    return hide_secrets(secret_values(credentials), [tokens, *results])


def check_clicks(config: SupervisorConfig) -> list[CheckResult]:
    """The check of interactivity, where Slack is used at all."""
    used = config.slack.enabled and _tokens(config)[1] is not None
    return [app.check_interactivity(config.state_dir / LEDGER_FILE)] if used else []


SLACK_CHECKS = (
    Check(NAME, check_slack, LONGEST_SECONDS + 2 * LOOK_SECONDS),
    Check(app.INTERACTIVITY, check_clicks, LOOK_SECONDS),
)


def _tokens(config: SupervisorConfig) -> tuple[CheckResult, SlackCredentials | None]:
    slack = config.slack
    wanted = bool(slack.alert_channel or slack.access.operators or slack.access.approvers)
    return check_tokens(config.environ, config.path.parent, wanted=wanted)


def _daemon_state(config: SupervisorConfig) -> DaemonState:
    """The state of the daemon; `unresponsive` where nothing is known, so that none is assumed to be stopped."""
    try:
        return DaemonThreads("doctor", 1).submit(observe_daemon, config).result(LOOK_SECONDS)
    except (FutureTimeout, OSError):
        return DaemonState("unresponsive")


class _SlackChecks:
    """Runs the checks that call Slack. Each result is kept immediately, so a timeout loses none."""

    def __init__(self, config: SupervisorConfig, credentials: SlackCredentials, daemon: DaemonState) -> None:
        self._config = config
        self._app_token = credentials.app_token.get_secret_value() if credentials.app_token else ""
        self._daemon = daemon
        self._slack = SlackQueries.of(credentials, config.network)
        self._results: list[CheckResult] = []

    async def run(self) -> list[CheckResult]:
        """The results in the order in which they are shown."""
        try:
            async with one_session(self._slack.client), asyncio.timeout(LONGEST_SECONDS):
                await self._call_slack()
        except SlackUnreachableError as error:
            self._results.append(self._away(str(error), error.remedy))
        except TimeoutError:
            self._results.append(self._away(f"Slack took longer than {LONGEST_SECONDS:g} s", REACH))
        if not any(result.name == CLOCK for result in self._results):
            self._results.insert(0, check_clock("Slack can't be reached"))
        return self._results

    async def _call_slack(self) -> None:
        bot, found = await app.check_bot_token(self._slack)
        self._results += found
        url, token = await app.check_app_token(self._slack, self._app_token)
        self._results.append(token)
        if bot and url and (another := await app.check_same_app(self._slack, bot, url)):
            self._results[-1] = another
        if url:
            self._results.append(await app.check_connection(url, self._daemon, self._config.network))
        if bot is not None:
            self._results += app.check_enterprise(bot.enterprise_id, self._config.state_dir / LEDGER_FILE)
            self._results += await channels.check_channels(self._slack, self._config, bot.user)
            self._results += await people.check_people(self._slack, self._config, bot.team_id)

    def _away(self, why: str, remedy: str) -> CheckResult:
        rest = "other checks are skipped"
        return CheckResult(NAME, False, f"{why} ({self._slack.url}); {rest}", remedy)
