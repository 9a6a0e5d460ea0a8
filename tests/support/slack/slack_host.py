"""What deals with requests from Slack, in this process: a desk, a local Slack that says who people are, and rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from slack_sdk.web.async_client import AsyncWebClient

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.on_call import OnCallPeople
from bot.access.people import People
from bot.access.rules import APPROVALS, AccessRules, configured_ids
from bot.inbound.dispatcher import Response
from bot.inbound.identity import Identity
from bot.inbound.router import Router
from bot.outbound.content import MessageComposer
from bot.outbound.messages import HOME
from bot.outbound.modals import Modals
from bot.requests.alert_actions import AlertActions
from bot.requests.commands import CommandRequests
from bot.requests.form_actions import FormActions
from bot.requests.handlers import RequestHandlers
from bot.requests.home_actions import HomeActions
from bot.requests.votes import PendingApprovals, Votes
from slack_playground import Playground
from supervisor_core.alerts.actions import AlertService
from supervisor_core.alerts.oncall import OnCallDirectory
from supervisor_core.code.planning import find_commit
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.observed_state import observer
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message
from tests.support.intake.approvals import Desk


class NotedModals(Modals):
    """Notes the forms that it should open."""

    def __init__(self, noted: list[dict[str, object]]) -> None:
        super().__init__(AsyncWebClient())
        self._noted = noted

    async def open(self, _trigger: str, view: dict[str, Any]) -> str:
        """Note the form."""
        self._noted.append(view)
        return "V1"

    async def show_when_ready(self, trigger_id: str, _title: str, compose: Callable[[], Awaitable[Any]]) -> bool:
        """Note the form, however long it takes."""
        return bool(await self.open(trigger_id, await compose()))


class SlackRoom:
    """The app on a desk; each request is dealt with by the configuration that the desk has by then."""

    def __init__(self, desk: Desk, slack: Playground) -> None:
        self.desk, self.slack = desk, slack
        self.workspace = "T0PLAYGROUND"
        self.forms: list[dict[str, object]] = []
        self._client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        identity = Identity(self.workspace, "U0BOT", "B0BOT", "supervisor", "playground")
        self.on_call = OnCallPeople(self._client, OnCallDirectory(lambda: self.desk.config))
        self.router = Router(self._client, identity, self._handlers)
        self.alone = False
        """Whether what is pressed stands on a message that only its reader sees."""
        self.key = ""
        """The key of each envelope from now on: the same delivery, repeated."""
        self._keys = 0
        self.said_meanwhile: list[Message] = []
        """What was said while the slow part of a request was under way."""

    async def slash(self, name: str, text: str, **more: Any) -> Response:
        """Somebody types `/supervisor …`."""
        payload = {"command": "/supervisor", "text": text, "user_id": self.slack.user(name).id, "channel_id": "C0OPS"}
        return await self.deal("slash_commands", {**payload, "team_id": self.workspace, **more})

    async def press(self, name: str, button: dict[str, Any], **user: Any) -> Response:
        """Somebody presses this button."""
        action = {key: button[key] for key in ("action_id", "value")} | {"type": "button", "action_ts": "1.0"}
        return await self._act(name, {**action, "block_id": "b"}, user)

    async def choose(self, name: str, menu: dict[str, Any], block_id: str, value: str) -> Response:
        """Somebody chooses this from a menu."""
        option = {"text": {"type": "plain_text", "text": value}, "value": value}
        action = {"type": "static_select", "action_id": menu["action_id"], "selected_option": option}
        return await self._act(name, {**action, "block_id": block_id, "action_ts": "1.0"}, {})

    async def send(self, name: str, view: dict[str, Any], **said: str) -> Response:
        """Somebody sends a form in which they say this."""
        values = {block: {block: {"type": "plain_text_input", "value": words}} for block, words in said.items()}
        filled = {**view, "id": "V1", "hash": "1.a", "state": {"values": values}}
        who = {"id": self.slack.user(name).id, "team_id": self.workspace}
        body = {"type": "view_submission", "user": who, "team": {"id": self.workspace}, "view": filled}
        return await self.deal("interactive", body)

    async def _act(self, name: str, action: dict[str, Any], user: dict[str, Any]) -> Response:
        who = {"id": self.slack.user(name).id, "team_id": self.workspace, **user}
        place = {"type": "message", "message_ts": "1.0", "channel_id": "C0OPS", "is_ephemeral": self.alone}
        body: dict[str, Any] = {
            "type": "block_actions",
            "user": who,
            "team": {"id": self.workspace},
            "container": place,
        }
        body |= {"channel": {"id": "C0OPS"}, "actions": [action], "trigger_id": "t1"}
        return await self.deal("interactive", body)

    async def deal(self, kind: str, payload: dict[str, Any], key: str = "", at: datetime | None = None) -> Response:
        """One envelope; the response without its order of a Home page."""
        self._keys += 1
        received = StoredEnvelope(key or self.key or f"k{self._keys}", kind, payload, at or datetime.now(UTC))
        response = await self.router.handle(received)
        response = await response.rest(self.say) if response.rest else response
        return replace(response, messages=tuple(message for message in response.messages if message.kind != HOME))

    async def say(self, messages: tuple[Message, ...]) -> bool:
        """Note what is said before the slow part ends."""
        self.said_meanwhile += messages
        return True

    def _access(self) -> AccessChecks:
        config = self.desk.config
        rules = AccessRules(config.slack, config.teams, config.workers, self.workspace)
        wanted = {who for who, _ in configured_ids(config.slack, config.teams)}
        return AccessChecks(People(self._client, wanted, on_call=self.on_call), rules)

    def _handlers(self) -> RequestHandlers:
        access = self._access()
        allowed = AllowedCommands(self.desk.config, access)
        pending = PendingApprovals(self.desk.ledger, MessageComposer(), allowed)
        queries = {APPROVALS: pending.answer}
        desk = self.desk
        host = replace(desk.parts.host, ledger=desk.parts.ledger)
        hosts = cast("Hosts", SimpleNamespace(preview=observer(lambda: host)))
        find = partial(find_commit, host)
        commands = CommandRequests(desk.config, desk.gateway, find, access, queries, lambda: None)
        modals = NotedModals(self.forms)
        forms = FormActions(modals, self.desk.config, hosts, access, allowed, commands)
        handlers = SimpleNamespace(
            commands=commands,
            votes=Votes(self.desk.approvals, access, modals, pending),
            alerts=AlertActions(AlertService(self.desk.ledger), access),
            forms=forms,
            home=HomeActions(self.desk.ledger, forms, self.desk.config),
        )
        return cast("RequestHandlers", handlers)


def texts(response: Response) -> list[str]:
    """What is told."""
    return [str((message.payload or {})["content"]["text"]) for message in response.messages]
