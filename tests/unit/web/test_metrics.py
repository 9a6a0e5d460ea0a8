"""Metrics: names that dashboards rely on, and counts of what happened since the start."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from supervisor_core.common.events import Event, EventType
from supervisor_core.web.facts import LedgerFacts, OutboxFacts, WebFacts
from supervisor_core.web.metrics import CommandTally, exposition
from tests.unit.web.test_page import DOWN, NOW, WELL

DOCS = Path(__file__).parents[3] / "docs"
FILES = (DOCS / "units" / "grafana-dashboard.json", DOCS / "units" / "prometheus-rules.yaml")


def event(kind: EventType, seconds: float, **payload: object) -> Event:
    at = datetime(2026, 11, 19, 12, tzinfo=UTC) + timedelta(seconds=seconds)
    return Event(kind, "fetcher", at, {"task_id": "task_1", "handler": "pause", **payload})


def scraped(tally: CommandTally | None = None) -> dict[str, float]:
    ledger = LedgerFacts(waiting=[OutboxFacts("card", 3, 12.5)])
    facts = WebFacts("OrionMX", NOW, [WELL, DOWN], (), "", ledger, 7, {"connected": 1.0})
    text = exposition(facts, tally or CommandTally(), 0.001).decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_workers_are_counted_by_the_state_that_status_shows() -> None:
    found = scraped()
    assert found["supervisor_workers[('state', 'running')]"] == 1
    assert found["supervisor_workers[('state', 'down')]"] == 1
    assert found["supervisor_worker_up[('team', 'archive'), ('worker', 'crasher')]"] == 0


def test_commands_are_counted_by_outcome_with_their_durations() -> None:
    tally = CommandTally()
    for kind, seconds, payload in (
        (EventType.COMMAND_STARTED, 0, {}),
        (EventType.COMMAND_DONE, 2, {"success": True}),
        (EventType.COMMAND_STARTED, 3, {}),
        (EventType.COMMAND_DONE, 503, {"success": False}),
    ):
        tally.take(event(kind, seconds, **payload))
    found = scraped(tally)
    assert found["supervisor_commands_total[('command', 'pause'), ('outcome', 'success')]"] == 1
    assert found["supervisor_commands_total[('command', 'pause'), ('outcome', 'failure')]"] == 1
    assert found["supervisor_command_seconds_sum[('command', 'pause')]"] == 502
    assert found["supervisor_command_seconds_bucket[('command', 'pause'), ('le', '2.5')]"] == 1
    assert found["supervisor_command_seconds_bucket[('command', 'pause'), ('le', '+Inf')]"] == 2


def test_the_outbox_and_the_connections_have_figures() -> None:
    found = scraped()
    assert found["supervisor_outbox_oldest_seconds[('kind', 'card')]"] == 12.5
    assert found["supervisor_forwarder_waiting_rows[]"] == 7
    assert found["supervisor_slack_connected[]"] == 1


def test_the_dashboard_and_the_rules_name_only_metrics_that_exist() -> None:
    known = {re.sub(r"\[.*", "", name) for name in scraped(_used())} | {"up"}
    known |= {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in known}
    for path in FILES:
        text = path.read_text()
        assert json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        named = set(re.findall(r"\bsupervisor_[a-z_]+", text))
        assert named
        assert not {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in named} - known, path.name


def _used() -> CommandTally:
    tally = CommandTally()
    tally.take(event(EventType.WORKER_STARTED, 0))
    tally.take(event(EventType.COMMAND_STARTED, 0))
    tally.take(event(EventType.COMMAND_DONE, 1, success=True))
    return tally
