"""Pages of App Home on their way to a local Slack: what is published for whom, and whatever happens on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.people import People
from bot.access.rules import AccessRules
from bot.outbound.content import MessageComposer
from bot.outbound.delivery import SHORTEST_SECONDS, Delivery
from bot.outbound.home import HomePages, order_page
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.views.home import HomePosition
from slack_playground import Playground
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.storage.store import Ledger
from tests.support.alerts.delivery import whole_round
from tests.support.slack.host_pictures import worker

OPERATOR = "U0OPERATOR"
SETTINGS: dict[str, Any] = {
    "supervisor": {"id": "TestHost"},
    "workers": {f"W{number:03}": {"command": ["true"]} for number in range(200)},
    "slack": {"access": {"viewers": ["*"], "operators": [OPERATOR]}},
}


class Host:
    """A host without processes: its workers are what the test says. Time is the test's."""

    def __init__(self, slack: Playground, ledger: Ledger, config: SupervisorConfig) -> None:
        self.slack, self.ledger, self.config = slack, ledger, config
        self.now = 1000.0
        self.workers = [worker(name) for name in config.workers]

    @cached_property
    def delivery(self) -> Delivery:
        client = AsyncWebClient(token=self.slack.bot_token, base_url=self.slack.api_url, retry_handlers=[])
        config, pace = self.config, Pace(lambda: self.now)
        rules = AccessRules(config.slack, config.teams, config.workers, self.slack.server.world.app.team_id)
        access = AccessChecks(People(client, ()), rules)
        hosts = cast("Hosts", SimpleNamespace(statuses=self._look, versions=self._versions))
        allowed = AllowedCommands(config, access)
        pages = HomePages(config, access, allowed, MessageComposer(), self.ledger, hosts)
        sender = MessageSender(self.ledger, SlackApi(client), "bot", pace=pace, compose_page=pages.compose)
        return Delivery(sender, clock=lambda: self.now)

    async def _look(self) -> list[dict[str, Any]]:
        return self.workers

    async def _versions(self) -> dict[str, str]:
        return {}

    def restart(self, config: SupervisorConfig) -> None:
        """Compose and deliver by this configuration, with nothing remembered."""
        self.config = config
        del self.delivery

    async def open(self, user: str = OPERATOR) -> None:
        """Somebody opens their page, and what may be sent at this moment is sent."""
        self.ledger.order([order_page(user, HomePosition())])
        await self.deliver()

    async def deliver(self) -> None:
        for _ in range(100):
            if await whole_round(self.delivery) > SHORTEST_SECONDS:
                return

    def row(self, user: str = OPERATOR) -> Any:
        rows = self.ledger.read(lambda c: c.exec_driver_sql("SELECT * FROM outbox_t").mappings().all())
        return next(row for row in rows if row["subject"] == user)

    def shown(self, user: str = OPERATOR) -> str:
        return str(self.slack.server.world.workspace.homes[user]["blocks"])


@pytest.fixture
def host(slack: Playground, tmp_path: Path) -> Iterator[Host]:
    slack.user("operator")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    config = load_supervisor_config(tmp_path / "config.yaml", environ={})
    with Ledger(tmp_path / "ledger.db", "TestHost") as ledger:
        yield Host(slack, ledger, config)


async def test_while_slack_is_away_a_page_waits_and_is_then_published_once_with_the_newest_state(
    host: Host, slack: Playground
) -> None:
    slack.fault("status", "views.publish", status=503, times=3)
    for number in range(3):
        host.workers[0] = worker("W000", fine=False, reason=f"nobody saw {number}")
        await host.open()
        host.now += 40
    assert OPERATOR not in slack.server.world.workspace.homes
    assert "503" in host.delivery.problem or "views.publish" in host.delivery.problem
    host.workers[0] = worker("W000", fine=False, reason="the newest")
    await host.deliver()
    assert "the newest" in host.shown()
    assert len([call for call in slack.calls("views.publish") if call["status"] == 200]) == 1


async def test_a_page_that_nobody_can_be_shown_is_dropped_until_its_reader_opens_it_again(
    host: Host, slack: Playground
) -> None:
    world = slack.server.world
    world.app = replace(world.app, home_tab=False)
    await host.open()
    assert host.row()["state"] == "dropped"
    assert host.row()["last_error"] == f"App Home can't be shown to {OPERATOR}: not_enabled"
    world.app = replace(world.app, home_tab=True)
    await host.open()
    assert "W000" in host.shown()


async def test_a_page_that_slack_refuses_is_told_in_words(host: Host, slack: Playground) -> None:
    slack.fault("error", "views.publish", error="view_too_large")
    await host.open()
    assert "200 workers" in host.shown()
    assert "Slack can't show the whole page" in host.shown()
    assert host.row()["state"] == "sent"


async def test_where_slack_does_not_say_who_somebody_is_their_page_waits(host: Host, slack: Playground) -> None:
    slack.fault("ratelimited", "users.info", retry_after=30)
    await host.open()
    assert slack.calls("views.publish") == []
    assert len(slack.calls("users.info")) == 1
    host.now += 31
    host.restart(host.config)  # the lookup of people waits by the real clock
    await host.deliver()
    assert "W000" in host.shown()
