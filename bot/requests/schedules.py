"""Schedules in Slack: add, list and remove them, and answer scheduled commands that only show something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from bot.access.checks import AccessChecks
from bot.access.rules import Person
from bot.inbound.dispatcher import Response
from bot.outbound.messages import card_place, failure, respond, tell, whisper
from bot.pools import quick
from bot.requests.commands import Query, QueryHandler, refusal_entry
from bot.requests.request import Request
from bot.views.answers import schedules as views
from bot.views.blocks import Content, with_hint
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.common.time_zones import known_zone
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.intake.approvals.rights import CHAT
from supervisor_core.intake.schedules.rules import Schedule
from supervisor_core.intake.schedules.runner import ScheduledAnswer
from supervisor_core.intake.schedules.service import Schedules
from supervisor_core.storage.outbox import FILE
from supervisor_core.storage.steps import Message

ADD, LIST, REMOVE = "schedule add", "schedule list", "schedule remove"


class ScheduleCommands:
    """Handles the commands about schedules. `handlers`: those of commands that only show something."""

    def __init__(
        self,
        config: SupervisorConfig,
        schedules: Schedules,
        access: AccessChecks,
        handlers: Mapping[str, QueryHandler],
    ) -> None:
        self._config = config
        self._schedules = schedules
        self._access = access
        self._handlers = handlers

    def handlers(self) -> Mapping[str, QueryHandler]:
        return {ADD: self._add, LIST: self._list, REMOVE: self._remove}

    async def answered(self, schedule: Schedule, command: Command) -> ScheduledAnswer:
        """The answer of a scheduled command that only shows something, as if its owner had sent it in that channel."""
        channel = str((schedule.card or self._config.announcement() or {}).get("channel") or "")
        if not channel:
            raise RefusedError(f"{command.name} only shows something, and there's no channel to post it in.")
        chat, _, user = schedule.owner.id.rpartition("/")
        by_chat = schedule.owner.id.startswith(CHAT)
        request = Request(
            text=schedule.command,
            user=user if by_chat else "",
            team=chat.removeprefix(CHAT) if by_chat else "",
            channel=channel,
            at=datetime.now(UTC),
            key=command.task_id,
            direct=True,
        )
        person = await self._access.known(user) if by_chat else None
        response = await self._handlers[command.name](Query(request, command, person, by=command.issuer))
        return ScheduledAnswer(
            tuple(_with_signature(message, schedule) for message in response.messages), response.audit
        )

    async def _add(self, query: Query) -> Response:
        request, params = query.request, query.command.params
        inner = parse(str(params["command"]), grammar_context(self._config).later)
        if refused := await self._may_not(request, inner, query.person):
            return refused
        zone = known_zone(query.person.zone if query.person else "")
        card = {"channel": request.channel, "user": request.user}
        try:
            await quick(
                self._schedules.add,
                params,
                inner.target,
                query.issuer,
                zone,
                request.task_id,
                card,
                request.at,
                card_place(request),
            )
        except SupervisorError as error:
            return failure(request, error)
        return Response()

    async def _list(self, query: Query) -> Response:
        _, refused = await self._access.of_command(query.request, CATALOG[REMOVE], Command(REMOVE))
        return respond(query.request, await self._listed(query.request, removes=refused is None))

    async def _listed(self, request: Request, *, removes: bool) -> Content:
        return views.listed(await quick(self._schedules.list), request.nonce, removes=removes)

    async def _remove(self, query: Query) -> Response:
        request, issuer = query.request, query.issuer
        try:
            gone = await quick(self._schedules.remove, str(query.command.params["name"]), issuer, request.task_id)
        except SupervisorError as error:
            return failure(request, error)
        on_card = await quick(self._schedules.told_in, gone) == request.channel
        if request.button and not request.replaces:
            return Response()  # on its card, which says so
        told = []
        if not on_card:
            told.append(
                Message(
                    NOTICE,
                    f"{request.task_id} schedule",
                    {**card_place(request), "content": views.schedule_removed(gone, issuer, request.at)},
                )
            )
        elif not request.replaces:
            told.append(whisper(request, views.gone(gone)))
        if request.replaces:  # a list that only its reader sees: without the one that is gone
            told.append(whisper(request, await self._listed(request, removes=True), replace=True))
        return Response(messages=tuple(told))

    async def _may_not(self, request: Request, inner: Command, person: Person | None) -> Response | None:
        """Refuse to schedule a command that the person can't send: it would be refused at each run."""
        _, refused = await self._access.of_command(request, CATALOG[inner.name], inner)
        if refused is None:
            return None
        about = {"command": ADD, "scheduled": inner.name, "label": inner.label}
        entry = refusal_entry(request, person, refused, inner.target, inner.label, about)
        return Response(entry, tell(request, f":no_entry: {refused.words}").messages)


def _with_signature(message: Message, schedule: Schedule) -> Message:
    payload, signature = dict(message.payload or {}), views.schedule_signature(schedule)
    if isinstance(payload.get("content"), dict):
        payload["content"] = with_hint(payload["content"], signature)
    if message.kind == FILE:
        payload["comment"] = f"{payload['comment']}\n{signature}"
    return replace(message, payload=payload)
