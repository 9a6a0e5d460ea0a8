"""The status page as HTML. Pure; everything from elsewhere is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any

from supervisor_core.alerts.flips import ConditionSpan
from supervisor_core.alerts.incoming.rows import foreign_name
from supervisor_core.alerts.rules import Alert
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.conditions import count_healthy, state_word
from supervisor_core.common.service import ServiceReport, ServiceState
from supervisor_core.common.times import clock_time, format_ago, format_span, from_text, replace_timestamps
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.jobs.model import CommandSummary
from supervisor_core.web.facts import HISTORY, WebFacts
from supervisor_core.workers.conditions.rules import Condition, Severity, word_for

NO_TEAM, NOTHING = "", "\N{EN DASH}"
LONGEST_REASON = 200
WIDTH = 288
"""The width of the 24-hour history, in units of five minutes."""

_GREEN = ("running",)
_GRAY = ("paused", "stopped", "starting", "stopping")


def page(facts: WebFacts) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_title(facts)}</title>"
        '<link rel="stylesheet" href="style.css"><script src="page.js" defer></script></head>'
        f'<body><main id="page">{content(facts)}</main>'
        '<p id="offline" hidden>The supervisor doesn\'t answer. What is shown may be old.</p></body></html>\n'
    )


def content(facts: WebFacts) -> str:
    """The part of the page that is replaced when something changes."""
    unwell, count = _need_attention(facts), len(facts.workers)
    needs = "needs" if unwell == 1 else "need"
    summary = count_healthy(facts.workers) if facts.workers else "no workers"
    if unwell:
        summary = f"{unwell} of {count} {needs} attention"
    summary = summary[:1].upper() + summary[1:]
    problem = f'<p class="problem">{_text(facts.problem)}</p>' if facts.problem else ""
    return "".join(
        (
            _header(facts, summary, well=not unwell),
            problem,
            _alerts(facts.ledger.alerts, facts.at),
            _approvals(facts.ledger.approvals, facts.at),
            _workers(facts),
            _commands(facts.ledger.commands, facts.at),
            _services(facts.services),
        )
    )


def _need_attention(facts: WebFacts) -> int:
    """The number of workers that are unhealthy, or have an open alert that doesn't look recovered."""
    alerting = {alert.target.worker for alert in facts.ledger.alerts if alert.cleared_at is None}
    return sum(1 for worker in facts.workers if not worker["fine"] or worker["id"] in alerting)


def _header(facts: WebFacts, summary: str, *, well: bool) -> str:
    return (
        f'<header><h1>{_text(facts.host)}</h1><p class="{"good" if well else "bad"}">{summary}</p>'
        f'<p class="at">As of {facts.at:%H:%M:%S} UTC</p></header>'
    )


def _title(facts: WebFacts) -> str:
    unwell = _need_attention(facts)
    return f"{f'({unwell}) ' if unwell else ''}{_text(facts.host)}: workers"


def _alerts(found: Sequence[Alert], now: datetime) -> str:
    rows = [
        f'<li class="{_severity(each)}"><b>{_text(_subject(each))}</b> '
        f"{_text(word_for(each.condition, each.reason))} "
        f"<span>{_lasting(each.opened_at, now)}</span><p>{_text(_with_clock_times(each.reason, now))}</p>"
        f"{_acknowledged(each)}{_recovering(each, now)}</li>"
        for each in sorted(found, key=lambda alert: (alert.severity is not Severity.CRITICAL, alert.opened_at))
        if each.parent_id is None  # else another alert includes it
    ]
    return _section("Open alerts", f'<ul class="alerts">{"".join(rows)}</ul>' if rows else "")


def _subject(alert: Alert) -> str:
    return foreign_name(alert.target, alert.reason) or alert.target.id


def _severity(alert: Alert) -> str:
    return "critical" if alert.severity is Severity.CRITICAL else "warning"


def _acknowledged(alert: Alert) -> str:
    by = alert.acknowledged_by
    return f"<p>Acknowledged by {_text(by.name or by.id)}</p>" if by else ""


def _recovering(alert: Alert, now: datetime) -> str:
    return f"<p>Looks recovered {_lasting(alert.cleared_at, now)}</p>" if alert.cleared_at else ""


def _approvals(found: Sequence[Approval], now: datetime) -> str:
    rows = [
        f"<li><b>{_text(each.again)}</b> <span>requested by {_text(each.requester.name or each.requester.id)}, "
        f"expires {_clock(each.expires_at, now)}</span></li>"
        for each in found
    ]
    return _section("Waiting for approval", f"<ul>{''.join(rows)}</ul>" if rows else "")


def _workers(facts: WebFacts) -> str:
    if not facts.workers:
        return _section("Workers", "<p>No workers are configured.</p>")
    teams: dict[str, list[Mapping[str, Any]]] = {}
    for each in facts.workers:
        teams.setdefault(str(each.get("team") or NO_TEAM), []).append(each)
    several = len(teams) > 1
    parts = [
        _table(team if team or not several else "Without a team", those, facts, named=several or bool(team))
        for team, those in sorted(teams.items(), key=lambda item: (not item[0], item[0]))
    ]
    return _section("Workers", "".join(parts))


def _table(team: str, workers: Iterable[Mapping[str, Any]], facts: WebFacts, *, named: bool) -> str:
    rows = "".join(_row(each, facts) for each in sorted(workers, key=lambda each: bool(each["fine"])))
    head = "".join(f"<th>{each}</th>" for each in ("State", "Worker", "Since", "Version", "Memory", "CPU", "24 hours"))
    title = f"<h3>{_text(team)}</h3>" if named else ""
    return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(worker: Mapping[str, Any], facts: WebFacts) -> str:
    word = state_word(worker)
    reason = ""
    if not worker["fine"] or word != "running":
        reason = f"<p>{_text(_short(_with_clock_times(str(worker['reason']), facts.at)))}</p>"
    commit, memory, cpu = worker.get("commit"), worker.get("memory_bytes"), worker.get("cpu_seconds")
    cells = (
        ("State", f'<span class="state {_colour(worker, word)}">{_text(word)}</span>'),
        ("Worker", f"<b>{_text(str(worker['id']))}</b>{reason}"),
        ("Since", _since(worker, facts.at)),
        ("Version", _text(str(commit)[:7]) if commit else ""),
        ("Memory", f"{memory / 2**20:.0f} MB" if isinstance(memory, int) else ""),
        ("CPU", _text(format_span(cpu)) if cpu is not None else ""),
        ("24 hours", _picture(facts.ledger.history.get(str(worker["id"]), ()), facts.at)),
    )
    inside = "".join(
        f'<td data-label="{label}">{cell}</td>' if cell else f'<td class="none">{NOTHING}</td>' for label, cell in cells
    )
    return f"<tr>{inside}</tr>"


def _colour(worker: Mapping[str, Any], word: str) -> str:
    if word in _GREEN:
        return "green"
    return "gray" if word in _GRAY and worker["fine"] else "amber" if worker["state"] == "running" else "red"


def _since(worker: Mapping[str, Any], now: datetime) -> str:
    started = worker.get("started_at")
    return _text(format_ago(from_text(str(started)), now)) if started and worker["pid"] else ""


def _picture(spans: Sequence[ConditionSpan], now: datetime) -> str:
    """The last 24 hours, as colored bars; unknown time is empty."""
    begin = now - HISTORY
    bars = []
    for span in spans:
        if span.condition is Condition.UNKNOWN:
            continue
        left, right = ((moment - begin) / HISTORY * WIDTH for moment in (span.since, span.until))
        words = f"{word_for(span.condition, span.reason)} from {span.since:%H:%M} to {span.until:%H:%M} UTC"
        bars.append(
            f'<rect class="{_shade(span.condition)}" x="{left:.1f}" y="0" width="{max(right - left, 1):.1f}" '
            f'height="14"><title>{_text(words)}</title></rect>'
        )
    label = "conditions in the last 24 hours"
    return f'<svg viewBox="0 0 {WIDTH} 14" role="img" aria-label="{label}">{"".join(bars)}</svg>' if bars else ""


def _shade(condition: Condition) -> str:
    if condition is Condition.WELL:
        return "green"
    return "gray" if condition.fine else "amber" if condition.severity is Severity.WARNING else "red"


def _commands(found: Sequence[CommandSummary], now: datetime) -> str:
    rows = [
        f"<li>{_outcome(each)} <b>{_text(_name(each))}</b> {_text(_workers_of(each))} "
        f"<span>{_text(each.issuer.name or each.issuer.id)}, {_clock(each.filed_at, now)}</span></li>"
        for each in found
    ]
    return _section("Recent commands", f'<ul class="commands">{"".join(rows)}</ul>' if rows else "")


def _outcome(command: CommandSummary) -> str:
    if command.ended < command.count:
        return '<span class="state gray">running</span>'
    if command.interrupted:
        return '<span class="state amber">interrupted</span>'
    return '<span class="state red">failed</span>' if command.failed else '<span class="state green">done</span>'


def _name(command: CommandSummary) -> str:
    definition = by_handler(command.handler)
    return definition.name if definition else command.handler


def _workers_of(command: CommandSummary) -> str:
    more = command.count - len(command.workers)
    return ", ".join(command.workers) + (f" and {more} more" if more > 0 else "")


def _services(found: Sequence[ServiceReport]) -> str:
    """The internal services that aren't healthy."""
    rows = [
        f"<li><b>{_text(each.name)}</b> {_text(_short(each.trouble))}</li>"
        for each in found
        if each.trouble and each.state is not ServiceState.DISABLED
    ]
    return _section("Unhealthy services", f"<ul>{''.join(rows)}</ul>" if rows else "")


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{inside}</section>" if inside else ""


def _clock(moment: datetime, now: datetime) -> str:
    recent = timedelta(0) <= now - moment < timedelta(hours=1)
    return _text(format_ago(moment, now) if recent else f"{clock_time(moment, now)}")


def _lasting(since: datetime, now: datetime) -> str:
    """The duration, or the beginning if that's clearer."""
    length = now - since
    recent = timedelta(0) <= length < timedelta(hours=1)
    return _text(f"for {format_span(length.total_seconds())}" if recent else f"since {clock_time(since, now)}")


def _with_clock_times(text: str, now: datetime) -> str:
    return replace_timestamps(text, lambda at: clock_time(at, now, seconds=True))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_REASON else f"{flat[: LONGEST_REASON - 1]}…"


def _text(text: str) -> str:
    return escape(text, quote=True)
