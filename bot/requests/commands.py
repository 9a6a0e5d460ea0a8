"""The commands that no worker's host carries out: what each answers, as a mapping from its name.

What somebody asked for: understood, allowed or refused to them alone, answered, or handed to the gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.access.checks import NOBODY, AccessChecks, AllowedCommands
from bot.access.rules import Person, Refusal
from bot.inbound.dispatcher import Response
from bot.inbound.dispatcher import SendNow as Say_dealing
from bot.outbound.messages import announcement, answer, card_place, failure, whisper
from bot.pools import previews, quick
from bot.requests.mistakes import Mistakes
from bot.requests.request import Request
from bot.views.answers.help import help_message, retry_message
from bot.views.answers.overview import BUTTONS, monitoring_changed, overview, pressed_button
from bot.views.blocks import Content, text_message
from bot.views.cards.notices import approval_requested, preview_pending
from bot.views.text import error_text, escape
from supervisor_core.code.preview import PREVIEW_SECONDS
from supervisor_core.commands.catalog import CATALOG, OVERVIEW
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.grammar import render
from supervisor_core.commands.grammar_errors import GrammarError, NeedsTarget
from supervisor_core.commands.labels import audit_label
from supervisor_core.common.errors import SupervisorError, TemporaryError
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.services.monitoring import PAUSE, RESUME, SetMonitoring
from supervisor_core.intake.approvals.service import NothingToDo
from supervisor_core.intake.submission import Gateway
from supervisor_core.storage.audit.chain import AuditEntry

ObserveWorkers = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Looks at all workers now."""


@dataclass(frozen=True, slots=True)
class Query:
    """A command that was understood and allowed."""

    request: Request
    command: Command
    person: Person | None
    """Who asks; None where Slack did not say it in time."""
    by: Issuer | None = None
    """As whom it is asked, where that is not this person: a schedule."""

    @property
    def issuer(self) -> Issuer:
        """Who asks, as the audit trail knows them."""
        return self.by or Issuer(self.request.actor, self.person.name if self.person else "")

    @property
    def alone(self) -> bool:
        """Whether nobody else reads the answer: below a mention, and where a schedule asks, whoever is named in it
        would be called."""
        return self.request.message is None and self.by is None


QueryHandler = Callable[[Query], Awaitable[Response]]
"""Answers one command. After a crash it may be called again, and must then come to the same."""

ContentBuilder = Callable[[Query], Awaitable[Content]]
"""Words it alone: nothing is changed by it."""


def reply_with(say: ContentBuilder) -> QueryHandler:
    """Answer with these words: to the asker alone; to a mention, in its thread."""

    async def tell(query: Query) -> Response:
        return Response(messages=(answer(query.request, await say(query)),))

    return tell


class HostAnswers:
    """What can be told of this host as it is now."""

    def __init__(
        self,
        host: str,
        allowed: AllowedCommands,
        look: ObserveWorkers,
        monitoring: SetMonitoring,
        rests: Callable[[], Awaitable[str]],
        looks: Mapping[str, QueryHandler],
        channel: str = "",
    ) -> None:
        """`channel`: where everybody hears of what goes wrong, if there is one."""
        self._host = host
        self._allowed = allowed
        self._look = look
        self._monitoring = monitoring
        self._rests = rests
        self._looks = looks
        self._channel = channel

    def handlers(self) -> Mapping[str, QueryHandler]:
        """Who answers which command."""
        said = {
            OVERVIEW: self._overview,
            "help": self._help,
        }
        rest = {PAUSE: self._rest, RESUME: self._rest}
        return {**{name: reply_with(say) for name, say in said.items()}, **rest, **self._looks}

    async def _overview(self, query: Query) -> Content:
        request, person, workers = query.request, query.person, await self._look()
        allowed = {
            worker["id"]: [
                name for name in BUTTONS if self._allowed.may_press(person, name, worker["id"], request.channel)
            ]
            for worker in workers
        }
        asking = [name for name in BUTTONS if self._allowed.asks(name)]
        more = bool(self._allowed.in_a_form(person))
        rests = await self._rests()
        return overview(self._host, workers, allowed, request.nonce, asking, more=more, rests=rests)

    async def _help(self, query: Query) -> Content:
        mine = self._allowed.known(query.person)
        topic = str(query.command.params.get("topic") or "")
        return help_message(topic, mine, self._allowed.example, self._allowed.workers)

    async def _rest(self, query: Query) -> Response:
        """It is about everybody's workers, so all hear of it who hear of alerts."""
        rests = query.command.name == PAUSE
        try:
            done = await self._monitoring(rests, query.issuer)
        except SupervisorError as error:
            return failure(query.request, error)
        content = monitoring_changed(done, query.issuer, rests=rests)
        return announcement(query.request, content, self._channel, " monitoring")


USED = ":information_source: {who} has already used this button. To run it again: `/supervisor {again}`"

DOOR = "slack"

MOMENT_SECONDS = 1.0
"""A preview that takes longer is announced to whoever waits for it."""


class CommandRequests:
    """Deals with requests. What it answers is rows; nothing is said from here."""

    def __init__(
        self,
        config: SupervisorConfig,
        gateway: Gateway,
        access: AccessChecks,
        handlers: Mapping[str, QueryHandler],
        submitted: Callable[[], None],
    ) -> None:
        self._config = config
        self._gateway = gateway
        self._access = access
        self._mistakes = Mistakes(config, access.rules)
        self._handlers = handlers
        self._submitted = submitted
        self._under_way: set[str] = set()
        """Buttons whose press is being handed over."""

    async def handle(self, request: Request) -> Response:
        """Do what was asked; for what was asked before a crash, again, and to the same end."""
        if await quick(self._gateway.was_submitted, request.task_id, request.actor):
            return _accepted(request)
        try:
            command = self._gateway.parse(request.text, request.target)
        except GrammarError as error:
            return await self._mistaken(request, error)
        definition = CATALOG[command.name]
        person, refused = await self._access.of_command(request, definition, command)
        if person is None or refused is not None:
            return self._refused(request, person, refused or NOBODY, command)
        if definition.handler is None:
            return await self._told(request, command)
        return await self._submit(request, command, person)

    async def _told(self, request: Request, command: Command) -> Response:
        tell = self._handlers[command.name]
        return await tell(Query(request, command, await self._access.person(request)))

    async def _mistaken(self, request: Request, error: GrammarError) -> Response:
        """What was expected names workers, so it is for viewers alone, as they are."""
        person, refused = await self._access.of_command(request, CATALOG["help"], None)
        if refused is not None:
            return self._refused(request, person, refused)
        if isinstance(error, NeedsTarget):  # whoever may do it to none of them need not say to which
            whole = Command(error.name, workers=error.choices)
            person, refused = await self._access.of_command(request, CATALOG[error.name], whole)
            if refused is not None and not self._mistakes.may_for_one(request, error, person):
                return self._refused(request, person, refused, whole)
        person = await self._access.person(request)
        return Response(messages=(whisper(request, self._mistakes.answer(request, error, person)),))

    async def _submit(self, request: Request, command: Command, person: Person) -> Response:
        """A button counts once, whoever presses it. A press that is refused doesn't use it up."""
        if request.button is None:
            return await self._begun(request, command, person)
        if request.press in self._under_way:
            return _accepted(request)
        self._under_way.add(request.press)
        response = Response()
        try:
            first = await quick(self._gateway.pressed_by, request.press)
            response = _already_used(request, command, first) if first else await self._begun(request, command, person)
        finally:
            if response.rest is None:
                self._under_way.discard(request.press)
        return response

    async def _begun(self, request: Request, command: Command, person: Person) -> Response:
        """A command that is previewed before anybody is asked to approve it holds up no other of its sender's."""
        if self._config.needs_approval(command.name, DOOR):
            return Response(rest=partial(self._previewed, request, command, person))
        return await self._handed_over(request, command, person, quick)

    async def _previewed(self, request: Request, command: Command, person: Person, say: Say_dealing) -> Response:
        """Look at what it would do, and ask for the approval; whoever waits for more than a moment is told so."""
        work = asyncio.ensure_future(self._handed_over(request, command, person, previews))
        try:
            await asyncio.wait({work}, timeout=MOMENT_SECONDS)
            told = not work.done()
            if told:
                await say((whisper(request, preview_pending(command), replace=_replaces_own(request)),))
            response = await work
        finally:
            work.cancel()
            self._under_way.discard(request.press)
        if told and not response.messages and _replaces_own(request):
            return Response(messages=(whisper(request, approval_requested(command), replace=True),))
        return response

    async def _handed_over(self, request: Request, command: Command, person: Person, pool: Blocking) -> Response:
        issuer = Issuer(request.actor, person.name)
        submit = partial(self._gateway.submit, command, issuer, DOOR, task_id=request.task_id, card=card_place(request))
        try:
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await pool(_submit_in_time, submit, time.monotonic() + PREVIEW_SECONDS)
        except NothingToDo as nothing:
            told = text_message(f":ballot_box_with_check: {escape(str(nothing))}")
            return Response(messages=(whisper(request, told, replace=_replaces_own(request)),))
        except SupervisorError as error:
            told = self._again(f":warning: {error_text(error)}", command, request)
            return Response(messages=(whisper(request, told, replace=_replaces_own(request)),))
        self._submitted()
        return _accepted(request)

    def _again(self, text: str, command: Command, request: Request) -> Content:
        """Why nothing was done, with a button to ask for it once more."""
        return retry_message(text, command, request.nonce, asks=self._config.needs_approval(command.name, DOOR))

    def _refused(
        self, request: Request, person: Person | None, why: Refusal, command: Command | None = None
    ) -> Response:
        """Told to them alone, and written into the trail."""
        text = f":no_entry: {why.words}"
        told = self._again(text, command, request) if why.again and command else text_message(text)
        label = command.label if command else None
        entry = AuditEntry(
            actor=request.actor,
            action="REFUSED",
            target_id=(command.target if command else "") or "-",
            outcome="failure",
            label=audit_label(person.name if person else "", request.actor, label),
            task_id=request.task_id,
            details={
                "command": command.name if command else None,
                "error": why.plain,
                "missing": why.missing,
                "door": DOOR,
                "label": label,
            },
        )
        return Response(entry, (whisper(request, told),))


def _already_used(request: Request, command: Command, first: Issuer) -> Response:
    """Somebody pressed this button before; whoever else presses it is told who did."""
    if request.replaces or first.is_same_as(request.actor):
        return _accepted(request)
    told = USED.format(who=escape(first.name or first.id), again=escape(render(command)))
    return Response(messages=(whisper(request, text_message(told)),))


def _submit_in_time(submit: Callable[[], object], deadline: float) -> None:
    """Hand it over, unless it has waited for a thread for too long."""
    if time.monotonic() >= deadline:
        raise TemporaryError("Too many other previews are running, so nothing was done.", remedy="Try again.")
    submit()


def _replaces_own(request: Request) -> bool:
    """Whether what is told to its sender may be replaced: their own message, and not a card that others read too."""
    return request.replaces or (request.response_url is not None and request.button is None)


def _accepted(request: Request) -> Response:
    """The command is on its way, and its card says the rest; a button that only its reader saw is replaced by that."""
    if not request.replaces:
        return Response()
    name, _, said = request.text.partition(" ")
    return Response(
        messages=(whisper(request, pressed_button(name, request.target or said, request.nonce), replace=True),)
    )
