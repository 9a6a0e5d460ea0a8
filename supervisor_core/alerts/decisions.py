"""Decides about alerts in the caller's transaction, and writes what follows: rows, messages, escalation, evidence.

Evidence, the last lines of a worker's log without secrets, is collected in a thread of its own: the log may lie on the
drive, and no alert waits for a drive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.alerts import messages as tidings
from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.flips import find as find_flip
from supervisor_core.alerts.grouping import parents
from supervisor_core.alerts.grouping.rules import STORM, StormRules, after_members, closes_after
from supervisor_core.alerts.grouping.service import follow_hosts, group_alerts, part_of
from supervisor_core.alerts.outside.documents import outside_messages
from supervisor_core.alerts.rows import AlertChange, AlertDecision
from supervisor_core.alerts.rules import Alert, AlertRules, AlertState, Reason, after_decision, decide
from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import ALERT, Suppression, holding
from supervisor_core.commands.addresses import is_address
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line, random_id
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.schema import EscalationSettings
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.logging.excerpts import newest_run
from supervisor_core.host.logging.masking import Masking
from supervisor_core.processes.output.files import read_source, source_of
from supervisor_core.storage.steps import Message, record, take
from supervisor_core.workers.conditions import ALERTMANAGER, FLAPPING, Condition, Severity, Target, shown_as
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.output.runs import read_lines_of_run, run_in_question
from supervisor_core.workers.restarts.history import read_history


def place_of(config: SupervisorConfig) -> dict[str, str] | None:
    """The channel for alerts; None without one: the log and `supervisor alerts` have them."""
    channel = config.slack.alert_channel or config.slack.fallback_channel
    return {"channel": channel} if config.slack.enabled and channel else None


CHANNELS = ("C", "G", "D")
"""The first letters of channel ids; all others are people or groups."""


def steps_of(config: SupervisorConfig) -> tuple[EscalationSettings, ...]:
    return tuple(sorted(config.alerts.escalation, key=lambda step: step.after_minutes))


def calls(config: SupervisorConfig, before: Alert, after: Alert) -> Iterator[Message]:
    """The messages of the steps that were just taken: a mention in the alert's thread, a post in each channel.

    Several that came due at the same time reach everybody once."""
    if not config.slack.enabled:
        return
    step = after.escalated
    taken = [who for each in steps_of(config)[before.escalated : step] for who in each.to]
    people = list(dict.fromkeys(who for who in taken if not who.startswith(CHANNELS)))
    home = config.slack.alert_channel or config.slack.fallback_channel
    if home and (people or home in taken):
        yield tidings.call_below(after, step, people, broadcast=config.alerts.broadcast or home in taken)
    for channel in dict.fromkeys(who for who in taken if who.startswith(CHANNELS)):
        if channel != home:
            yield tidings.call_in(after, step, channel)


class AlertDecider:
    """Decides by the configuration that is in force. `resting` says whether monitoring is paused."""

    def __init__(self, supervisor_id: str, config: Callable[[], SupervisorConfig], resting: Callable[[], bool]) -> None:
        self._host = supervisor_id
        self._config = config
        self._resting = resting

    def decide(
        self,
        connection: Connection,
        changes: Sequence[AlertChange],
        hushes: Mapping[Target, Sequence[Suppression]],
        now: datetime,
    ) -> list[AlertDecision]:
        """Decide about these changes, and write the decisions; the answer has those worth a line in the log."""
        config = self._config()
        grace, storms = timedelta(seconds=config.alerts.start_grace_seconds), storm_rules_of(config)
        digests = {each.after.alert_id for each in changes if each.after.target.kind == STORM}
        single = part_of(
            connection, self._host, [each for each in changes if each.after.target.kind != STORM], now, grace
        )
        decisions = [self._decide(connection, *each, hushes[each.after.target], now) for each in single]

        def decide_new(alert: Alert) -> AlertDecision:
            return self._decide(connection, None, alert, self._hushes(connection, alert, now), now)

        decisions = group_alerts(connection, self._host, decisions, now, storms, random_id, decide_new)
        written = self._write(connection, decisions, now)
        if any(each.before is None and each.after.target.kind == STORM for each in decisions):
            crashpoints.reach("alerts_t.storm:after")
        follow_hosts(connection, self._host, decisions, now, grace)
        new = {each.after.alert_id for each in decisions if each.before is None}
        above = {alert.parent_id for each in decisions for alert in each[:2] if alert is not None and alert.parent_id}
        return written + self._update_parents(connection, (above | digests) - new, now)

    def _decide(
        self,
        connection: Connection,
        before: Alert | None,
        after: Alert,
        hushes: Sequence[Suppression],
        now: datetime,
        rules: AlertRules | None = None,
    ) -> AlertDecision:
        own = Target(ALERT, after.alert_id)
        snoozes = suppressions.about(connection, [own], now)[own] if after.state is AlertState.SNOOZED else []
        resting = self._resting()
        rules = rules or rules_of(self._config())
        decision = decide(after, now, rules, [*hushes, *snoozes], resting=resting, grown=_has_grown(before, after))
        return AlertDecision(before, after, decision, resting or holding(hushes, now) is not None)

    def _write(self, connection: Connection, decisions: Sequence[AlertDecision], now: datetime) -> list[AlertDecision]:
        """Write each decision and order its message; the answer has those worth a line in the log."""
        config = self._config()
        place, receivers = place_of(config), config.alerts.outside
        written, begun = list[AlertDecision](), list[Alert]()
        for each in decisions:
            before, after, decision, quiet = each
            final = after_decision(after, decision, now)
            messages = alerts.messages_of(before, final, decision.reason, place, now, broadcast=config.alerts.broadcast)
            if decision.reason is Reason.ESCALATED:
                messages += calls(config, after, final)
            if decision.reason is Reason.HEALED and not quiet and self._runs_again(connection, final):
                messages += alerts.recovery_messages(final, place, now)
            if _goes_outside(final):
                messages += outside_messages(connection, final, decision.reason, receivers, now)
            if before is None:
                begun.append(final)
                record(connection, self._host, None, messages, now)
            elif not take(
                connection, self._host, alerts.move(before, final, messages), now
            ):  # pragma: no cover (just read)
                continue
            if final.state is AlertState.CLOSED and final.target.kind == FLAPPING:
                alerts.unfold(connection, final.alert_id, now)
            if decision.reason.tells or before is None or str(decision.reason) != before.decided:
                written.append(each)
        alerts.begin(connection, begun)
        return written

    def _runs_again(self, connection: Connection, alert: Alert) -> bool:
        """False for a worker that was paused instead, or whose work was done: it exited with code 0."""
        flip = None if alert.closed_flip is None else find_flip(connection, self._host, alert.closed_flip)
        return flip is not None and flip.new is Condition.WELL

    def _update_parents(self, connection: Connection, alert_ids: set[str], now: datetime) -> list[AlertDecision]:
        """Update the parents of these alerts: a digest closes with its last member."""
        decisions = []
        for alert in parents.parents(connection, alert_ids):
            if alert.target.kind == STORM:
                decisions.append(self._decide_storm(connection, alert, now))
            if not alert.target.worker:  # it says how many they are
                record(connection, self._host, None, (alerts.refresh_message(alert.alert_id),), now)
        return self._write(connection, decisions, now)

    def _decide_storm(self, connection: Connection, alert: Alert, now: datetime) -> AlertDecision:
        config, members = self._config(), parents.members_of(connection, alert)
        after, rules = after_members(alert, members, now), rules_of(config)
        if after.cleared_at is not None:
            wait = closes_after(members, after.cleared_at, storm_rules_of(config), rules.close_after)
            rules = replace(rules, close_after=wait)
        hushes = [*self._hushes(connection, alert, now), *parents.hushes_of_all(connection, alert, now)]
        return self._decide(connection, alert, after, hushes, now, rules)

    def _hushes(self, connection: Connection, alert: Alert, now: datetime) -> Sequence[Suppression]:
        return suppressions.about(connection, [alert.target], now)[alert.target]


def _goes_outside(alert: Alert) -> bool:
    """True if the alert goes beyond Slack: not for each member of a storm, unless it was sent before, and not if it
    came from elsewhere."""
    if alert.target.kind == ALERTMANAGER:
        return False
    return alert.parent_id is None or alert.calling_since is not None


def _has_grown(before: Alert | None, after: Alert) -> bool:
    """True if what has many parts has become critical by one of them, or flapping has ended in quarantine."""
    if before is None or before.condition is not after.condition:
        return False
    if shown_as(before.condition, before.reason) is not shown_as(after.condition, after.reason):
        return after.condition is Condition.FLAPPING and shown_as(after.condition, after.reason) is Condition.DOWN
    return before.severity is Severity.WARNING and after.severity is Severity.CRITICAL


def rules_of(config: SupervisorConfig) -> AlertRules:
    """The timing of messages, by the configuration."""
    said = config.alerts
    return AlertRules(
        open_after=timedelta(seconds=said.open_after_seconds),
        close_after=timedelta(seconds=said.close_after_seconds),
        renotify=timedelta(minutes=said.renotify_minutes),
        escalation=tuple(timedelta(minutes=step.after_minutes) for step in steps_of(config)),
    )


def storm_rules_of(config: SupervisorConfig) -> StormRules:
    said = config.alerts
    return StormRules(said.storm_threshold, timedelta(seconds=said.storm_window_seconds))


LINES, LINE = 6, 300
READ_LINES, ASKED_LINES = 400, 40
"""Of the end of a log, here and of another host; those of other runs and those without words are left out."""

ABOUT_END = frozenset({Condition.DOWN, Condition.RESTART_LIMIT, Condition.FLAPPING})
"""The end of a process is the problem; the worker may have been restarted since."""

SECONDS = 2.0
AT_ONCE = 20
"""With more alerts at the same time, only the first get log lines: nobody reads a hundred logs."""

Keep = Callable[[str, Sequence[str]], object]
"""Takes what was found for the alert with this id."""

log = logging.getLogger(__name__)


ReadElsewhere = Callable[[str, int], Sequence[str]]
"""The newest lines of a worker of another host, so many. It blocks."""


class EvidenceCollector:
    """Looks in a thread of its own, one alert after the other."""

    def __init__(self, host: Callable[[], HostContext], elsewhere: ReadElsewhere | None = None) -> None:
        """`elsewhere` reads the newest lines of a worker of another host."""
        self._host = host
        self._elsewhere = elsewhere
        self._threads = DaemonThreads("evidence", 1)

    def gather(self, alerts: Sequence[Alert], keep: Keep) -> None:
        """Collect details about these alerts of workers in the background."""
        for alert in alerts[:AT_ONCE]:
            self._threads.submit(self._gather, alert, keep)

    def _gather(self, alert: Alert, keep: Keep) -> None:
        """The edge: what can't be found is left out."""
        worker_id = alert.target.worker
        try:
            if self._elsewhere is not None and is_address(worker_id):
                lines = _cut(newest_run(self._elsewhere(worker_id, ASKED_LINES)))
            else:
                lines = last_words(self._host(), worker_id, about_end=alert.condition in ABOUT_END)
            if lines:
                keep(alert.alert_id, lines)
        except (DriveUnavailable, SupervisorError, OSError) as error:
            log.info("the last log lines of %s couldn't be read: %s", worker_id, error)


def last_words(host: HostContext, worker_id: str, *, about_end: bool = False) -> list[str]:
    """Read the last log lines of this worker's process; of the one before it, if the problem is the end of that."""
    worker = host.config.workers.get(worker_id)
    if worker is None:
        return []
    try:
        end = read_source(host.drive, source_of(host.config, worker), timeout=SECONDS)
    except FileNotFoundError:
        return []
    record, (ended, _) = host.processes.record(worker_id), read_history(host.config.state_dir, worker_id)
    running = bool(record and record.identity and host.processes.state(record.identity).running)
    run = run_in_question(record, ended, running=running, about_end=about_end)
    return _cut(read_lines_of_run(worker, end, run, READ_LINES, Masking(host.config.secrets)))


def _cut(lines: Sequence[str]) -> list[str]:
    return [one_line(line, LINE) for line in lines if line.strip()][-LINES:]
