"""Answers to commands that only show something: `audit`, `history`, `logs`, `status`, `teams` and `why`; and reports
for threads, read back from the drive or the state folder."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from urllib.parse import quote, unquote

from sqlalchemy import Connection

from bot.access.checks import AllowedCommands
from bot.access.rules import Person
from bot.inbound.dispatcher import Response
from bot.outbound.channel_health import ChannelHealth
from bot.outbound.content import MessageComposer
from bot.outbound.messages import answer, file_to_person, whisper
from bot.pools import quick, slow
from bot.requests.commands import Query, QueryHandler
from bot.views.answers.audit import FILE, NEWER, OLDER, AuditQuery, audit_page, filter_text
from bot.views.answers.history import history_message
from bot.views.answers.logs import fits, logs, logs_file
from bot.views.answers.why import why
from bot.views.blocks import Content, text_message
from bot.views.buttons import page_number
from bot.views.files import Attachment
from bot.views.text import error_text, escape
from bot.views.workers import status, teams
from supervisor_core.commands.command import Command
from supervisor_core.commands.targets import TEAM
from supervisor_core.common import time_zones as zones
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.diagnosis.history import SPANS, histories
from supervisor_core.diagnosis.reports.files import masking_of
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.host import drive_files
from supervisor_core.host.drive import Drive
from supervisor_core.host.files import read_limited
from supervisor_core.storage.audit.chain import Row
from supervisor_core.storage.audit.files import audit_csv
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, audit_filter, find_actors, search
from supervisor_core.storage.audit.trail import page
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import pause_reason
from supervisor_core.workers.teams import TeamPicture, team_pictures

PAGE = 10
"""Entries of a page."""

MOST_ROWS = 10_000
"""The newest rows, as many as a file has. For more there's the shell."""

RECORDED = ("actor", "target_id", "label", "details_json", "task_id")
"""The columns with data from outside; all other columns are our own."""

Link = Callable[[Connection, str], str]
"""The address of the message of a command."""


class AuditAnswer:
    def __init__(self, config: SupervisorConfig, ledger: Ledger, link: Link) -> None:
        self._config = config
        self._ledger = ledger
        self._link = link
        self._masking = masking_of(config)

    async def __call__(self, query: Query) -> Response:
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
            (
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
    return f"{direction}:{audit_id}:{quote(supervisor_id, safe='')}"


def place_in(word: str) -> tuple[RowPosition | None, bool]:
    """The position in a word and its direction; the newest page for any other word."""
    direction, _, rest = word.partition(":")
    number, _, host = rest.partition(":")
    if direction not in (OLDER, NEWER) or not number.isdecimal() or len(number) > 18:
        return None, False
    return RowPosition(unquote(host), int(number)), direction == NEWER


READ_SECONDS = 3.0
"""Time for reading a report. Then the message says where it is."""

MOST_BYTES = 16_000_000
"""Size of a report. It's read whole for its digest; Slack gets its beginning."""

log = logging.getLogger(__name__)


class ReportReader:
    """Reads reports, and no other file: the content must have the digest of what we wrote."""

    def __init__(self, root: Path, state_dir: Path) -> None:
        self._drive = Drive(root, READ_SECONDS, threads=1)
        self._state_dir = state_dir

    def read(self, path: str, sha256: str) -> str:
        """The report; empty where it can't be read now, or isn't the one that was written."""
        wanted = Path(path)
        if ".." in wanted.parts:
            return ""
        try:
            if wanted.is_relative_to(self._state_dir):
                data = read_limited(wanted, MOST_BYTES)
            elif wanted.is_relative_to(self._drive.root):
                data = self._drive.call(drive_files.read, self._drive.root, wanted, MOST_BYTES)
            else:
                return ""
        except (OSError, SupervisorError) as error:
            log.warning("the report %s can't be posted in its thread: %s", path, error)
            return ""
        if hashlib.sha256(data).hexdigest() != sha256:
            log.error("the report %s isn't posted in its thread: its content isn't what was written there", path)
            return ""
        return data.decode(errors="replace")


class WorkerAnswers:
    def __init__(
        self,
        config: SupervisorConfig,
        ledger: Ledger,
        hosts: Hosts,
        allowed: AllowedCommands,
        channels: ChannelHealth,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._hosts = hosts
        self._allowed = allowed
        self._channels = channels

    async def status(self, query: Query) -> Response:
        command, request, host = query.command, query.request, self._config.supervisor.id
        wanted = set(command.workers)  # of ten thousand
        workers = [worker for worker in await self._hosts.statuses() if worker["id"] in wanted]
        name = command.target.removeprefix(TEAM)
        pictures = await self._pictures() if command.target.startswith(TEAM) else []
        team = next((picture for picture in pictures if picture.name == name), None)
        rests = await quick(self._ledger.read, lambda connection: pause_reason(connection, host))
        page, problem = page_number(request.page), self._channels.problem
        content = status(command, workers, request.nonce, page, team, rests=rests, host=host, problem=problem)
        return Response(messages=(answer(request, content),))

    async def teams(self, query: Query) -> Response:
        request, pictures = query.request, await self._pictures()
        workers = {worker["id"]: worker for worker in await self._hosts.statuses()}
        content = teams(query.command, pictures, workers, request.nonce, page_number(request.page))
        return Response(messages=(answer(request, content),))

    async def _pictures(self) -> list[TeamPicture]:
        now = datetime.now(UTC)
        return await quick(self._ledger.read, lambda connection: team_pictures(connection, self._config, now))

    async def logs(self, query: Query) -> Response:
        """Answer the person alone, also for a mention: a worker's output isn't for the whole channel."""
        request, command = query.request, query.command
        try:
            found = await self._hosts.newest_output(command.workers, int(command.params["lines"]))
        except SupervisorError as error:  # the configuration has changed since this was understood
            return Response(messages=(whisper(request, {"text": escape(str(error)), "blocks": []}),))
        whole = fits(found)
        messages = [whisper(request, logs(found, filed=not whole))]
        if not whole:
            host = self._config.supervisor.id
            name = found[0].worker_id if len(found) == 1 else host
            places = ", ".join(f"`{escape(each.path.replace('`', ''))}`" for each in found[:3])
            file = Attachment(
                name=f"{name}_{request.at:%Y%m%dT%H%M%SZ}.log",
                content=logs_file(found),
                rest=f"{places} on {escape(host)}",
                title=f"Output of {name}",
                comment=f"The requested lines, from {escape(host)}.",
            )
            messages.append(file_to_person(request, file))
        return Response(messages=tuple(messages))

    async def history(self, query: Query) -> Response:
        """Show the time until the request, so that a repetition has the same result."""
        command, until = query.command, query.request.at.replace(microsecond=0)
        since = until - SPANS[str(command.params.get("span") or "24h")]
        shown = await slow(histories, self._ledger, self._config, command.workers, since, until)
        return Response(messages=(answer(query.request, history_message(shown, len(command.workers) - len(shown))),))

    async def why(self, query: Query) -> Response:
        request, person = query.request, query.person
        try:
            found = await self._hosts.explain(query.command.workers)
        except SupervisorError as error:
            return Response(messages=(answer(request, text_message(f":warning: {error_text(error)}")),))

        def may(command: Command) -> bool:
            return self._allowed.may_give(person, command, request.channel)

        asks = {command.name for each in found for command in each.found.remedies if self._allowed.asks(command.name)}
        return Response(messages=(answer(request, why(found, request.nonce, may, asks, alone=query.alone)),))


def answer_handlers(
    config: SupervisorConfig,
    ledger: Ledger,
    hosts: Hosts,
    composer: MessageComposer,
    allowed: AllowedCommands,
    channels: ChannelHealth,
) -> Mapping[str, QueryHandler]:
    workers = WorkerAnswers(config, ledger, hosts, allowed, channels)
    return {
        "audit": AuditAnswer(config, ledger, composer.link),
        "history": workers.history,
        "logs": workers.logs,
        "status": workers.status,
        "teams": workers.teams,
        "why": workers.why,
    }
