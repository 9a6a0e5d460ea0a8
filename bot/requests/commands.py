"""Handles commands from Slack: parses them, checks rights, answers them, or submits them to the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from bot.access.checks import NOBODY, AccessChecks, AllowedCommands
from bot.access.rules import AccessRules, Person, Refusal, may_press
from bot.inbound.dispatcher import Response, SendNow
from bot.outbound.messages import announcement, card_place, failure, respond, tell, whisper
from bot.pools import preview_in_time, quick
from bot.requests.request import TAB, Request
from bot.views.answers.help import help_message, mistake, retry_message, target_menu
from bot.views.blocks import Content, Json, text_message
from bot.views.cards.notices import approval_requested, preview_pending
from bot.views.forms import groups_of
from bot.views.text import code_span, display_name, error_text, escape
from bot.views.workers import BUTTONS, monitoring_changed, overview, pressed_button
from supervisor_core.commands.catalog import CATALOG, OVERVIEW
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.conditions import VERSION, WHERE, Facts, FactSource, facts_of
from supervisor_core.commands.grammar import commit_word, parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NeedsTarget
from supervisor_core.commands.labels import audit_label
from supervisor_core.commands.targets import ALL, HOST, TEAM
from supervisor_core.common.errors import CommandText, SupervisorError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.services.monitoring import PAUSE, RESUME
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.service import NothingToDo
from supervisor_core.intake.submission import FindCommit, Gateway, ask_if_commit
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason

FACTS_UNKNOWN = f"The states of the workers can't be checked right now, so a target can't have “{WHERE}”. Try again."

RunBlocking = Callable[[Callable[[], object]], Awaitable[object]]

ObserveWorkers = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Looks at all workers now."""


@dataclass(frozen=True, slots=True)
class Query:
    request: Request
    command: Command
    person: Person | None
    """The person; None if Slack didn't say in time who it is."""
    by: Issuer | None = None
    """The issuer, if it isn't this person: a schedule."""

    @property
    def issuer(self) -> Issuer:
        return self.by or Issuer(self.request.actor, self.person.name if self.person else "")

    @property
    def alone(self) -> bool:
        """True if only the person reads the answer. Otherwise a name in it would notify people: in a thread below a
        mention, or for a schedule."""
        return self.request.message is None and self.by is None


QueryHandler = Callable[[Query], Awaitable[Response]]
"""Answers one command. It may run again after a crash, and must then have the same result."""


class HostAnswers:
    def __init__(self, config: SupervisorConfig, ledger: Ledger, allowed: AllowedCommands, hosts: Hosts) -> None:
        self._config = config
        self._ledger = ledger
        self._allowed = allowed
        self._hosts = hosts

    def handlers(self) -> Mapping[str, QueryHandler]:
        return {
            OVERVIEW: self._overview,
            "help": self._help,
            PAUSE: self._set_monitoring,
            RESUME: self._set_monitoring,
        }

    async def _overview(self, query: Query) -> Response:
        request, person, workers = query.request, query.person, await self._hosts.statuses()
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
            done = await self._hosts.set_monitoring(query.issuer, paused=pauses)
        except SupervisorError as error:
            return failure(query.request, error)
        content = monitoring_changed(done, query.issuer, rests=pauses)
        return announcement(query.request, content, announcement_channel(self._config), " monitoring")


def announcement_channel(config: SupervisorConfig) -> str:
    return config.slack.alert_channel or config.slack.fallback_channel


MOST_CHOICES = 100
"""Options of a menu."""

FEW = 50
"""With up to this many workers, the menu lists them before the teams; with more, not all may fit."""

LONGEST_BLOCK_ID = 255


class Mistakes:
    def __init__(self, config: SupervisorConfig, rules: AccessRules, facts: FactSource | None = None) -> None:
        self._config = config
        self._rules = rules
        self._context = grammar_context(config, facts)

    def answer(self, request: Request, error: GrammarError, person: Person | None) -> Content:
        if isinstance(error, NeedsTarget):
            menu, hint = self._target_menu(request, error, person)
            return mistake(error.message, request.nonce, menu=menu, hint=hint)
        command, suggestion = None, error.suggestion or ""
        with suppress(SupervisorError):  # with other mistakes, it's shown without a button
            command = parse(suggestion, self._context) if suggestion else None
        if command is not None and not may_press(person, command, request.channel, self._rules):
            command = None
        return mistake(error.message, request.nonce, suggestion, command, asks=bool(command and self._asks(command)))

    def may_for_one(self, request: Request, error: NeedsTarget, person: Person | None) -> bool:
        commands = (Command.for_worker(error.name, worker) for worker in error.choices)
        return any(may_press(person, each, request.channel, self._rules) for each in commands)

    def _asks(self, command: Command) -> bool:
        return self._config.needs_approval(command.name, "slack")

    def _target_menu(self, request: Request, error: NeedsTarget, person: Person | None) -> tuple[Json | None, str]:
        """A menu of targets, with a hint if it hasn't room for all; None if the typed text is too long for it."""
        block_id = f"{request.nonce} {error.before}{TAB}{error.after}"
        if len(block_id) > LONGEST_BLOCK_ID or not error.choices:
            return None, ""
        try:
            command = parse(error.complete(error.choices[0]), self._context)
        except SupervisorError:  # there are other mistakes, which come up once a target is named
            return None, ""
        # Teams, `all` and hosts come first if not everything fits.
        several = groups_of(self._context)
        targets = [*error.choices, *several] if len(error.choices) <= FEW else [*several, *error.choices]

        def may(target: str) -> bool:
            workers = self._context.teams.get(target.removeprefix(TEAM), (target,))
            if target.startswith(HOST):
                workers = self._context.hosts[target.removeprefix(HOST)]
            if target == ALL:
                workers = self._context.workers
            return may_press(person, Command(command.name, target, tuple(workers)), request.channel, self._rules)

        shown = list(islice(filter(may, targets), MOST_CHOICES + 1))
        if not shown:
            return None, ""
        all_fit = len(shown) <= MOST_CHOICES
        hint = "" if all_fit else f"The menu hasn't room for all: type `/supervisor {command.name} WORKER`."
        return target_menu(block_id, command, shown[:MOST_CHOICES], asks=self._asks(command)), hint


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
                response = _accepted(request)
                if not request.replaces and not first.is_same_as(request.actor):
                    again = code_span(CommandText(render(command)))
                    response = tell(request, USED.format(who=display_name(first), again=again))
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


class HeldCommands:
    """Cancels commands that weren't sent yet. Whoever may give a command may cancel it."""

    def __init__(self, ledger: Ledger, access: AccessChecks, ended: Callable[[], None]) -> None:
        self._ledger = ledger
        self._access = access
        self._ended = ended

    async def cancel(self, request: Request) -> Response:
        task_id, hub_id = request.text, self._ledger.supervisor_id
        try:
            waiting = await quick(self._ledger.read, lambda connection: jobs.submitted_jobs(connection, task_id))
            if not waiting or waiting[0].command not in CATALOG:
                return tell(request, ":warning: This command isn't on record any more.")
            definition, workers = CATALOG[waiting[0].command], tuple(job.worker_id for job in waiting)
            command = Command(definition.name, workers=workers)
            person, refused = await self._access.of_command(request, definition, command)
            if person is None or refused is not None:
                return tell(request, f":no_entry: {refused.words if refused else 'Your rights are unknown.'}")
            issuer, now = Issuer(request.actor, person.name), datetime.now(UTC)

            def cancel(connection: Connection) -> int:
                return remote.cancel_unsent(connection, hub_id, waiting[0].task_id, issuer, now)

            cancelled = await quick(self._ledger.write, cancel)
        except SupervisorError as error:
            return failure(request, error)
        self._ended()
        return Response() if cancelled else tell(request, ":information_source: It may have been sent already.")
