"""Metrics for Prometheus. Gauges are looked up at the moment of the scrape; counters count from the daemon's start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING

from supervisor_core.alerts.grouping.rules import as_people_count
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.conditions import STATES, in_one_word, state_word
from supervisor_core.common.events import Event, EventType
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.version import __version__
from supervisor_core.web.facts import WebFacts
from supervisor_core.workers.conditions import Severity

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX = "supervisor_"
BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper limits of the durations of commands, in seconds."""

CHAT_FIGURES = {
    "connected": "1 if the bot is connected to Slack.",
    "heard_seconds_ago": "The time since Slack was last heard from.",
    "connection_age_seconds": "The age of the connection to Slack.",
    "connections_total": "Connections to Slack since the start of the daemon, replaced ones included.",
}

MOST_STARTED = 1000
"""The most running commands that are tracked; more than ever run at once."""


@dataclass(slots=True)
class CommandTally:
    """Counts commands by outcome, and their durations, from the daemon's events."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By command and outcome."""
    buckets: dict[str, list[int]] = field(default_factory=dict)
    """The number of durations up to each limit, not cumulative; the last is for longer ones."""
    seconds: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    """The starts of each worker's processes."""
    _started: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        if event.type is EventType.WORKER_STARTED:
            self.restarts[event.subject] += 1
            return
        key = event.subject, str(event.payload.get("task_id", ""))
        if event.type is EventType.COMMAND_STARTED:
            if len(self._started) < MOST_STARTED:
                self._started[key] = event.at
            return
        begun = self._started.pop(key, None)
        if event.type is EventType.COMMAND_INTERRUPTED:
            self.outcomes["", "interrupted"] += 1
        elif event.type is EventType.COMMAND_DONE:
            definition = by_handler(str(event.payload.get("handler", "")))
            name = definition.name if definition else "unknown"
            self.outcomes[name, "success" if event.payload.get("success") else "failure"] += 1
            if begun is not None:
                seconds = max(0.0, (event.at - begun).total_seconds())
                counts = self.buckets.setdefault(name, [0] * (len(BUCKETS) + 1))
                place = next((number for number, limit in enumerate(BUCKETS) if seconds <= limit), len(BUCKETS))
                counts[place] += 1
                self.seconds[name] += seconds  # type: ignore[assignment]  # a Counter of floats


EVENTS = (
    EventType.COMMAND_STARTED,
    EventType.COMMAND_DONE,
    EventType.COMMAND_INTERRUPTED,
    EventType.WORKER_STARTED,
)
"""The events that are counted."""


def exposition(facts: WebFacts, tally: CommandTally, lag_seconds: float) -> bytes:
    """The metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class AtThisMoment(Collector):
        def collect(self) -> Iterable[Metric]:
            return metrics_of(facts, tally, lag_seconds)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(AtThisMoment())
    text: bytes = generate_latest(registry)
    return text


def metrics_of(facts: WebFacts, tally: CommandTally, lag_seconds: float = 0.0) -> Iterator[Metric]:
    """All metrics. Their names and labels are a contract; `docs/reference/metrics.md` lists them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    def gauge(name: str, words: str, value: float) -> Metric:
        return GaugeMetricFamily(PREFIX + name, words, value=value)

    yield InfoMetricFamily(PREFIX + "build", "The version of the supervisor.", value={"version": __version__})
    yield gauge("ready", "1 if workers are supervised and all services have started.", float(facts.ready))
    yield from _of_workers(facts)
    yield from _of_commands(tally)
    approvals = sum(1 for each in facts.ledger.approvals if each.state is ApprovalState.PENDING)
    yield gauge("approvals_pending", "Approvals that are waiting for votes.", approvals)
    open_alerts = GaugeMetricFamily(PREFIX + "alerts_open", "Open alerts.", labels=["severity"])
    alerts = as_people_count(facts.ledger.alerts)
    for severity in Severity:
        open_alerts.add_metric([str(severity)], sum(1 for alert in alerts if alert.severity is severity))
    yield open_alerts
    yield from _of_outbox(facts)
    healthy = GaugeMetricFamily(
        PREFIX + "service_healthy", "1 if a service of the daemon is healthy.", labels=["service"]
    )
    for report in facts.services:
        if report.state != "disabled":
            healthy.add_metric([report.name], float(report.state == "running" and report.health != "degraded"))
    yield healthy
    yield gauge(
        "forwarder_waiting_rows", "Audit rows and heartbeats that wait for the shared database.", facts.waiting_rows
    )
    yield gauge("loop_lag_seconds", "How late the daemon's event loop was in this scrape.", lag_seconds)
    yield gauge("ledger_bytes", "The size of the ledger with its write-ahead log.", facts.ledger.size_bytes)
    for name, value in facts.chat.items():
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        yield kind(f"{PREFIX}slack_{name}", CHAT_FIGURES.get(name, "The connection to Slack."), value=value)


def _of_workers(facts: WebFacts) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    words = [in_one_word(state_word(each)) for each in facts.workers]
    counted = Counter(words)
    states = GaugeMetricFamily(PREFIX + "workers", "Workers by state, as `status` shows it.", labels=["state"])
    for state in dict.fromkeys((*STATES, *words)):
        states.add_metric([state], counted[state])
    yield states
    labels = ["worker", "team"]
    up = GaugeMetricFamily(PREFIX + "worker_up", "1 if the worker runs and is healthy.", labels=labels)
    memory = GaugeMetricFamily(
        PREFIX + "worker_memory_bytes", "Resident memory of a worker's processes.", labels=labels
    )
    cpu = GaugeMetricFamily(PREFIX + "worker_cpu_seconds", "CPU time of a worker's running processes.", labels=labels)
    for each, word in zip(facts.workers, words, strict=True):
        names = [str(each["id"]), str(each.get("team") or "")]
        up.add_metric(names, float(word == "running"))
        if each.get("memory_bytes") is not None:
            memory.add_metric(names, each["memory_bytes"])
        if each.get("cpu_seconds") is not None:
            cpu.add_metric(names, each["cpu_seconds"])
    yield from (up, memory, cpu)


def _of_commands(tally: CommandTally) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    done = CounterMetricFamily(PREFIX + "commands", "Commands on workers that ended.", labels=["command", "outcome"])
    for (name, outcome), number in sorted(tally.outcomes.items()):
        done.add_metric([name, outcome], number)
    yield done
    durations = HistogramMetricFamily(PREFIX + "command_seconds", "Durations of commands.", labels=["command"])
    for name, counts in sorted(tally.buckets.items()):
        limits = (*map(str, map(float, BUCKETS)), "+Inf")
        durations.add_metric([name], list(zip(limits, accumulate(counts), strict=True)), tally.seconds[name])
    yield durations
    starts = CounterMetricFamily(
        PREFIX + "worker_starts", "Processes that were started for a worker.", labels=["worker"]
    )
    for worker, number in sorted(tally.restarts.items()):
        starts.add_metric([worker], number)
    yield starts


def _of_outbox(facts: WebFacts) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    depth = GaugeMetricFamily(
        PREFIX + "outbox_messages", "Messages and files that are waiting to be sent.", labels=["kind"]
    )
    age = GaugeMetricFamily(
        PREFIX + "outbox_oldest_seconds", "The age of the oldest message or file that is waiting.", labels=["kind"]
    )
    for each in facts.ledger.waiting:
        depth.add_metric([each.kind], each.count)
        age.add_metric([each.kind], each.oldest_seconds)
    yield from (depth, age)
