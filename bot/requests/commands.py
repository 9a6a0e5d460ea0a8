"""Handles commands from Slack: parses them, checks rights, answers them, or submits them to the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.access.checks import NOBODY, AccessChecks, AllowedCommands
from bot.access.rules import Person, Refusal
from bot.inbound.dispatcher import Response, SendNow
from bot.outbound.messages import announcement, card_place, failure, respond, tell, whisper
from bot.pools import preview_in_time, quick
from bot.requests.mistakes import Mistakes
from bot.requests.request import Request
from bot.views.answers.help import help_message, retry_message
from bot.views.answers.overview import BUTTONS, monitoring_changed, overview, pressed_button
from bot.views.blocks import Content, text_message
from bot.views.cards.notices import approval_requested, preview_pending
from bot.views.text import code_span, display_name, error_text, escape
from supervisor_core.commands.catalog import CATALOG, OVERVIEW
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.conditions import VERSION, WHERE, Facts, facts_of
from supervisor_core.commands.grammar import commit_word, render
from supervisor_core.commands.grammar_errors import GrammarError, NeedsTarget
from supervisor_core.commands.labels import audit_label
from supervisor_core.common.errors import CommandText, SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.services.monitoring import PAUSE, RESUME
from supervisor_core.daemon.wiring import ChatContext
from supervisor_core.intake.approvals.service import NothingToDo
from supervisor_core.intake.submission import FindCommit, Gateway, ask_if_commit
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason

FACTS_UNKNOWN = f"The states of the workers can't be checked right now, so a target can't have “{WHERE}”. Try again."

RunBlocking = Callable[[Callable[[], object]], Awaitable[object]]

ObserveWorkers = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Looks at all workers now."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed and permitted command."""

    request: Request
    command: Command
    person: Person | None
    """The person; None if Slack didn't say in time who it is."""
    by: Issuer | None = None
    """The issuer, if it isn't this person: a schedule."""

    @property
    def issuer(self) -> Issuer:
        """The issuer, as in the audit trail."""
        return self.by or Issuer(self.request.actor, self.person.name if self.person else "")

    @property
    def alone(self) -> bool:
        """True if only the person reads the answer. Otherwise a name in it would notify people: in a thread below a
        mention, or for a schedule."""
        return self.request.message is None and self.by is None


QueryHandler = Callable[[Query], Awaitable[Response]]
"""Answers one command. It may run again after a crash, and must then have the same result."""


class HostAnswers:
    """Answers about this host, and pauses and resumes monitoring."""

    def __init__(
        self, config: SupervisorConfig, ledger: Ledger, allowed: AllowedCommands, context: ChatContext
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._allowed = allowed
        self._context = context

    def handlers(self) -> Mapping[str, QueryHandler]:
        """The handler of each command."""
        return {
            OVERVIEW: self._overview,
            "help": self._help,
            PAUSE: self._set_monitoring,
            RESUME: self._set_monitoring,
        }

    async def _overview(self, query: Query) -> Response:
        request, person, workers = query.request, query.person, await self._context.look()
        host = self._config.supervisor.id
        allowed = {
            worker["id"]: [
                name for name in BUTTONS if self._allowed.may_press(person, name, worker["id"], request.channel)
            ]
            for worker in workers
        }
        asking = [name for name in BUTTONS if self._allowed.asks(name)]
        more = bool(self._allowed.in_a_form(person))
        rests = await quick(self._ledger.read, partial(pause_reason, supervisor_id=host))
        return respond(request, overview(host, workers, allowed, request.nonce, asking, more=more, rests=rests))

    async def _help(self, query: Query) -> Response:
        known = self._allowed.known(query.person)
        topic = str(query.command.params.get("topic") or "")
        content = help_message(topic, known, self._allowed.example, self._allowed.workers)
        return respond(query.request, content)

    async def _set_monitoring(self, query: Query) -> Response:
        """Pause or resume monitoring, and announce it in the alert channel, because it concerns everybody."""
        pauses = query.command.name == PAUSE
        try:
            done = await self._context.monitoring(pauses, query.issuer)
        except SupervisorError as error:
            return failure(query.request, error)
        content = monitoring_changed(done, query.issuer, rests=pauses)
        return announcement(query.request, content, announcement_channel(self._config), " monitoring")


def announcement_channel(config: SupervisorConfig) -> str:
    """The channel for what concerns everybody, if there is one."""
    return config.slack.alert_channel or config.slack.fallback_channel


USED = ":information_source: {who} has already used this button. To run it again: {again}"

DOOR = "slack"

log = logging.getLogger(__name__)

MOMENT_SECONDS = 1.0
"""After this time, the requester is told that a preview is running."""


class TargetFacts:
    """The facts that conditions such as `where state=stale` are checked against, from a live check of all workers."""

    def __init__(self, look: ObserveWorkers, versions: Callable[[], Awaitable[Mapping[str, str]]]) -> None:
        self._look = look
        self._versions = versions
        self._known: Facts | None = None

    def __call__(self) -> Facts:
        """The newest facts; `GrammarError` while there are none."""
        if self._known is None:
            raise GrammarError(FACTS_UNKNOWN)
        return self._known

    async def refresh_for(self, text: str) -> None:
        """Look at the workers, if a text may have conditions. What can't be looked at isn't known."""
        words = text.casefold()
        if WHERE not in words:
            return
        self._known = None
        try:
            workers = await self._look()
            self._known = facts_of(workers, await self._versions() if VERSION in words else None)
        except SupervisorError as error:
            log.warning("the workers can't be checked for a target with conditions: %s", error)


class CommandRequests:
    """Handles requests. It returns messages as rows and sends nothing itself."""

    def __init__(
        self,
        config: SupervisorConfig,
        gateway: Gateway,
        find: FindCommit,
        access: AccessChecks,
        handlers: Mapping[str, QueryHandler],
        submitted: Callable[[], None],
        facts: TargetFacts | None = None,
    ) -> None:
        self._config = config
        self._facts = facts
        self._gateway = gateway
        self._find = find
        self._access = access
        self._mistakes = Mistakes(config, access.rules, facts)
        self._handlers = handlers
        self._submitted = submitted
        self._under_way: set[str] = set()
        """Commands that are being submitted, those of one button as one."""

    async def handle(self, request: Request) -> Response:
        """Handle a request; repeated after a crash, it has the same result."""
        if await quick(self._gateway.was_submitted, request.task_id, request.actor):
            return _accepted(request)
        if self._facts is not None:
            await self._facts.refresh_for(request.text)
        try:
            command = self._gateway.parse(request.text, request.target)
        except GrammarError as error:
            return await self._mistaken(request, error)
        definition = CATALOG[command.name]
        person, refused = await self._access.of_command(request, definition, command)
        if person is None or refused is not None:
            return self._refused(request, person, refused or NOBODY, command)
        if definition.handler is None:
            person = await self._access.person(request)
            return await self._handlers[command.name](Query(request, command, person))
        return await self._submit(request, command, person)

    async def _mistaken(self, request: Request, error: GrammarError) -> Response:
        """Answer a mistake. The answer names workers, so it's for viewers only, as the list of workers is."""
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
        """Submit a command. A button counts once for all people, but a refused press doesn't use it up."""
        if request.press in self._under_way:
            return _accepted(request)
        self._under_way.add(request.press)
        response = Response()
        try:
            first = await quick(self._gateway.pressed_by, request.press) if request.button is not None else None
            if first is not None:
                response = _already_used(request, command, first)
            elif self._config.needs_approval(command.name, DOOR):
                response = Response(rest=partial(self._request_approval, request, command, person))
            else:
                response = await self._file(request, command, person, quick)
        finally:
            if response.rest is None:
                self._under_way.discard(request.press)
        return response

    async def _request_approval(self, request: Request, command: Command, person: Person, send: SendNow) -> Response:
        """Preview a command and request its approval, without delaying the sender's other commands; after a moment,
        tell the requester that it's running."""
        filing = asyncio.ensure_future(self._file(request, command, person, preview_in_time))
        try:
            await asyncio.wait({filing}, timeout=MOMENT_SECONDS)
            announced = not filing.done()
            if announced:
                await send((whisper(request, preview_pending(command), replace=_replaces_own(request)),))
            response = await filing
        finally:
            filing.cancel()
            self._under_way.discard(request.press)
        if announced and not response.messages and _replaces_own(request):
            return Response(messages=(whisper(request, approval_requested(command), replace=True),))
        return response

    async def _file(self, request: Request, command: Command, person: Person, run: RunBlocking) -> Response:
        issuer = Issuer(request.actor, person.name)
        submit = partial(self._gateway.submit, command, issuer, DOOR, task_id=request.task_id, card=card_place(request))
        try:
            if word := commit_word(request.text, command):
                await preview_in_time(ask_if_commit, word, command, self._find)
            # In a thread: the ledger may have to wait for another program, and pings and acknowledgements may not.
            await run(submit)
        except GrammarError as error:
            return await self._mistaken(request, error)
        except NothingToDo as nothing:
            text = f":ballot_box_with_check: {escape(str(nothing))}"
            return tell(request, text, replace=_replaces_own(request))
        except SupervisorError as error:
            content = self._again(f":warning: {error_text(error)}", command, request)
            return Response(messages=(whisper(request, content, replace=_replaces_own(request)),))
        self._submitted()
        return _accepted(request)

    def _again(self, text: str, command: Command, request: Request) -> Content:
        """The reason why nothing was done, with a button to try again."""
        asks = self._config.needs_approval(command.name, DOOR)
        return retry_message(text, command, request.nonce, asks=asks)

    def _refused(
        self, request: Request, person: Person | None, why: Refusal, command: Command | None = None
    ) -> Response:
        """Refuse a command: tell the person alone, and record it in the audit trail."""
        text, label = f":no_entry: {why.words}", command.label if command else None
        content = self._again(text, command, request) if why.again and command else text_message(text)
        about = {"command": command.name if command else None, "label": label}
        entry = refusal_entry(request, person, why, command.target if command else "", label, about)
        return Response(entry, (whisper(request, content),))


def refusal_entry(
    request: Request, person: Person | None, why: Refusal, target: str, label: str | None, about: Mapping[str, Any]
) -> AuditEntry:
    """The audit row of a refused request; `about`: further details."""
    return AuditEntry(
        actor=request.actor,
        action="REFUSED",
        target_id=target or "-",
        outcome="failure",
        label=audit_label(person.name if person else "", request.actor, label),
        task_id=request.task_id,
        details={**about, "error": why.plain, "missing": why.missing, "door": DOOR},
    )


def _already_used(request: Request, command: Command, first: Issuer) -> Response:
    """Tell a person that somebody else has already used this button."""
    if request.replaces or first.is_same_as(request.actor):
        return _accepted(request)
    return tell(request, USED.format(who=display_name(first), again=code_span(CommandText(render(command)))))


def _replaces_own(request: Request) -> bool:
    """True if the answer may replace the person's message, because nobody else reads it."""
    return request.replaces or (request.response_url is not None and request.button is None)


def _accepted(request: Request) -> Response:
    """The response to an accepted command. Its message says the rest; a private button is replaced."""
    if not request.replaces:
        return Response()
    name, _, arguments = request.text.partition(" ")
    content = pressed_button(name, request.target or arguments, request.nonce)
    return Response(messages=(whisper(request, content, replace=True),))
