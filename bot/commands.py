"""What somebody typed: understood, allowed or refused to them alone, answered, or handed to the gateway."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from bot.access import Person, Rules, may_see, refusal
from bot.blockkit import escape, fit
from bot.people import People
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import CATALOG, FAMILIES, find
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.grammar import GrammarError
from supervisor_core.domain.labels import audit_label
from supervisor_core.domain.manual import help_overview, help_text
from supervisor_core.gateway import Gateway
from supervisor_core.ledger.envelopes import Received

LONGEST_ANSWER = 2900
"""Characters of one section; what is longer is cut, and says so."""

log = logging.getLogger(__name__)

Look = Callable[[Command], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request from Slack, whichever door it came through."""

    text: str
    user: str
    team: str
    channel: str
    thread: str | None
    response_url: str | None
    key: str
    at: datetime


class Commands:
    """Deals with requests. `status` tells how workers are, `audited` writes a refusal into the trail."""

    def __init__(
        self,
        gateway: Gateway,
        people: People,
        client: AsyncWebClient,
        rules: Rules,
        status: Look,
        audited: Callable[[AuditEntry], Awaitable[object]],
        submitted: Callable[[], None],
    ) -> None:
        self._gateway = gateway
        self._people = people
        self._client = client
        self._rules = rules
        self._status = status
        self._audited = audited
        self._submitted = submitted

    async def deal(self, received: Received) -> None:
        """Do what an envelope asks for; for one that came before a crash, again."""
        asked = _asked(received)
        if asked is None:
            return
        person = await self._people.person(asked.user, fresh=True)
        try:
            command = self._gateway.parse(asked.text)
        except GrammarError as error:
            await self._answer(asked, f":warning: {escape(str(error))}")
            return
        definition = CATALOG[command.name]
        refused = refusal(person, definition, command, asked.channel, self._rules)
        if refused is not None or person is None:
            await self._refused(asked, command, person, refused.words if refused else "")
        elif definition.handler is None:
            await self._answer(asked, await self._told(command, person))
        else:
            await self._submit(asked, command, person)

    async def _submit(self, asked: Asked, command: Command, person: Person) -> None:
        issuer = Issuer(f"slack:{asked.team}/{asked.user}", person.name)
        place = {"channel": asked.channel, "user": asked.user, "thread_ts": asked.thread}
        try:
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await asyncio.to_thread(self._gateway.submit, command, issuer, "slack", task_id=_task_id(asked), card=place)
        except SupervisorError as error:
            await self._answer(asked, f":warning: {escape(str(error))}")
        else:
            self._submitted()

    async def _told(self, command: Command, person: Person) -> str:
        """What only informs."""
        if command.name in ("help", "overview"):
            return f"```{_help(str(command.params.get('topic') or ''), person, self._rules)}```"
        if command.name == "status":
            return await self._status(command)
        return f":warning: `{command.name}` is known, but not built yet."

    async def _refused(self, asked: Asked, command: Command, person: Person | None, words: str) -> None:
        name = person.name if person else ""
        actor = f"slack:{asked.team}/{asked.user}"
        entry = AuditEntry(
            actor=actor,
            action="REFUSED",
            target_id=command.target or "-",
            outcome="failure",
            label=audit_label(name, actor, command.label),
            task_id=_task_id(asked),
            details={"command": command.name, "error": words, "door": "slack", "label": command.label},
        )
        await self._audited(entry)
        await self._answer(asked, f":no_entry: {words}")

    async def _answer(self, asked: Asked, text: str) -> None:
        """To the asker alone: by the command's own address, which works where the bot is no member."""
        text = fit(text, LONGEST_ANSWER)
        block = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
        if asked.response_url:
            answer = await AsyncWebhookClient(asked.response_url).send(text=text, blocks=[block])
            if answer.status_code != 200:  # the address has run out, or Slack is away: nothing was done, and it is said
                log.warning("the answer to %s could not be given: %d", asked.user, answer.status_code)
            return
        await self._client.chat_postEphemeral(
            channel=asked.channel, user=asked.user, thread_ts=asked.thread, text=text, blocks=[block]
        )


def _asked(received: Received) -> Asked | None:
    """The request in an envelope, or None where there is none in it."""
    payload = received.payload
    if received.kind == "slash_commands":
        return Asked(
            text=str(payload.get("text") or ""),
            user=str(payload["user_id"]),
            team=str(payload.get("team_id") or ""),
            channel=str(payload["channel_id"]),
            thread=None,
            response_url=payload.get("response_url"),
            key=received.key,
            at=received.received_at,
        )
    event = payload.get("event")
    if received.kind == "events_api" and isinstance(event, Mapping) and event.get("type") == "app_mention":
        return Asked(
            text=str(event.get("text") or ""),
            user=str(event["user"]),
            team=str(payload.get("team_id") or ""),
            channel=str(event["channel"]),
            thread=event.get("thread_ts"),
            response_url=None,
            key=received.key,
            at=received.received_at,
        )
    return None


def _task_id(asked: Asked) -> str:
    """The same envelope is the same task, also when it is dealt with again after a crash."""
    return f"task_{asked.at:%Y%m%d_%H%M%S}_{hashlib.sha256(asked.key.encode()).hexdigest()[:7]}"


def _help(topic: str, person: Person, rules: Rules) -> str:
    definition = find(topic)
    if definition is not None:
        return escape(help_text(definition))
    if topic in FAMILIES:
        return escape("\n\n".join(help_text(each) for each in FAMILIES[topic]))
    return escape(help_overview(each for each in CATALOG.values() if may_see(person, each, rules)))


def status_words(workers: list[dict[str, Any]]) -> str:
    """How workers are, a line each, with a word and a sign."""
    lines = []
    for worker in workers:
        sign = ":white_check_mark:" if worker["fine"] else ":x:"
        why = worker["last_error"] if worker["last_error"] and not worker["fine"] else worker["reason"]
        lines.append(f"{sign} *{escape(worker['id'])}* {worker['state']}, {worker['health']}: {escape(fit(why, 200))}")
    return "\n".join(lines) or "There are no workers."
