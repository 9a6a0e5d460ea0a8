"""What somebody asked for: understood, allowed or refused to them alone, answered, or handed to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bot.access import Person, Refusal, may_see
from bot.asked import Asked
from bot.blockkit import escape
from bot.intake.dealing import Dealt, NotNowError
from bot.judging import NOBODY, Judging, is_late
from bot.mistakes import Mistakes, may_press
from bot.outgoing import answer, card_of, whisper
from bot.views.approval import Asking
from bot.views.help import help_of
from bot.views.overview import BUTTONS, asked_for, line, overview
from bot.views.told import Content, words
from bot.views.waiting import waiting
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import CATALOG, OVERVIEW
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.definitions import CommandDefinition, TargetRule
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.grammar import GrammarError
from supervisor_core.domain.labels import audit_label
from supervisor_core.gateway import Gateway
from supervisor_core.runtime.monitoring import PAUSE, RESUME, Monitoring

TOLD = frozenset({OVERVIEW, "help", "status", "approvals", PAUSE, RESUME})
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
        judging: Judging,
        look: Look,
        submitted: Callable[[], None],
        monitoring: Monitoring,
        waiting: Callable[[], Awaitable[list[Asking]]],
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._judging = judging
        self._mistakes = Mistakes(config, judging.rules)
        self._look = look
        self._submitted = submitted
        self._monitoring = monitoring
        self._waiting = waiting

    async def deal(self, asked: Asked) -> Dealt:
        """Do what was asked; for what was asked before a crash, again, and to the same end."""
        if await asyncio.to_thread(self._gateway.was_submitted, asked.task_id, asked.actor):
            return _taken(asked)
        try:
            command = self._gateway.parse(asked.text)
        except GrammarError as error:
            return await self._mistaken(asked, error)
        definition = CATALOG[command.name]
        person, refused = await self._judging.of_command(asked, definition, command)
        if person is None or refused is not None:
            return _refused(asked, person, refused or NOBODY, command)
        if definition.handler is None:
            return Dealt(messages=(answer(asked, await self._told(asked, command)),))
        return await self._submit(asked, command, person)

    async def offered(self, user: str) -> list[CommandDefinition]:
        """What a form may offer this person: what they may give to some worker at least, and can give here."""
        return self._offered(await self._judging.known(user))

    def _offered(self, person: Person | None) -> list[CommandDefinition]:
        return [
            each
            for each in CATALOG.values()
            if each.name not in WITHOUT_A_FORM and _is_here(each) and may_see(person, each, self._judging.rules)
            if self._config.workers or each.target is not TargetRule.WORKERS
        ]

    async def _mistaken(self, asked: Asked, error: GrammarError) -> Dealt:
        """What was expected names workers, so it is for viewers alone, as they are."""
        person, refused = await self._judging.of_command(asked, CATALOG["help"], None)
        if refused is not None:
            return _refused(asked, person, refused)
        person = await self._judging.person(asked)
        return Dealt(messages=(whisper(asked, self._mistakes.answer(asked, error, person)),))

    async def _submit(self, asked: Asked, command: Command, person: Person) -> Dealt:
        issuer = Issuer(asked.actor, person.name)
        try:
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await asyncio.to_thread(
                self._gateway.submit, command, issuer, "slack", task_id=asked.task_id, card=card_of(asked)
            )
        except SupervisorError as error:
            if error.retryable and not is_late(asked):
                raise NotNowError(str(error)) from error
            return Dealt(messages=(whisper(asked, words(f":warning: {escape(str(error))}")),))
        self._submitted()
        return _taken(asked)

    async def _told(self, asked: Asked, command: Command) -> Content:
        """What only informs; of commands only those that its reader may give."""
        person = await self._judging.person(asked)
        if command.name == OVERVIEW:
            return await self._overview(asked, person)
        if command.name == "help":
            return self._help(str(command.params.get("topic") or ""), person)
        if command.name == "status":
            workers = [worker for worker in await self._look() if worker["id"] in command.workers]
            return words("\n".join(line(worker) for worker in workers) or "There are no workers.")
        if command.name == "approvals":
            return waiting(await self._waiting())
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
        mine = [each for each in CATALOG.values() if may_see(person, each, self._judging.rules)]
        here = [each.name for each in mine if _is_here(each)]
        return help_of(topic, mine, here)

    async def _overview(self, asked: Asked, person: Person | None) -> Content:
        workers = await self._look()
        allowed = {
            worker["id"]: [name for name in BUTTONS if self._may_press(person, name, worker["id"], asked.channel)]
            for worker in workers
        }
        asking = [name for name in BUTTONS if self._config.needs_approval(name, "slack")]
        more = bool(self._offered(person))
        return overview(self._config.supervisor.id, workers, allowed, asked.nonce, asking, more=more)

    def _may_press(self, person: Person | None, name: str, worker_id: str, channel: str) -> bool:
        command = Command(name, workers=(worker_id,))
        return may_press(person, command, channel, self._judging.rules)


def _taken(asked: Asked) -> Dealt:
    """The command is on its way, and its card says the rest; a button that only its reader saw is replaced by that."""
    if not asked.replaces:
        return Dealt()
    name, _, target = asked.text.partition(" ")
    return Dealt(messages=(whisper(asked, asked_for(name, target, asked.nonce), replace=True),))


def _is_here(definition: CommandDefinition) -> bool:
    """Whether it can be given in Slack already."""
    return definition.name in TOLD or (definition.built and definition.handler is not None)


def _refused(asked: Asked, person: Person | None, why: Refusal, command: Command | None = None) -> Dealt:
    """Told to them alone, and written into the trail."""
    label = command.label if command else None
    entry = AuditEntry(
        actor=asked.actor,
        action="REFUSED",
        target_id=(command.target if command else "") or "-",
        outcome="failure",
        label=audit_label(person.name if person else "", asked.actor, label),
        task_id=asked.task_id,
        details={
            "command": command.name if command else None,
            "error": why.plain,
            "missing": why.missing,
            "door": "slack",
            "label": label,
        },
    )
    return Dealt(entry, (whisper(asked, words(f":no_entry: {why.words}")),))
