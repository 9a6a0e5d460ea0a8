"""`status`, `teams` and `why` in Slack, each from a live look at the workers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from bot.access.checks import AllowedCommands
from bot.answers.audit import AuditAnswer
from bot.answers.history import HistoryAnswer
from bot.answers.logs import LogsAnswer
from bot.inbound.dispatcher import Response
from bot.outbound.channel_health import ChannelHealth
from bot.outbound.content import MessageComposer
from bot.outbound.messages import answer
from bot.pools import quick
from bot.requests.commands import ObserveWorkers, Query, QueryHandler
from bot.views.answers.overview import status
from bot.views.answers.teams import teams
from bot.views.answers.why import why
from bot.views.blocks import text_message
from bot.views.buttons import page_number
from bot.views.text import error_text
from supervisor_core.commands.command import Command
from supervisor_core.commands.targets import TEAM
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.wiring import ChatContext, Explain
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason
from supervisor_core.workers.teams import TeamPicture, team_pictures


class WorkerAnswers:
    """Answers `status` and `teams`, and the buttons of their answers."""

    def __init__(self, config: SupervisorConfig, ledger: Ledger, look: ObserveWorkers, channels: ChannelHealth) -> None:
        self._config = config
        self._ledger = ledger
        self._look = look
        self._channels = channels

    async def status(self, query: Query) -> Response:
        """Show workers; for a team, also its objective and roles."""
        command, request = query.command, query.request
        wanted = set(command.workers)  # of ten thousand
        workers = [worker for worker in await self._look() if worker["id"] in wanted]
        team, rests = await self._team(command.target), await self._rests()
        host, page = self._config.supervisor.id, page_number(request.page)
        problem = self._channels.problem
        content = status(command, workers, request.nonce, page, team, rests=rests, host=host, problem=problem)
        return Response(messages=(answer(request, content),))

    async def teams(self, query: Query) -> Response:
        """Show all teams."""
        request, pictures = query.request, await self._pictures()
        workers = {worker["id"]: worker for worker in await self._look()}
        return Response(
            messages=(
                answer(request, teams(query.command, pictures, workers, request.nonce, page_number(request.page))),
            )
        )

    async def _team(self, target: str) -> TeamPicture | None:
        if not target.startswith(TEAM):
            return None
        name = target.removeprefix(TEAM)
        return next((each for each in await self._pictures() if each.name == name), None)

    async def _rests(self) -> str:
        host = self._config.supervisor.id
        return await quick(self._ledger.read, lambda connection: pause_reason(connection, host))

    async def _pictures(self) -> list[TeamPicture]:
        now = datetime.now(UTC)
        return await quick(self._ledger.read, lambda connection: team_pictures(connection, self._config, now))


class WhyAnswer:
    """Answers `why`, and its button."""

    def __init__(self, explain: Explain, allowed: AllowedCommands) -> None:
        self._explain = explain
        self._allowed = allowed

    async def __call__(self, query: Query) -> Response:
        """Explain the workers."""
        request, person = query.request, query.person
        try:
            found = await self._explain(query.command.workers)
        except SupervisorError as error:
            return Response(messages=(answer(request, text_message(f":warning: {error_text(error)}")),))

        def may(command: Command) -> bool:
            return self._allowed.may_give(person, command, request.channel)

        asking = {each.name for told in found for each in told.found.remedies if self._allowed.asks(each.name)}
        content = why(found, request.nonce, may, asking, alone=query.alone)
        return Response(messages=(answer(request, content),))


def answer_handlers(
    config: SupervisorConfig,
    ledger: Ledger,
    doors: ChatContext,
    composing: MessageComposer,
    allowed: AllowedCommands,
    channels: ChannelHealth,
) -> Mapping[str, QueryHandler]:
    """The handlers of all commands that only read."""
    workers = WorkerAnswers(config, ledger, doors.look, channels)
    return {
        "audit": AuditAnswer(config, ledger, composing.link),
        "history": HistoryAnswer(config, ledger),
        "logs": LogsAnswer(config, doors.written),
        "status": workers.status,
        "teams": workers.teams,
        "why": WhyAnswer(doors.explain, allowed),
    }
