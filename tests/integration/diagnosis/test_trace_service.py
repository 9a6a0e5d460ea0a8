"""Traces reach a collector as OpenTelemetry's own messages; one that is away or slow costs nobody anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from sqlalchemy import Connection

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common.events import EventBus
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis import trace_service
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.rows import NewJob
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import Ledger
from tests.support.homes import a_home
from tests.support.waiting import wait_until

SECONDS = 20.0
ANNA = Issuer("cli:anna", "anna")
NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


class Collector:
    """What a collector was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.requests = 0
        self.headers: list[str] = []
        self.spans: list[Span] = []

    def take(self, body: bytes, kind: str) -> None:
        self.requests += 1
        self.headers.append(kind)
        if self.status == 200:
            message = ExportTraceServiceRequest.FromString(body)
            self.spans += [
                span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans
            ]


@contextmanager
def a_collector() -> Iterator[Collector]:
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.take(self.rfile.read(int(self.headers["Content-Length"])), self.headers["Content-Type"])
            self.send_response(made.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    made.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    try:
        yield made
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_a_command_becomes_one_trace_and_a_refusal_is_told_until_the_next_is_taken(tmp_path: Path) -> None:
    with a_collector() as collector, a_home(tmp_path / "home", traces={"url": collector.url}) as home:
        collector.status = 503
        home.start_daemon()
        home.supervisor("send", "pause", "--wait")
        wait_until(
            lambda: "doesn't take traces" in home.status()["supervisor"]["problem"], SECONDS, "the refusal is told"
        )
        collector.status = 200
        home.supervisor("send", "resume", "--wait")
        wait_until(lambda: collector.spans, SECONDS, "the trace arrives")
        root, *parts = collector.spans
        assert (root.name, [each.name for each in parts]) == ("resume", ["wait OrionMX", "resume OrionMX"])
        assert {each.trace_id for each in parts} == {root.trace_id}
        assert {each.parent_span_id for each in parts} == {root.span_id}
        assert root.status.code == Status.STATUS_CODE_OK
        assert all(root.start_time_unix_nano <= each.start_time_unix_nano for each in parts)
        assert set(collector.headers) == {"application/x-protobuf"}
        wait_until(lambda: "traces" not in home.status()["supervisor"]["problem"], SECONDS, "all is well again")


@pytest.mark.parametrize("url", ["collector:4318", "ftp://collector.example.org"])
def test_an_address_that_is_none_is_refused_with_an_example(tmp_path: Path, url: str) -> None:
    with a_home(tmp_path / "home", traces={"url": url}) as home:
        done = home.supervisor("config", "check")
        assert done.returncode != 0
        assert "traces.url" in done.stdout + done.stderr


def file_pause(ledger: Ledger, task_id: str, *, ended: bool) -> None:
    """A command that waits, or that has ended."""
    new = NewJob(task_id, "OrionMX", "pause", {}, None, ANNA, "cli", NOW)

    def write(connection: Connection) -> None:
        assert jobs.file(connection, "TestHost", new, NOW)
        (job,) = jobs.of_task(connection, task_id)
        assert not ended or take(connection, "TestHost", jobs.refuse(job, Outcome.failed("stopped"), NOW), NOW)

    ledger.write(write)


def test_commands_that_still_run_or_fill_a_request_keep_no_later_ones_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_service, "MOST", 2)
    with a_collector() as collector, a_home(tmp_path / "home", traces={"url": collector.url}) as home:
        config = load_supervisor_config(str(home.config))
        with opened_ledger(config) as ledger:
            traces = trace_service.Traces(config, ledger, EventBus())
            for number in range(5):
                file_pause(ledger, f"task_{number}", ended=number in (1, 4))
            rounds = 1
            while traces._send():  # noqa: SLF001 (one round of its loop)
                rounds += 1
            assert rounds > 2, "two commands are looked at in a round"
            assert len([span for span in collector.spans if not span.parent_span_id]) == 2
