"""`history` in Slack: uptime bars and a summary, for the person who asked."""

from __future__ import annotations

from bot.inbound.dispatcher import Response
from bot.outbound.messages import answer
from bot.pools import slow
from bot.requests.commands import Query
from bot.views.answers.history import history_message
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.diagnosis.history import SPANS, histories
from supervisor_core.storage.store import Ledger


class HistoryAnswer:
    """Answers `history`, up to the time of the request, so that a repetition has the same result."""

    def __init__(self, config: SupervisorConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger

    async def __call__(self, query: Query) -> Response:
        command, until = query.command, query.request.at.replace(microsecond=0)
        since = until - SPANS[str(command.params.get("span") or "24h")]
        shown = await slow(histories, self._ledger, self._config, command.workers, since, until)
        content = history_message(shown, len(command.workers) - len(shown))
        return Response(messages=(answer(query.request, content),))
