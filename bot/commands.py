"""What somebody asked for: understood, allowed or refused to them alone, answered, or handed to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.access import Person, Refusal, Rules, may_see, refusal
from bot.asked import Asked
from bot.blockkit import escape
from bot.intake.dealing import Dealt, NotNowError
from bot.outgoing import answer, card_of, whisper
from bot.people import People
from bot.views.help import help_of
from bot.views.overview import EXPLAINED, asked_for, line, overview
from bot.views.told import Content, words
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import CATALOG, OVERVIEW
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.definitions import CommandDefinition, Risk, TargetRule
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.grammar import GrammarError
from supervisor_core.domain.labels import audit_label
from supervisor_core.gateway import Gateway
from supervisor_core.runtime.monitoring import PAUSE, RESUME, Monitoring

LATE = timedelta(minutes=10)
"""What could not be carried out for so long is refused: nobody expects it to happen any more."""

UNNAMED = "Slack does not say who you are, so nothing was done. Try again; `supervisor send` on the host always works."
WAITING = (
    "Slack does not tell me who you are at the moment. I go on asking for ten minutes, and then carry it out or say no."
)

TOLD = frozenset({OVERVIEW, "help", "status", PAUSE, RESUME})
"""What only informs, and can be asked for here."""

WITHOUT_A_FORM = frozenset({OVERVIEW, "help"})
"""What a menu of commands does not offer: it is one itself."""

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
        monitoring: Monitoring,
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._people = people
        self._rules = rules
        self._look = look
        self._submitted = submitted
        self._monitoring = monitoring

    async def deal(self, asked: Asked) -> Dealt:
        """Do what was asked; for what was asked before a crash, again, and to the same end."""
        if await asyncio.to_thread(self._gateway.was_submitted, asked.task_id, asked.actor):
            return _taken(asked)
        try:
            command = self._gateway.parse(asked.text)
        except GrammarError as error:
            return await self._mistaken(asked, error)
        definition = CATALOG[command.name]
        person, refused = await self._judged(asked, definition, command)
        if person is None or refused is not None:
            return _refused(asked, person, refused.words if refused else UNNAMED, command)
        if definition.handler is None:
            return Dealt(messages=(answer(asked, await self._told(asked, command)),))
        return await self._submit(asked, command, person)

    async def offered(self, user: str) -> list[CommandDefinition]:
        """What a form may offer this person: what they may give to some worker at least, and can give here."""
        return self._offered(await self._people.person(user))

    def _offered(self, person: Person | None) -> list[CommandDefinition]:
        return [
            each
            for each in CATALOG.values()
            if each.name not in WITHOUT_A_FORM and _is_here(each) and may_see(person, each, self._rules)
            if self._config.workers or each.target is not TargetRule.WORKERS
        ]

    async def _mistaken(self, asked: Asked, error: GrammarError) -> Dealt:
        """What was expected names workers, so it is for viewers alone, as they are."""
        person, refused = await self._judged(asked, CATALOG["help"], None)
        if refused is not None:
            return _refused(asked, person, refused.words)
        meant = f"\nDid you mean: `/supervisor {escape(error.suggestion)}`" if error.suggestion else ""
        return Dealt(messages=(whisper(asked, words(f":warning: {escape(error.message)}{meant}")),))

    async def _judged(
        self, asked: Asked, definition: CommandDefinition, command: Command | None
    ) -> tuple[Person | None, Refusal | None]:
        """Who asks, and why they may not, if so. Groups are asked for only where the person's own id does not do."""
        fresh = definition.risk is not Risk.READS
        person = await self._person(asked, fresh=fresh, groups=False)
        refused = refusal(person, definition, command, asked.channel, self._rules)
        if person is not None and refused is not None and refused.by_role:
            person = await self._person(asked, fresh=fresh, groups=True)
            refused = refusal(person, definition, command, asked.channel, self._rules)
        return person, refused

    async def _person(self, asked: Asked, *, fresh: bool, groups: bool) -> Person | None:
        try:
            return await self._people.person(asked.user, fresh=fresh, groups=groups)
        except NotNowError as error:
            if _is_late(asked):
                return None
            error.messages = (whisper(asked, words(f":hourglass: {WAITING}"), about=" waits"),)
            raise

    async def _submit(self, asked: Asked, command: Command, person: Person) -> Dealt:
        issuer = Issuer(asked.actor, person.name)
        try:
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await asyncio.to_thread(
                self._gateway.submit, command, issuer, "slack", task_id=asked.task_id, card=card_of(asked)
            )
        except SupervisorError as error:
            if error.retryable and not _is_late(asked):
                raise NotNowError(str(error)) from error
            return Dealt(messages=(whisper(asked, words(f":warning: {escape(str(error))}")),))
        self._submitted()
        return _taken(asked)

    async def _told(self, asked: Asked, command: Command) -> Content:
        """What only informs; of commands only those that its reader may give."""
        person = await self._person(asked, fresh=False, groups=True)
        if command.name == OVERVIEW:
            return await self._overview(asked, person)
        if command.name == "help":
            return self._help(str(command.params.get("topic") or ""), person)
        if command.name == "status":
            workers = [worker for worker in await self._look() if worker["id"] in command.workers]
            return words("\n".join(line(worker) for worker in workers) or "There are no workers.")
        if command.name in (PAUSE, RESUME):
            return words(await self._rest(asked, command, person))
        return words(
            f":construction: `{command.name}` can't be asked for in Slack yet. "
            "`/supervisor help` shows what can; on the host, `supervisor help` shows what the shell can."
        )

    async def _rest(self, asked: Asked, command: Command, person: Person | None) -> str:
        rests = command.name == PAUSE
        try:
            done = await self._monitoring(rests, Issuer(asked.actor, person.name if person else ""))
        except SupervisorError as error:
            return f":warning: {escape(str(error))}"
        return f"{':double_vertical_bar:' if rests else ':arrow_forward:'} {done}"

    def _help(self, topic: str, person: Person | None) -> Content:
        mine = [each for each in CATALOG.values() if may_see(person, each, self._rules)]
        here = [each.name for each in mine if _is_here(each)]
        return help_of(topic, mine, here)

    async def _overview(self, asked: Asked, person: Person | None) -> Content:
        workers = await self._look()
        allowed = {
            worker["id"]: [name for name in EXPLAINED if self._may_press(person, name, worker["id"], asked.channel)]
            for worker in workers
        }
        more = bool(self._offered(person))
        return overview(self._config.supervisor.id, workers, allowed, asked.nonce, more=more)

    def _may_press(self, person: Person | None, name: str, worker_id: str, channel: str) -> bool:
        definition = CATALOG[name]
        if not definition.built or self._config.needs_approval(name, "slack"):
            return False
        command = Command(name, workers=(worker_id,))
        return refusal(person, definition, command, channel, self._rules) is None


def _taken(asked: Asked) -> Dealt:
    """The command is on its way, and its card says the rest; a button that only its reader saw is replaced by that."""
    if not asked.replaces:
        return Dealt()
    name, _, target = asked.text.partition(" ")
    return Dealt(messages=(whisper(asked, asked_for(name, target, asked.nonce), replace=True),))


def _is_here(definition: CommandDefinition) -> bool:
    """Whether it can be given in Slack already."""
    return definition.name in TOLD or (definition.built and definition.handler is not None)


def _is_late(asked: Asked) -> bool:
    return datetime.now(UTC) - asked.at > LATE


def _refused(asked: Asked, person: Person | None, why: str, command: Command | None = None) -> Dealt:
    """Told to them alone, and written into the trail."""
    label = command.label if command else None
    entry = AuditEntry(
        actor=asked.actor,
        action="REFUSED",
        target_id=(command.target if command else "") or "-",
        outcome="failure",
        label=audit_label(person.name if person else "", asked.actor, label),
        task_id=asked.task_id,
        details={"command": command.name if command else None, "error": why, "door": "slack", "label": label},
    )
    return Dealt(entry, (whisper(asked, words(f":no_entry: {why}")),))
