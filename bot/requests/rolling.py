"""Rolling changes in Slack: pause, continue or abort one, and show its progress. Its undo is a command of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bot.inbound.dispatcher import Response
from bot.outbound.messages import failure, respond, whisper
from bot.pools import quick
from bot.requests.commands import Query, QueryHandler
from bot.views.blocks import Content, text_message
from bot.views.text import inert, shorten
from supervisor_core.common.errors import SupervisorError
from supervisor_core.intake.rolling.rules import RollingMove
from supervisor_core.intake.rolling.service import PREFIX, RollingChanges, RollingStatus

DOOR = "slack"

LINE = 300  # characters
NAMED = 5  # workers


class RollingCommands:
    """Handles the commands about rolling changes. `filed` is called when jobs may start."""

    def __init__(self, changes: RollingChanges, filed: Callable[[], None]) -> None:
        self._changes = changes
        self._filed = filed

    def handlers(self) -> Mapping[str, QueryHandler]:
        return {
            f"{PREFIX}status": self._status,
            **dict.fromkeys((f"{PREFIX}{move}" for move in RollingMove), self._move),
        }

    async def _status(self, query: Query) -> Response:
        try:
            status = await quick(self._changes.status, str(query.command.params["task_id"]))
        except SupervisorError as error:
            return failure(query.request, error)
        return respond(query.request, _progress(status))

    async def _move(self, query: Query) -> Response:
        """Take the decision. A press of a button on the card needs no answer: the card shows it."""
        task_id, move = str(query.command.params["task_id"]), RollingMove(query.command.name.removeprefix(PREFIX))
        try:
            button, prefix = (query.request.button or "").partition(" ")[0], f"{task_id}."
            shown = button.removeprefix(prefix) if button.startswith(prefix) else ""  # others show no state
            await quick(partial(self._changes.move, shown=shown), task_id, move, query.issuer, DOOR)
            status = await quick(self._changes.status, task_id)
        except SupervisorError as error:
            return failure(query.request, error)
        self._filed()
        return Response() if query.request.button else Response(messages=(whisper(query.request, _progress(status)),))


def _progress(status: RollingStatus) -> Content:
    first, *failures = (inert(line, LINE) for line in status.lines())
    parts = [
        f"• {part}: {shorten([inert(worker, LINE) for worker in workers], NAMED)}"
        for part, workers in status.parts().items()
    ]
    return text_message("\n".join([first, *parts, *failures]))
