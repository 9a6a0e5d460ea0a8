"""The doors with a form, against a local Slack: what they open, and what comes of it where Slack will not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.dispatcher import Response
from bot.inbound.identity import Identity
from bot.inbound.router import Router
from bot.outbound.messages import HOME
from bot.requests.form_actions import FormActions
from bot.requests.handlers import RequestHandlers
from bot.requests.request import Request
from bot.views import forms as views
from slack_playground import Playground
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message
from tests.support.slack.forms import filled, form_actions


class Doors:
    """The app with its form doors; what it is asked is noted instead of done."""

    def __init__(self, slack: Playground, config: SupervisorConfig) -> None:
        self.slack, self.config = slack, config
        self.asked: list[Request] = []
        self.client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
        self._app = Router(self.client, Identity("T0", "U0BOT", "B0", "bot", "team"), self._handlers)

    @property
    def forms(self) -> FormActions:
        return form_actions(self.client, self.config, "T0", self._deal)

    def _handlers(self) -> RequestHandlers:
        return cast("RequestHandlers", SimpleNamespace(forms=self.forms))

    async def _deal(self, asked: Request) -> Response:
        self.asked.append(asked)
        return Response()

    async def open(self, name: str, text: str = "", thread: str | None = None, trigger: str = "") -> list[str]:
        """The form of a command is opened for the operator in #ops; what they are told instead of it."""
        user = self.slack.user("operator").id
        request = Request("", user, "T0", "C0OPS", datetime.now(UTC), "k1", thread=thread)
        opened = await self.forms.open_form(request, trigger or self.trigger(), name, text)
        return [text for _, _, text in told(opened)]

    def trigger(self) -> str:
        """Leave to open a form for the operator."""
        return str(self.slack.server.acting._payloads.trigger(self.slack.user("operator").user))  # noqa: SLF001

    async def deal(self, kind: str, at: datetime | None = None, **payload: Any) -> Response:
        """Something that Slack would send of the operator."""
        who = {"id": self.slack.user("operator").id, "team_id": "T0"}
        body = {"type": kind, "user": who, "team": {"id": "T0"}, **payload}
        return await self._app.handle(StoredEnvelope("k1", "interactive", body, at or datetime.now(UTC)))


@pytest.fixture
def config(tmp_path: Path) -> SupervisorConfig:
    worker = {"command": ["true"]}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"supervisor": {"id": "TestHost"}, "workers": {"North": worker, "South": worker}}))
    return load_supervisor_config(path, environ={})


def told(dealt: Response) -> list[tuple[str, Any, str]]:
    def each(message: Message) -> tuple[str, Any, str]:
        payload = message.payload or {}
        return message.kind, payload["channel"], payload["content"]["text"]

    return [each(message) for message in dealt.messages if message.kind != HOME]


async def test_who_waits_for_a_form_that_does_not_come_is_told_and_who_has_gone_on_is_not(
    slack: Playground, config: SupervisorConfig
) -> None:
    doors = Doors(slack, config)
    operator = slack.user("operator").id
    shortcut: dict[str, Any] = {"callback_id": views.SHORTCUT, "trigger_id": "1.2"}
    ((kind, channel, text),) = told(await doors.deal("shortcut", **shortcut))
    assert (kind, channel) == ("notice", operator)
    assert "The form couldn't be opened" in text
    on_message: dict[str, Any] = {"callback_id": views.SHORTCUT_ON_MESSAGE, "trigger_id": "1.2"}
    on_message["channel"] = {"id": "C0OPS"}
    ((kind, channel, _),) = told(await doors.deal("message_action", **on_message, message={"ts": "1.2"}))
    assert (kind, channel) == ("whisper", "C0OPS")
    hours_ago = datetime.now(UTC) - timedelta(hours=2)
    assert told(await doors.deal("shortcut", hours_ago, **shortcut)) == []
    assert len(slack.calls("views.open")) == 3


async def test_what_was_sent_is_asked_for_in_its_place_and_what_fits_no_more_is_told(
    slack: Playground, config: SupervisorConfig
) -> None:
    doors = Doors(slack, config)
    await doors.open("pause", "pause South hotfix", "1.2")
    shown = (await slack.user("operator").modal())._view()  # noqa: SLF001
    assert shown is not None
    view = {**filled(shown), "callback_id": views.FORM}
    submission = {"type": "view_submission", "view": view}
    assert await doors.forms.answer("interactive", submission) is None
    assert told(await doors.deal("view_submission", view=view)) == []
    (asked,) = doors.asked
    assert (asked.text, asked.channel, asked.thread) == ("pause South hotfix", "C0OPS", "1.2")
    doors.config = doors.config.model_copy(update={"workers": {"North": doors.config.workers["North"]}})
    answer = await doors.forms.answer("interactive", submission)
    assert answer is not None
    assert list(answer["errors"]) == ["target"]
    ((_, channel, text),) = told(await doors.deal("view_submission", view=view))
    assert channel == "C0OPS"
    assert "no longer valid" in text
    assert len(doors.asked) == 1
