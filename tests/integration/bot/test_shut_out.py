"""A channel that takes nothing from us any more: its messages go elsewhere, and the admins are told, once a day."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.delivery import Delivery
from bot.outbound.messages import admins, notify_admins
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.views.blocks import text_message
from slack_playground import Playground
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.config.schema import AccessSettings, SlackSettings
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from tests.support.alerts.delivery import whole_round
from tests.support.homes import ROOT


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db", "Host") as made:
        yield made


class Channels:
    """A delivery for alerts in #ops, with #elsewhere behind it."""

    def __init__(
        self, slack: Playground, ledger: Ledger, approvers: tuple[str, ...] = (), operators: tuple[str, ...] = ()
    ) -> None:
        self.slack, self.ledger = slack, ledger
        self.ops, self.elsewhere = slack.channel("ops"), slack.channel("elsewhere")
        config = SlackSettings(
            alert_channel=self.ops.id,
            fallback_channel=self.elsewhere.id,
            access=AccessSettings(approvers=approvers, operators=operators),
        )
        client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        told = partial(notify_admins, slack=config, host="Host", bot="supervisor")
        fallback = config.fallback_channel
        sender = MessageSender(ledger, SlackApi(client), "supervisor", fallback=fallback, on_refusal=told)
        self.delivery = Delivery(sender)

    async def alert(self, name: str, text: str = "") -> None:
        """Something for #ops, or the same one in other words; and what follows from it."""
        content = text_message(text or name)
        self.ledger.order([Message(NOTICE, name, {"channel": self.ops.id, "content": content})])
        for _ in range(3):
            await whole_round(self.delivery)


SHUT: dict[str, tuple[Callable[[Channels], object], str, str]] = {
    "archived": (lambda channels: channels.ops.archive(), "is_archived", "Unarchive the channel"),
    "removed": (lambda channels: channels.ops.without_bot(), "not_in_channel", "/invite @supervisor"),
}


@pytest.mark.playground(manifest=ROOT / "manifest.yml")
@pytest.mark.parametrize("how", SHUT)
async def test_what_belongs_there_is_posted_in_the_fallback_and_each_admin_is_told_once(
    slack: Playground, ledger: Ledger, how: str
) -> None:
    shut, why, remedy = SHUT[how]
    admin, other = slack.user("approver"), slack.user("operator")
    channels = Channels(slack, ledger, approvers=(admin.id, "S0ADMINS"), operators=(other.id,))
    await channels.alert("first")
    await channels.ops.shows(1, "first")
    shut(channels)
    await channels.alert("second")
    await channels.alert("first", "first is over")
    await channels.elsewhere.shows(1, "second")
    await channels.elsewhere.shows(1 if how == "archived" else 0, "first is over")
    await admin.dm().shows(1, why)
    await admin.dm().shows(1, remedy)
    await admin.dm().shows(1, "message")
    await other.dm().shows(0, "messages")


async def test_an_admin_who_can_not_be_reached_is_given_up_after_a_day_and_is_told_nowhere_else(
    slack: Playground, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    admin = slack.user("approver")
    channels = Channels(slack, ledger, approvers=(admin.id,))
    channels.ops.archive()
    slack.fault("error", "conversations.open", error="channel_not_found", times=9)
    await channels.alert("first")
    await channels.elsewhere.shows(1, "message")
    long_ago = datetime.now(UTC) - timedelta(days=2)
    ledger.write(
        lambda c: c.exec_driver_sql(
            "UPDATE outbox_t SET created_at = ?, due_at = ?",
            (f"{long_ago:%Y-%m-%dT%H:%M:%S.%fZ}", f"{long_ago:%Y-%m-%dT%H:%M:%S.%fZ}"),
        )
    )
    caplog.set_level(logging.ERROR)
    await channels.alert("second")
    assert "can't be delivered" in caplog.text


def test_admins_are_the_approvers_who_are_named_one_by_one_else_the_operators() -> None:
    def of(approvers: tuple[str, ...], operators: tuple[str, ...]) -> tuple[str, ...]:
        return admins(SlackSettings(access=AccessSettings(approvers=approvers, operators=operators)))

    assert of(approvers=("U0ANNA", "S0ADMINS", "W0BOB"), operators=("U0CY",)) == ("U0ANNA", "W0BOB")
    assert of(approvers=("S0ADMINS", "*"), operators=("U0CY",)) == ("U0CY",)
    assert of(approvers=("S0ADMINS",), operators=("*",)) == ()
