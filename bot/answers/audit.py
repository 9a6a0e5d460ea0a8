"""`audit` in Slack: the audit trail page by page, or as a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from urllib.parse import quote, unquote

from sqlalchemy import Connection

from bot.access.rules import Person
from bot.inbound.dispatcher import Response
from bot.outbound.messages import answer, file_to_person, whisper
from bot.pools import quick, slow
from bot.requests.commands import Query
from bot.views.answers.audit import FILE, NEWER, OLDER, AuditQuery, AuditRow, audit_page, filter_text
from bot.views.blocks import Content, text_message
from bot.views.files import Attachment
from bot.views.text import error_text, escape
from supervisor_core.common import time_zones as zones
from supervisor_core.common.errors import UsageError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.diagnosis.reports.files import masking_of
from supervisor_core.storage.audit.chain import Row
from supervisor_core.storage.audit.files import audit_csv
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, audit_filter, find_actors, search
from supervisor_core.storage.audit.trail import page
from supervisor_core.storage.store import Ledger

PAGE = 10
"""Entries of a page."""

MOST_ROWS = 10_000
"""The newest rows, as many as a file has. For more there's the shell."""

RECORDED = ("actor", "target_id", "label", "details_json", "task_id")
"""The columns with data from outside; all other columns are our own."""

Link = Callable[[Connection, str], str]
"""The address of the message of a command."""


class AuditAnswer:
    """Answers `audit` and the buttons of its answer."""

    def __init__(self, config: SupervisorConfig, ledger: Ledger, link: Link) -> None:
        self._config = config
        self._ledger = ledger
        self._link = link
        self._masking = masking_of(config)

    async def __call__(self, query: Query) -> Response:
        """A page, or the file."""
        request = query.request
        try:
            wanted = audit_filter(query.command, datetime.now(UTC), zone_of(query.person))
        except UsageError as error:
            return Response(messages=(answer(request, text_message(f":warning: {error_text(error)}")),))
        if request.page == FILE:
            return await self._filed(query, wanted)
        content = await quick(self._ledger.read, lambda connection: self._page(connection, query, wanted))
        return Response(messages=(answer(request, content),))

    def _page(self, connection: Connection, query: Query, wanted: AuditFilter) -> Content:
        command, request = query.command, query.request
        beside, newer = place_in(request.page)
        size = min(int(command.params["limit"]), PAGE)
        hub = self._config.supervisor.id if self._config.fleet.role == HUB else ""
        found = page(connection, wanted, size, beside, newer=newer, hub=hub)
        shown = [
            AuditRow(
                replace(entry, error=self._masking.text(entry.error), note=self._masking.text(entry.note)),
                self._link(connection, entry.task_id) if entry.task_id else "",
            )
            for entry in found.entries
        ]
        nobody = bool(wanted.issuer) and not shown and not find_actors(connection, wanted.issuer or "")
        places = [(entry.supervisor_id, entry.audit_id) for entry in found.entries if entry.audit_id is not None]
        last = where(OLDER, *places[-1]) if found.older and places else ""
        first = where(NEWER, *places[0]) if found.newer and places else ""
        asking = AuditQuery(self._config.supervisor.id, command, wanted, request.nonce, alone=query.alone)
        return audit_page(asking, shown, newer=first, older=last, nobody=nobody)

    async def _filed(self, query: Query, wanted: AuditFilter) -> Response:
        """Send the matching rows, the newest of them, as a file in a direct message."""
        most = replace(wanted, limit=MOST_ROWS)
        rows = await slow(self._ledger.read, lambda connection: search(connection, most))
        table = await slow(lambda: audit_csv(map(self._masked, rows)))
        host = self._config.supervisor.id
        cut = f", the newest {MOST_ROWS}" if len(rows) == MOST_ROWS else ""
        file = Attachment(
            name=f"audit_{host}_{query.request.at:%Y%m%dT%H%M%SZ}.csv",
            content=table,
            rest=f"`supervisor audit --csv --limit 1000000` on {escape(host)}",
            title=f"Audit trail of {host}",
            comment=f"The audit trail of *{escape(host)}*{filter_text(query.command, wanted)}: {len(rows)} rows"
            f"{cut}. Times are UTC.",
        )
        said = text_message(f":paperclip: {len(rows)} rows sent to you as a file in a direct message.")
        return Response(messages=(whisper(query.request, said, about=" told"), file_to_person(query.request, file)))

    def _masked(self, row: Row) -> Row:
        """Mask secrets cell by cell, before the quoting of a CSV file could hide them."""
        return {**row, **{name: self._masking.foreign(row[name]) for name in RECORDED}}


def zone_of(person: Person | None) -> tzinfo:
    """The person's time zone; UTC if it's unknown."""
    try:
        return zones.zone_of(person.zone) if person and person.zone else UTC
    except zones.UnknownZone:
        return UTC


def where(direction: str, supervisor_id: str, audit_id: int) -> str:
    """A place in the trail as one word."""
    return f"{direction}:{audit_id}:{quote(supervisor_id, safe='')}"


def place_in(word: str) -> tuple[RowPosition | None, bool]:
    """The position in a word and its direction; the newest page for any other word."""
    direction, _, rest = word.partition(":")
    number, _, host = rest.partition(":")
    if direction not in (OLDER, NEWER) or not number.isdecimal() or len(number) > 18:
        return None, False
    return RowPosition(unquote(host), int(number)), direction == NEWER
