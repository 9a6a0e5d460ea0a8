"""What somebody asked for: understood, allowed or refused to them alone, answered, or handed to the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from bot.access import Person, Refusal
from bot.asked import Asked
from bot.blockkit import escape
from bot.informing import Question, Tell
from bot.intake.dealing import Dealt
from bot.judging import NOBODY, Judging, is_late, not_now
from bot.mistakes import Mistakes
from bot.offering import is_here
from bot.outgoing import answer, card_of, whisper
from bot.views.overview import asked_for
from bot.views.phrases import said
from bot.views.told import words
from supervisor_core.config import SupervisorConfig
from supervisor_core.desk.approvals import NothingToDo
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.grammar import GrammarError, NeedsTarget
from supervisor_core.domain.labels import audit_label
from supervisor_core.gateway import Gateway

NOT_HERE = (
    ":construction: `{name}` can't be asked for in Slack yet. `/supervisor help` shows what can; on the host, "
    "`supervisor help` shows what the shell can."
)


class Commands:
    """Deals with requests. What it answers is rows; nothing is said from here."""

    def __init__(
        self,
        config: SupervisorConfig,
        gateway: Gateway,
        judging: Judging,
        tellers: Mapping[str, Tell],
        submitted: Callable[[], None],
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._judging = judging
        self._mistakes = Mistakes(config, judging.rules)
        self._tellers = tellers
        self._submitted = submitted

    async def deal(self, asked: Asked) -> Dealt:
        """Do what was asked; for what was asked before a crash, again, and to the same end."""
        if await asyncio.to_thread(self._gateway.was_submitted, asked.task_id, asked.actor):
            return _taken(asked)
        try:
            command = self._gateway.parse(asked.text, asked.target)
        except GrammarError as error:
            return await self._mistaken(asked, error)
        definition = CATALOG[command.name]
        person, refused = await self._judging.of_command(asked, definition, command)
        if person is None or refused is not None:
            return _refused(asked, person, refused or NOBODY, command)
        if definition.handler is None:
            return await self._told(asked, command)
        return await self._submit(asked, command, person)

    async def _told(self, asked: Asked, command: Command) -> Dealt:
        """What no host carries out."""
        tell = self._tellers.get(command.name)
        if tell is None or not is_here(CATALOG[command.name]):
            return Dealt(messages=(answer(asked, words(NOT_HERE.format(name=command.name))),))
        return await tell(Question(asked, command, await self._judging.person(asked)))

    async def _mistaken(self, asked: Asked, error: GrammarError) -> Dealt:
        """What was expected names workers, so it is for viewers alone, as they are."""
        person, refused = await self._judging.of_command(asked, CATALOG["help"], None)
        if refused is not None:
            return _refused(asked, person, refused)
        if isinstance(error, NeedsTarget):  # whoever may do it to none of them need not say to which
            whole = Command(error.name, workers=error.choices)
            person, refused = await self._judging.of_command(asked, CATALOG[error.name], whole)
            if refused is not None and not self._mistakes.may_for_one(asked, error, person):
                return _refused(asked, person, refused, whole)
        person = await self._judging.person(asked)
        return Dealt(messages=(whisper(asked, self._mistakes.answer(asked, error, person)),))

    async def _submit(self, asked: Asked, command: Command, person: Person) -> Dealt:
        issuer = Issuer(asked.actor, person.name)
        try:
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await asyncio.to_thread(
                self._gateway.submit, command, issuer, "slack", task_id=asked.task_id, card=card_of(asked)
            )
        except NothingToDo as nothing:
            return Dealt(messages=(whisper(asked, words(f":ballot_box_with_check: {escape(str(nothing))}")),))
        except SupervisorError as error:
            if error.retryable and not is_late(asked):
                raise not_now(asked, error) from error
            return Dealt(messages=(whisper(asked, words(f":warning: {said(error)}")),))
        self._submitted()
        return _taken(asked)


def _taken(asked: Asked) -> Dealt:
    """The command is on its way, and its card says the rest; a button that only its reader saw is replaced by that."""
    if not asked.replaces:
        return Dealt()
    name, _, said = asked.text.partition(" ")
    return Dealt(messages=(whisper(asked, asked_for(name, asked.target or said, asked.nonce), replace=True),))


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
