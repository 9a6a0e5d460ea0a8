"""Sends the trace of each command that has ended to an OpenTelemetry collector.

Nothing waits for it, and nothing is kept for it: what the collector doesn't take, or what ends while the daemon is
down, has no trace. The audit trail is the record; traces are for looking at durations.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select

from supervisor_core.alerts.outside.transport import status_words
from supervisor_core.common.events import EventBus, EventType
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.fields import mask_url
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.diagnosis.traces import ROOT, CommandRecord, TraceSpan, span_id, spans_of, trace_id
from supervisor_core.host import web
from supervisor_core.host.web import NoHttpResponse
from supervisor_core.jobs import rows
from supervisor_core.jobs.model import FINAL, Job
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import approvals, jobs, outbox
from supervisor_core.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

SETTLE_SECONDS = 3.0
"""The time after a command's end in which its answer usually gets to Slack, and in which others end."""

TIMEOUT_SECONDS = 10.0
LEFT_BEHIND = 2
"""Requests that may hang at the same time."""

HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
PROTOBUF = "application/x-protobuf"
MOST = 200
"""Commands in one request. The rest follow in the next one."""

EVENTS = (EventType.COMMAND_DONE, EventType.COMMAND_INTERRUPTED)

log = logging.getLogger(__name__)


def why_not(config: SupervisorConfig) -> str:
    """The reason why no traces are sent; empty if they are."""
    return "" if config.traces.url else "traces.url is not set"


class Traces(Service):
    """Runs behind the services that `status` lists."""

    name = "traces"

    def __init__(self, config: SupervisorConfig, ledger: Ledger, bus: EventBus) -> None:
        super().__init__()
        self._url = config.traces.url.get_secret_value()
        self._shown = mask_url(self._url)
        self._network = config.network
        self._host = config.supervisor.id
        self._ledger = ledger
        self._bus = bus
        self._blocking = Blocking(LEFT_BEHIND)
        self._seen = 0
        """The newest change of a job that was looked at."""
        self._problem = ""

    def problem(self) -> str:
        """The reason why traces are lost."""
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Send until asked to stop."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        self._seen = await self._blocking(self._ledger.read, _newest_change)
        with (
            self._bus.subscribe(types=EVENTS, name=self.name) as subscription,
            self._ledger.listening(lambda: loop.call_soon_threadsafe(ended.set), kinds=(rows.CARD,)),
        ):

            async def follow() -> None:
                async for _ in subscription:
                    ended.set()

            following = asyncio.create_task(follow())
            try:
                await self._send_until(stopping, ended)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _send_until(self, stopping: asyncio.Event, ended: asyncio.Event) -> None:
        while not stopping.is_set():
            self.pulse.rest()
            if await wait_until(ended, stopping):
                return
            self.pulse.beat(within=SETTLE_SECONDS + TIMEOUT_SECONDS)
            await wait_until(None, stopping, SETTLE_SECONDS)
            ended.clear()
            work = asyncio.ensure_future(self._blocking(self._send))
            await wait_until(work, stopping, TIMEOUT_SECONDS)
            if not work.done():
                work.cancel()
                self._note(f"{self._shown} took longer than {TIMEOUT_SECONDS:.0f} s to take traces")
            elif work.result():
                ended.set()

    def _send(self) -> bool:
        """Send what has ended; True if there is more."""
        found, newest, more = self._ledger.read(lambda connection: _ended(connection, self._seen))
        self._seen = newest
        if found:
            self._note(self._exported([span for record in found for span in self._spans(record)]))
        return more

    def _note(self, problem: str) -> None:
        if problem and not self._problem:
            log.warning("%s", problem, extra=LogEvent.TRACES_LOST.extra(error=problem))
        self._problem = problem

    def _spans(self, record: CommandRecord) -> list[ReadableSpan]:
        task_id = record.jobs[0].task_id
        return [_in_sdk(task_id, each, self._host) for each in spans_of(record)]

    def _exported(self, spans: Sequence[ReadableSpan]) -> str:
        """Send spans; return what went wrong."""
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.util.re import parse_env_headers

        body = encode_spans(spans).SerializeToString()
        headers = {**parse_env_headers(os.environ.get(HEADERS, ""), liberal=True), "Content-Type": PROTOBUF}
        try:
            answer = web.send_request(self._network, "POST", self._url, body, headers)
        except NoHttpResponse as error:
            return f"{self._shown} doesn't take traces: {error}"
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return ""
        return f"{self._shown} doesn't take traces: it answered {status_words(answer.status)}"


def _newest_change(connection: Connection) -> int:
    return int(connection.execute(select(func.max(jobs.c.changed))).scalar() or 0)


def _ended(connection: Connection, seen: int) -> tuple[list[CommandRecord], int, bool]:
    """The commands whose last job ended after this change, the newest change read, and whether more follow."""
    query = select(jobs.c.task_id, func.max(jobs.c.changed).label("newest")).where(jobs.c.changed > seen)
    changed = connection.execute(query.group_by(jobs.c.task_id).order_by(func.max(jobs.c.changed)).limit(MOST)).all()
    found = [rows.of_task(connection, each.task_id) for each in changed]
    whole = [each for each in found if all(job.state in FINAL for job in each)]
    newest = max((each.newest for each in changed), default=seen)
    return [_record(connection, each) for each in whole], newest, len(changed) == MOST


def _record(connection: Connection, found: list[Job]) -> CommandRecord:
    task_id = found[0].task_id
    asked = select(approvals.c.requested_at, approvals.c.decided_at).where(approvals.c.task_id == task_id)
    approval = connection.execute(asked.limit(1)).first()
    card = select(outbox.c.sent_at).where(outbox.c.kind == rows.CARD, outbox.c.subject == task_id)
    answered = connection.execute(card).scalar()
    requested, decided = (approval.requested_at, approval.decided_at) if approval else (None, None)
    return CommandRecord(found, requested, decided, answered)


def _in_sdk(task_id: str, span: TraceSpan, host: str) -> ReadableSpan:
    """The same span as an object of the SDK."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(key: str) -> SpanContext:
        return SpanContext(trace_id(task_id), span_id(task_id, key), is_remote=False, trace_flags=TraceFlags(1))

    about = {"service.name": "supervisor", "service.instance.id": host, "service.version": __version__}
    return ReadableSpan(
        span.name,
        context(span.key),
        parent=context(ROOT) if span.parent else None,
        resource=Resource.create(about),
        attributes=span.attributes,
        events=[Event(each.words, timestamp=_nanoseconds(each.at)) for each in span.steps],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(span.end),
    )


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
