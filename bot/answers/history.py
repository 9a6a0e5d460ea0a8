"""`history` in Slack: a chart in a direct message, a summary in the channel, and a button to share the chart."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from bot.access.rules import Person
from bot.answers.charts import NoChartsError, draw
from bot.inbound.dispatcher import Response
from bot.outbound.messages import answer, file_to_channel, file_to_person, whisper
from bot.pools import slow
from bot.requests.commands import Query
from bot.requests.request import Request
from bot.views.answers.history import history_markup, history_message, picture_description
from bot.views.blocks import text_message, with_hint
from bot.views.files import Attachment
from bot.views.text import escape
from supervisor_core.commands.command import Command
from supervisor_core.common.time_zones import UNKNOWN, UnknownZone, host_zone, zone_of
from supervisor_core.common.times import compact
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.diagnosis.history import SPANS, History, histories
from supervisor_core.storage.store import Ledger

NO_CHARTS = (
    "No chart: matplotlib isn't installed on {host}. Install it with `pip install 'supervisor-chatops[charts]'`."
)
NOT_DRAWN = "The chart couldn't be drawn. The supervisor's log on {host} has the reason."
OLDEST = timedelta(days=7)
"""An older chart can't be shared, because its data may be gone."""

log = logging.getLogger(__name__)


class HistoryAnswer:
    """Answers `history` and the button of its answer."""

    def __init__(self, config: SupervisorConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger

    async def __call__(self, query: Query) -> Response:
        """Draw the chart up to the time of the request, so that a repetition has the same result."""
        request, command = query.request, query.command
        until = _shared_until(request) or request.at.replace(microsecond=0)  # as a button can say it
        since = until - SPANS[str(command.params.get("span") or "24h")]
        found = await slow(histories, self._ledger, self._config, command.workers, since, until)
        told = history_markup(found, len(command.workers) - len(found))
        if not found:
            return Response(messages=(answer(request, text_message(told)),))
        picture, missing = await self._drawn(found, command, told, query.person)
        if request.shares:
            return self._share(request, picture, told)
        if picture is not None and request.direct:
            return Response(messages=(file_to_person(request, picture),))
        if request.direct:
            return Response(messages=(answer(request, with_hint(text_message(told), missing)),))
        content = history_message(
            told, command, request.nonce, str(int(until.timestamp())), drawn=picture is not None, missing=missing
        )
        files = (file_to_person(request, picture),) if picture is not None else ()
        return Response(messages=(answer(request, content), *files))

    def _share(self, request: Request, picture: Attachment | None, told: str) -> Response:
        """Share the chart with the channel, and replace the private answer."""
        if picture is None:
            return Response(messages=(answer(request, text_message(told)),))
        done = whisper(request, text_message("Shared in this channel."), replace=request.replaces)
        return Response(messages=(file_to_channel(request, picture), done))

    async def _drawn(
        self, found: Sequence[History], command: Command, told: str, person: Person | None
    ) -> tuple[Attachment | None, str]:
        """The chart, or the reason that it's missing."""
        host = escape(self._config.supervisor.id)
        zone, name = _zone(person)
        try:
            data = await slow(draw, found, zone, name)
        except NoChartsError:
            return None, NO_CHARTS.format(host=host)
        except Exception:  # the edge: the words are there all the same
            log.exception("the history of %s could not be drawn", command.target or ", ".join(command.workers))
            return None, NOT_DRAWN.format(host=host)
        about = found[0].worker_id if len(found) == 1 else self._config.supervisor.id
        file = Attachment(
            name=f"history_{about}_{compact(found[0].until)}.png",
            content=data,
            rest=f"`supervisor history {escape(about)}` on {host}",
            title=f"History of {about}" if len(found) == 1 else f"History of {len(found)} workers",
            comment=told,
            alt=picture_description(found, zone),
        )
        return file, ""


def _zone(person: Person | None) -> tuple[tzinfo, str]:
    """The person's time zone, else this host's."""
    for name in (person.zone if person else "", host_zone()):
        try:
            if name:
                return zone_of(name), name
        except UnknownZone:
            continue
    return UTC, UNKNOWN


def _shared_until(request: Request) -> datetime | None:
    """The end of the chart to share, from the button. For any other value the chart is drawn up to now."""
    if not request.shares.isdecimal() or len(request.shares) > 11:
        return None
    until = datetime.fromtimestamp(int(request.shares), UTC)
    return until if request.at - OLDEST <= until <= request.at else None
