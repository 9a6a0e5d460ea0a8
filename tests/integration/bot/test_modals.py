"""Forms of a slow Slack: a loading view is there in time, and the form, or the reason for none, replaces it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.dispatcher import Response
from bot.inbound.identity import Identity
from bot.inbound.router import Router
from bot.outbound.modals import Modals, NoFormError
from bot.requests.handlers import RequestHandlers
from bot.views import forms as views
from bot.views.blocks import Json, section
from bot.views.blocks import modal as blocks_modal
from slack_playground import Playground
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.storage.envelopes import StoredEnvelope
from tests.support.slack.forms import form_actions

SLOW_SECONDS = 0.3
CROWD = 1500


def modals(slack: Playground) -> Modals:
    return Modals(AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[]))


def trigger(slack: Playground) -> str:
    return str(slack.server.acting._payloads.trigger(slack.user("operator").user))  # noqa: SLF001


def a_form() -> Json:
    return blocks_modal("form", "Ready", [section("Fill this in")], "")


async def nothing(*_: object) -> Response:
    return Response()


async def test_the_picker_opens_though_its_rights_come_from_a_crowded_channel_of_a_slow_slack(
    slack: Playground, tmp_path: Path
) -> None:
    operator = slack.user("operator")
    crowd = [*(slack.user(f"u{number}") for number in range(CROWD - 1)), operator]
    place = slack.channel("oncall", private=True, members=crowd)
    slack.server.world.join(place.channel, slack.server.world.bot)
    path = tmp_path / "config.yaml"
    access, workers = {"operators": [place.id]}, {"North": {"command": ["true"]}}
    path.write_text(yaml.safe_dump({"slack": {"access": access}, "workers": workers}))
    config = load_supervisor_config(path, environ={})
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    forms = form_actions(client, config, operator.user.team_id, nothing)
    handlers = cast("RequestHandlers", SimpleNamespace(forms=forms))
    router = Router(client, Identity("T0", "U0BOT", "B0", "bot", "team"), lambda: handlers)
    slack.fault("delay", times=0, seconds=SLOW_SECONDS)
    body = {"type": "shortcut", "callback_id": views.SHORTCUT, "user": {"id": operator.id}, "team": {"id": "T0"}}
    envelope = StoredEnvelope("k1", "interactive", {**body, "trigger_id": trigger(slack)}, datetime.now(UTC))
    handling = asyncio.create_task(router.handle(envelope))
    modal = await operator.modal("Loading")
    assert not slack.calls("views.update")
    slack.advance(10)  # the trigger is worth nothing any more
    assert (await handling).messages == ()
    await modal.becomes("Choose a command")
    pages = slack.calls("conversations.members")
    assert [len(page["answer"]["members"]) for page in pages] == [999, CROWD + 1 - 999]


class OutOfReachError(SupervisorError):
    """The remote doesn't answer."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OutOfReachError("The remote doesn't answer.", remedy="Try again."), "The remote doesn't answer."),
        (NoFormError(), "nothing to fill in"),
        (ValueError("secret"), "couldn't be loaded"),
    ],
)
async def test_a_form_that_does_not_come_says_why_in_its_place(slack: Playground, error: Exception, words: str) -> None:
    async def compose() -> Json:
        await asyncio.sleep(SLOW_SECONDS)
        raise error

    with pytest.raises(type(error)):
        await modals(slack).show_when_ready(trigger(slack), "Roll back", compose)
    modal = await slack.user("operator").modal(words)
    shown = modal._view()  # noqa: SLF001
    assert shown is not None
    assert "secret" not in str(shown)


async def test_a_form_that_slack_refuses_leaves_nobody_waiting(slack: Playground) -> None:
    async def compose() -> Json:
        await asyncio.sleep(SLOW_SECONDS)
        return a_form()

    slack.fault("error", "views.update", error="invalid_arguments")
    assert not await modals(slack).show_when_ready(trigger(slack), "Ready", compose)
    await slack.user("operator").modal("couldn't be loaded")


async def test_who_closes_the_loading_view_is_left_alone(slack: Playground) -> None:
    may_go_on = asyncio.Event()

    async def compose() -> Json:
        await may_go_on.wait()
        return a_form()

    opening = asyncio.create_task(modals(slack).show_when_ready(trigger(slack), "Ready", compose))
    await (await slack.user("operator").modal("Loading")).close()
    may_go_on.set()
    assert await opening
    await slack.user("operator").has_no_modal()
