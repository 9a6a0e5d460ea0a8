"""Pages of App Home on their way to a local Slack: how often, for whom first, and whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.outbound.delivery import SHORTEST_SECONDS, Delivery
from bot.outbound.home import FORGOTTEN, KEPT, HomeRefresher, forget_old, order_opened_page, order_page
from bot.outbound.home_pages import HomePage, HomePages
from bot.outbound.messages import HOME
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.views.home.sections import HomePosition
from slack_playground import Playground
from supervisor_core.commands.command import Issuer
from supervisor_core.common.events import Event, EventBus, EventType
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.chain import HeadFile
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.store import Ledger
from tests.support.alerts.delivery import whole_round
from tests.support.daemon.reconciliation import until
from tests.support.slack.app_home import pages_of
from tests.support.slack.host_pictures import worker

MINUTE, MOST = 60.0, 20
OPERATORS = [f"U0P{number}" for number in range(10)]
SETTINGS: dict[str, Any] = {
    "supervisor": {"id": "TestHost"},
    "workers": {f"W{number:03}": {"command": ["true"]} for number in range(200)},
    "slack": {"access": {"viewers": ["*"], "operators": OPERATORS}},
}


class Client(AsyncWebClient):
    """The real client, which notes when it published what for whom, by the clock of the test."""

    published: list[tuple[float, str, Mapping[str, Any]]]
    now: Callable[[], float]

    async def views_publish(self, **arguments: Any) -> AsyncSlackResponse:
        self.published.append((self.now(), arguments["user_id"], arguments["view"]))
        return await super().views_publish(**arguments)


class Host:
    """A host without processes: its workers are what the test says. Time is the test's."""

    def __init__(self, slack: Playground, ledger: Ledger, config: SupervisorConfig) -> None:
        self.slack, self.ledger, self.config = slack, ledger, config
        self.now, self.today = 1000.0, datetime.now(UTC)
        self.looks = 0
        self.cards_told: list[str] = []
        self.workers = [worker(each) for each in config.workers]
        self.bus = EventBus()
        self.homes = HomeRefresher(ledger, lambda: self.today)

    @cached_property
    def client(self) -> Client:
        made = Client(token=self.slack.bot_token, base_url=self.slack.api_url, retry_handlers=[])
        made.published, made.now = [], lambda: self.now
        return made

    @cached_property
    def pages(self) -> HomePages:
        team = self.slack.server.world.app.team_id
        return pages_of(self.config, self.ledger, self.client, team, self._looked)

    @cached_property
    def delivery(self) -> Delivery:
        speaker, pace = SlackApi(self.client), Pace(lambda: self.now)
        told = partial(self.cards_told.append, "")
        sender = MessageSender(self.ledger, speaker, "bot", pace=pace, compose_page=self._compose)
        return Delivery(sender, clock=lambda: self.now, on_sent=told)

    async def _compose(self, message: PendingMessage) -> HomePage:
        return await self.pages.compose(message)

    def starts_anew(self) -> None:
        """What delivers and composes remembers nothing, as after a start of the daemon."""
        del self.delivery, self.pages

    def configured(self, config: SupervisorConfig) -> None:
        self.config = config
        del self.pages

    def _looked(self) -> list[dict[str, Any]]:
        self.looks += 1
        return self.workers

    async def open(self, user: str) -> None:
        self.ledger.order([await self.homes.opened(user, self.today)])
        self.today += timedelta(milliseconds=1)

    async def deliver(self) -> None:
        """As much as may be sent at this moment."""
        for _ in range(100):
            if await whole_round(self.delivery) > SHORTEST_SECONDS:
                return

    def row(self, user: str) -> Any:
        rows = self.ledger.read(lambda c: c.exec_driver_sql("SELECT * FROM outbox_t").mappings().all())
        return next(row for row in rows if row["subject"] == user)

    def shown(self, user: str) -> str:
        return str(self.slack.server.world.workspace.homes[user]["blocks"])


@pytest.fixture
def host(slack: Playground, tmp_path: Path) -> Iterator[Host]:
    for name in OPERATORS:
        slack.user(name.removeprefix("U0").lower())
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
    config = load_supervisor_config(tmp_path / "config.yaml", environ={})
    with Ledger(tmp_path / "ledger.db", "TestHost", HeadFile(tmp_path)) as ledger:
        yield Host(slack, ledger, config)


async def test_a_hundred_changes_a_second_cost_at_most_twenty_publishes_a_minute_and_the_last_is_the_truth(
    host: Host, slack: Playground
) -> None:
    for user in OPERATORS:
        await host.open(user)
    for second in range(150):
        host.now += 1.0
        for change in range(100):
            host.workers[change] = worker(f"W{change:03}", state="running" if (second + change) % 2 else "starting")
        await asyncio.to_thread(host.homes.order_all)
        await host.deliver()
    times = [at for at, _, _ in host.client.published]
    assert max(sum(1 for other in times if at <= other < at + MINUTE) for at in times) <= MOST
    assert len(times) > 25, "it goes on all the while"
    host.workers[7] = worker("W007", fine=False, health="stale", reason="the truth")
    await asyncio.to_thread(host.homes.order_all)
    for _ in range(100):
        host.now += 1.0
        await host.deliver()
    assert all("the truth" in host.shown(user) for user in OPERATORS)
    assert host.slack.calls("views.publish")[-1]["answer"]["ok"]


async def test_a_flood_of_events_is_a_few_orders_and_what_was_ordered_by_the_pages_themselves_is_none(
    host: Host, slack: Playground
) -> None:
    await host.open(OPERATORS[0])
    stopping = asyncio.Event()
    running = asyncio.create_task(host.homes.run(stopping, partial(host.bus.subscribe, name="home")))

    async def version_after(before: int) -> int:
        await until(lambda: host.row(OPERATORS[0])["version"] > before, "it was ordered anew")
        return int(host.row(OPERATORS[0])["version"])

    first = await version_after(1)
    for number in range(1000):
        host.bus.publish(Event(EventType.WORKER_STATE_CHANGED, f"W{number % 200:03}", datetime.now(UTC), {}))
    second = await version_after(first)
    stopping.set()
    await running
    assert second == first + 1


async def test_what_would_say_the_same_again_is_not_published_and_one_look_serves_all(
    host: Host, slack: Playground
) -> None:
    for user in OPERATORS[:3]:
        await host.open(user)
    await host.deliver()
    assert (len(host.client.published), host.looks) == (3, 1)
    host.now += 60
    await asyncio.to_thread(host.homes.order_all)
    await host.deliver()
    assert (len(host.client.published), host.looks) == (3, 2)
    assert {host.row(user)["state"] for user in OPERATORS[:3]} == {"sent"}


async def test_whoever_opens_their_page_waits_for_no_change_and_the_last_to_open_comes_first(
    host: Host, slack: Playground
) -> None:
    for user in OPERATORS[:8]:
        await host.open(user)
    await host.deliver()
    assert [user for _, user, _ in host.client.published] == OPERATORS[7::-1], "those who opened it last come first"
    host.now += 40
    for number in range(6):
        host.workers[0] = worker("W000", fine=False, reason=f"{number}")
        await asyncio.to_thread(host.homes.order_all)
        await host.deliver()
    before = len(host.client.published)
    await host.deliver()
    assert len(host.client.published) == before, "changes have used what they may"
    await host.open(OPERATORS[9])
    await host.deliver()
    assert host.client.published[-1][1] == OPERATORS[9]


async def test_a_page_is_left_alone_an_hour_after_its_reader_was_there_and_forgotten_after_a_week(
    host: Host, slack: Playground
) -> None:
    await host.open(OPERATORS[0])
    await host.deliver()
    host.today += KEPT + timedelta(seconds=1)
    await host.open(OPERATORS[1])
    await host.deliver()
    host.workers[0] = worker("W000", fine=False)
    host.now += 60
    await asyncio.to_thread(host.homes.order_all)
    await host.deliver()
    assert "W000" in host.shown(OPERATORS[1])
    assert [user for _, user, _ in host.client.published] == [OPERATORS[0], OPERATORS[1], OPERATORS[1]]
    late = host.today + FORGOTTEN - timedelta(minutes=30)
    assert host.ledger.write(partial(forget_old, now=late)) == 1
    assert list(host.ledger.read(partial(outbox.payloads, kind=HOME))) == [OPERATORS[1]]


async def test_who_comes_back_soon_is_where_they_were_and_later_at_the_beginning(host: Host, slack: Playground) -> None:
    user, at = OPERATORS[0], datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
    there = order_page(user, at, HomePosition(2, "team:x")).payload
    soon = {**(there or {}), "at": "2026-02-05T15:29:00.000000Z"}
    assert order_opened_page(there, user, at + timedelta(minutes=59)).payload == soon
    assert (order_opened_page(there, user, at + timedelta(hours=2)).payload or {})["page"] == 0
    assert (order_opened_page({"at": "?", "page": "x"}, user, at).payload or {})["page"] == 0
    host.ledger.order([await host.homes.opened(user, at)])
    host.ledger.order([await host.homes.turned(user, at, page=1)])
    assert (await host.homes.turned(user, at)).payload == order_page(user, at, HomePosition(1)).payload
    assert (await host.homes.turned(user, at, only="trouble")).payload == order_page(
        user, at, HomePosition(0, "trouble")
    ).payload


async def test_an_answer_that_was_lost_and_a_crash_leave_the_newest_page(host: Host, slack: Playground) -> None:
    user = OPERATORS[0]
    await host.open(user)
    await host.deliver()
    slack.fault("drop_after", "views.publish")
    host.now += 60
    host.workers[0] = worker("W000", fine=False, reason="one")
    await asyncio.to_thread(host.homes.order_all)
    await host.deliver()
    assert "one" in host.shown(user), "Slack took it, and nobody was told"
    assert host.row(user)["state"] == "pending"
    host.workers[0] = worker("W000", fine=False, reason="two")
    host.starts_anew()
    host.now += 60
    await host.deliver()
    assert "two" in host.shown(user)
    assert [call["answer"].get("error") for call in slack.calls("views.publish")][-2:] == ["hash_conflict", None]
    assert host.row(user)["state"] == "sent"


async def test_a_call_that_was_long_on_its_way_takes_the_place_of_no_newer_page(host: Host, slack: Playground) -> None:
    user = OPERATORS[0]
    await host.open(user)
    await host.deliver()
    first = slack.calls("views.publish")[-1]["answer"]["view"]
    late = {"user_id": user, "view": host.client.published[-1][2], "hash": first["hash"]}
    host.workers[0] = worker("W000", fine=False, reason="newer")
    host.now += 60
    await asyncio.to_thread(host.homes.order_all)
    await host.deliver()
    with pytest.raises(SlackApiError, match="hash_conflict"):
        await host.client.views_publish(**late)
    assert "newer" in host.shown(user)


async def test_while_slack_is_away_pages_wait_and_then_only_the_newest_is_published(
    host: Host, slack: Playground
) -> None:
    user = OPERATORS[0]
    await host.open(user)
    slack.fault("status", "views.publish", status=503, times=3)
    for number in range(3):
        host.workers[0] = worker("W000", fine=False, reason=f"nobody saw {number}")
        await asyncio.to_thread(host.homes.order_all)
        await host.deliver()
        host.now += 40
    assert user not in slack.server.world.workspace.homes
    assert "503" in host.delivery.problem or "views.publish" in host.delivery.problem
    host.workers[0] = worker("W000", fine=False, reason="the newest")
    await host.deliver()
    assert "the newest" in host.shown(user)
    assert len([call for call in slack.calls("views.publish") if call["status"] == 200]) == 1


async def test_who_has_no_right_reads_which_is_missing_and_who_loses_it_reads_that_next(
    host: Host, slack: Playground
) -> None:
    guest, gone = slack.user("guest", is_restricted=True).id, slack.user("gone").id
    operator = OPERATORS[0]
    for user in (guest, operator):
        await host.open(user)
    await host.deliver()
    assert "You are a guest in this workspace" in host.shown(guest)
    assert "W000" not in host.shown(guest)
    assert "W000" in host.shown(operator)
    access = host.config.slack.access.model_copy(update={"viewers": (gone,), "operators": ()})
    host.configured(host.config.model_copy(update={"slack": host.config.slack.model_copy(update={"access": access})}))
    host.now += 60
    await asyncio.to_thread(host.homes.order_all)
    await host.deliver()
    assert "`status` is limited to viewers" in host.shown(operator)
    assert "slack.access.viewers" in host.shown(operator)
    assert "W000" not in host.shown(operator)


async def test_a_page_that_nobody_can_be_shown_is_dropped_and_ordered_anew_by_its_reader_alone(
    host: Host, slack: Playground
) -> None:
    world, user = slack.server.world, OPERATORS[0]
    world.app = replace(world.app, home_tab=False)
    await host.open(user)
    await host.deliver()
    assert host.row(user)["state"] == "dropped"
    assert host.row(user)["last_error"] == f"App Home can't be shown to {user}: not_enabled"
    await asyncio.to_thread(host.homes.order_all)
    assert host.row(user)["state"] == "dropped"
    world.app = replace(world.app, home_tab=True)
    await host.open(user)
    await host.deliver()
    assert "W000" in host.shown(user)


async def test_a_page_that_slack_refuses_is_told_in_words(host: Host, slack: Playground) -> None:
    slack.fault("error", "views.publish", error="view_too_large")
    await host.open(OPERATORS[0])
    await host.deliver()
    assert "200 workers" in host.shown(OPERATORS[0])
    assert "Slack can't show the whole page" in host.shown(OPERATORS[0])
    assert host.row(OPERATORS[0])["state"] == "sent"


async def test_where_slack_does_not_say_who_somebody_is_their_page_waits(host: Host, slack: Playground) -> None:
    slack.fault("ratelimited", "users.info", retry_after=30)
    await host.open(OPERATORS[0])
    await host.deliver()
    assert slack.calls("views.publish") == []
    assert len(slack.calls("users.info")) == 1
    host.now += 31
    host.starts_anew()  # whoever looks people up waits by the real clock
    await host.deliver()
    assert "W000" in host.shown(OPERATORS[0])


async def test_what_another_process_did_is_known_by_the_card_that_tells_of_it(host: Host, slack: Playground) -> None:
    await host.open(OPERATORS[0])
    await host.deliver()
    assert host.cards_told == []
    with Ledger(Path(host.ledger.name), "TestHost", HeadFile(Path(host.ledger.name).parent)) as another:
        place = {"channel": slack.channel("ops").id}
        new = jobs.NewJob(
            "t1", "W000", "pause", {}, None, Issuer("cli:anna", "anna"), "cli", datetime.now(UTC), card=place
        )
        another.write(
            lambda connection: jobs.file(connection, "TestHost", new, datetime.now(UTC) - timedelta(seconds=1))
        )
    await host.deliver()
    assert host.cards_told == [""]
    host.now += 60
    await asyncio.to_thread(host.homes.order_all)
    await host.deliver()
    assert "pause W000" in host.shown(OPERATORS[0])
