"""What somebody asked for: understood, allowed or refused to them alone, answered, or handed to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.access import Person, Rules, may_see, refusal
from bot.asked import Asked
from bot.blockkit import escape
from bot.intake.dealing import Dealt, NotNowError
from bot.outgoing import answer, card_of, whisper
from bot.people import People
from bot.views.overview import EXPLAINED, line, overview
from bot.views.told import Content, listing, words
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import CATALOG, FAMILIES, OVERVIEW, find
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.grammar import GrammarError
from supervisor_core.domain.labels import audit_label
from supervisor_core.domain.manual import help_overview, help_text
from supervisor_core.gateway import Gateway

LATE = timedelta(minutes=10)
"""A command whose sender Slack could not name for so long is refused: nobody expects it to happen any more."""

UNNAMED = "Slack does not say who you are, so nothing was done. Try again; `supervisor send` on the host always works."

Look = Callable[[], Awaitable[list[dict[str, Any]]]]


class Commands:
    """Deals with requests. What it answers is rows; nothing is said from here."""

    def __init__(
        self,
        config: SupervisorConfig,
        gateway: Gateway,
        people: People,
        rules: Rules,
        look: Look,
        submitted: Callable[[], None],
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._people = people
        self._rules = rules
        self._look = look
        self._submitted = submitted

    async def deal(self, asked: Asked) -> Dealt:
        """Do what was asked; for what was asked before a crash, again, and to the same end."""
        try:
            command = self._gateway.parse(asked.text)
        except GrammarError as error:
            return _mistake(asked, error)
        definition = CATALOG[command.name]
        person = await self._person(asked, fresh=definition.handler is not None)
        refused = refusal(person, definition, command, asked.channel, self._rules)
        if refused is not None or person is None:
            return _refused(asked, command, person, refused.words if refused else UNNAMED)
        if definition.handler is None:
            return Dealt(messages=(answer(asked, await self._told(asked, command, person)),))
        return await self._submit(asked, command, person)

    async def _person(self, asked: Asked, *, fresh: bool) -> Person | None:
        try:
            return await self._people.person(asked.user, fresh=fresh)
        except NotNowError:
            if datetime.now(UTC) - asked.at < LATE or asked.pressed:
                raise
            return None

    async def _submit(self, asked: Asked, command: Command, person: Person) -> Dealt:
        issuer = Issuer(asked.actor, person.name)
        try:
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await asyncio.to_thread(
                self._gateway.submit, command, issuer, "slack", task_id=asked.task_id, card=card_of(asked)
            )
        except SupervisorError as error:
            if error.retryable:
                raise NotNowError(str(error)) from error
            return _mistake(asked, error)
        self._submitted()
        if not asked.pressed:
            return Dealt()
        return Dealt(messages=(whisper(asked, await self._overview(asked, person), replace=True),))

    async def _told(self, asked: Asked, command: Command, person: Person) -> Content:
        """What only informs."""
        if command.name == OVERVIEW:
            return await self._overview(asked, person)
        if command.name == "help":
            return listing(_help(str(command.params.get("topic") or ""), person, self._rules))
        if command.name == "status":
            workers = [worker for worker in await self._look() if worker["id"] in command.workers]
            return words("\n".join(line(worker) for worker in workers) or "There are no workers.")
        return words(
            f":construction: `{command.name}` can't be asked for in Slack yet. "
            "`/supervisor help` shows what can; on the host, `supervisor help` shows what the shell can."
        )

    async def _overview(self, asked: Asked, person: Person) -> Content:
        workers = await self._look()
        allowed = {
            worker["id"]: [name for name in EXPLAINED if self._may_press(person, name, worker["id"], asked.channel)]
            for worker in workers
        }
        return overview(self._config.supervisor.id, workers, allowed, asked.nonce)

    def _may_press(self, person: Person, name: str, worker_id: str, channel: str) -> bool:
        definition = CATALOG[name]
        if not definition.built or self._config.needs_approval(name, "slack"):
            return False
        command = Command(name, workers=(worker_id,))
        return refusal(person, definition, command, channel, self._rules) is None


def _mistake(asked: Asked, error: SupervisorError) -> Dealt:
    return Dealt(messages=(whisper(asked, words(f":warning: {escape(str(error))}")),))


def _refused(asked: Asked, command: Command, person: Person | None, why: str) -> Dealt:
    """Told to them alone, and written into the trail."""
    entry = AuditEntry(
        actor=asked.actor,
        action="REFUSED",
        target_id=command.target or "-",
        outcome="failure",
        label=audit_label(person.name if person else "", asked.actor, command.label),
        task_id=asked.task_id,
        details={"command": command.name, "error": why, "door": "slack", "label": command.label},
    )
    return Dealt(entry, (whisper(asked, words(f":no_entry: {why}")),))


def _help(topic: str, person: Person, rules: Rules) -> str:
    definition = find(topic)
    if definition is not None:
        return help_text(definition)
    if topic in FAMILIES:
        return "\n\n".join(help_text(each) for each in FAMILIES[topic])
    return help_overview(each for each in CATALOG.values() if may_see(person, each, rules))
