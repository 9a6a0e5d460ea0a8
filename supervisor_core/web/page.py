"""The status page as HTML. Pure; everything from elsewhere is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any

from supervisor_core.alerts.flips import ConditionSpan
from supervisor_core.alerts.incoming import foreign_name
from supervisor_core.alerts.rules import Alert
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.conditions import count_healthy, state_word
from supervisor_core.common.service import ServiceState
from supervisor_core.common.times import clock_time, format_ago, format_span, from_text, replace_timestamps
from supervisor_core.intake.approvals.rules import Approval
from supervisor_core.jobs.model import CommandSummary
from supervisor_core.web.facts import HISTORY, WebFacts
from supervisor_core.workers.conditions import Condition, Severity, word_for

NOTHING = "\N{EN DASH}"
LONGEST_REASON = 200
WIDTH = 288
"""The width of the 24-hour history, in units of five minutes."""


def page(facts: WebFacts) -> str:
    unwell = _count_unwell(facts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{f'({unwell}) ' if unwell else ''}{_text(facts.host)}: workers</title>"
        '<link rel="stylesheet" href="style.css"><script src="page.js" defer></script></head>'
        f'<body><main id="page">{content(facts)}</main>'
        '<p id="offline" hidden>The supervisor doesn\'t answer. What is shown may be old.</p></body></html>\n'
    )


def content(facts: WebFacts) -> str:
    """The part of the page that is replaced when something changes."""
    unwell = _count_unwell(facts)
    summary = count_healthy(facts.workers) if facts.workers else "no workers"
    if unwell:
        summary = f"{unwell} of {len(facts.workers)} {'needs' if unwell == 1 else 'need'} attention"
    unhealthy_services = [
        f"<li><b>{_text(service.name)}</b> {_text(_short(service.trouble))}</li>"
        for service in facts.services
        if service.trouble and service.state is not ServiceState.DISABLED
    ]
    return "".join(
        (
            f'<header><h1>{_text(facts.host)}</h1><p class="{"bad" if unwell else "good"}">',
            f'{summary[:1].upper()}{summary[1:]}</p><p class="at">As of {facts.at:%H:%M:%S} UTC</p></header>',
            f'<p class="problem">{_text(facts.problem)}</p>' if facts.problem else "",
            _alerts(facts.ledger.alerts, facts.at),
            _approvals(facts.ledger.approvals, facts.at),
            _workers(facts),
            _commands(facts.ledger.commands, facts.at),
            _section("Unhealthy services", _list(unhealthy_services)),
        )
    )


def _count_unwell(facts: WebFacts) -> int:
    """The number of workers that are unhealthy, or have an open alert that doesn't look recovered."""
    alerting = {alert.target.worker for alert in facts.ledger.alerts if alert.cleared_at is None}
    return sum(1 for worker in facts.workers if not worker["fine"] or worker["id"] in alerting)


def _alerts(alerts: Sequence[Alert], now: datetime) -> str:
    rows = []
    for alert in sorted(alerts, key=lambda alert: (alert.severity is not Severity.CRITICAL, alert.opened_at)):
        if alert.parent_id is not None:  # another alert includes it
            continue
        by = alert.acknowledged_by
        name = foreign_name(alert.target, alert.reason) or alert.target.id
        rows.append(
            f'<li class="{"critical" if alert.severity is Severity.CRITICAL else "warning"}"><b>{_text(name)}</b> '
            f"{_text(word_for(alert.condition, alert.reason))} <span>{_lasting(alert.opened_at, now)}</span>"
            f"<p>{_text(_with_clock_times(alert.reason, now))}</p>"
            + (f"<p>Acknowledged by {_text(by.name or by.id)}</p>" if by else "")
            + (f"<p>Looks recovered {_lasting(alert.cleared_at, now)}</p>" if alert.cleared_at else "")
            + "</li>"
        )
    return _section("Open alerts", _list(rows, "alerts"))


def _approvals(approvals: Sequence[Approval], now: datetime) -> str:
    rows = [
        f"<li><b>{_text(approval.again)}</b> <span>requested by "
        f"{_text(approval.requester.name or approval.requester.id)}, expires {_clock(approval.expires_at, now)}"
        "</span></li>"
        for approval in approvals
    ]
    return _section("Waiting for approval", _list(rows))


def _workers(facts: WebFacts) -> str:
    if not facts.workers:
        return _section("Workers", "<p>No workers are configured.</p>")
    teams: dict[str, list[Mapping[str, Any]]] = {}
    for worker in facts.workers:
        teams.setdefault(str(worker.get("team") or ""), []).append(worker)
    head = "".join(f"<th>{name}</th>" for name in ("State", "Worker", "Since", "Version", "Memory", "CPU", "24 hours"))
    tables = []
    for team, workers in sorted(teams.items(), key=lambda item: (not item[0], item[0])):
        if team or len(teams) > 1:
            tables.append(f"<h3>{_text(team or 'Without a team')}</h3>")
        rows = "".join(_row(worker, facts) for worker in sorted(workers, key=lambda worker: bool(worker["fine"])))
        tables.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    return _section("Workers", "".join(tables))


def _row(worker: Mapping[str, Any], facts: WebFacts) -> str:
    word, fine = state_word(worker), worker["fine"]
    reason = ""
    if not fine or word != "running":
        reason = f"<p>{_text(_short(_with_clock_times(str(worker['reason']), facts.at)))}</p>"
    color = "amber" if worker["state"] == "running" else "red"
    if word == "running":
        color = "green"
    elif fine and word in ("paused", "stopped", "starting", "stopping"):
        color = "gray"
    started = worker.get("started_at") if worker["pid"] else None
    commit, memory, cpu = worker.get("commit"), worker.get("memory_bytes"), worker.get("cpu_seconds")
    cells = (
        ("State", f'<span class="state {color}">{_text(word)}</span>'),
        ("Worker", f"<b>{_text(str(worker['id']))}</b>{reason}"),
        ("Since", _text(format_ago(from_text(str(started)), facts.at)) if started else ""),
        ("Version", _text(str(commit)[:7]) if commit else ""),
        ("Memory", f"{memory / 2**20:.0f} MB" if isinstance(memory, int) else ""),
        ("CPU", _text(format_span(cpu)) if cpu is not None else ""),
        ("24 hours", _picture(facts.ledger.history.get(str(worker["id"]), ()), facts.at)),
    )
    inside = "".join(
        f'<td data-label="{label}">{cell}</td>' if cell else f'<td class="none">{NOTHING}</td>' for label, cell in cells
    )
    return f"<tr>{inside}</tr>"


def _picture(spans: Sequence[ConditionSpan], now: datetime) -> str:
    """The last 24 hours, as colored bars; unknown time is empty."""
    begin = now - HISTORY
    bars = []
    for span in spans:
        condition = span.condition
        if condition is Condition.UNKNOWN:
            continue
        color = "amber" if condition.severity is Severity.WARNING else "red"
        if condition.fine:
            color = "green" if condition is Condition.WELL else "gray"
        left, right = ((moment - begin) / HISTORY * WIDTH for moment in (span.since, span.until))
        words = f"{word_for(condition, span.reason)} from {span.since:%H:%M} to {span.until:%H:%M} UTC"
        bars.append(
            f'<rect class="{color}" x="{left:.1f}" y="0" width="{max(right - left, 1):.1f}" '
            f'height="14"><title>{_text(words)}</title></rect>'
        )
    label = "conditions in the last 24 hours"
    return f'<svg viewBox="0 0 {WIDTH} 14" role="img" aria-label="{label}">{"".join(bars)}</svg>' if bars else ""


def _commands(commands: Sequence[CommandSummary], now: datetime) -> str:
    rows = []
    for command in commands:
        color, outcome = ("red", "failed") if command.failed else ("green", "done")
        if command.ended < command.count:
            color, outcome = "gray", "running"
        elif command.interrupted:
            color, outcome = "amber", "interrupted"
        definition = by_handler(command.handler)
        more = command.count - len(command.workers)
        workers = ", ".join(command.workers) + (f" and {more} more" if more > 0 else "")
        rows.append(
            f'<li><span class="state {color}">{outcome}</span> '
            f"<b>{_text(definition.name if definition else command.handler)}</b> {_text(workers)} "
            f"<span>{_text(command.issuer.name or command.issuer.id)}, {_clock(command.filed_at, now)}</span></li>"
        )
    return _section("Recent commands", _list(rows, "commands"))


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{inside}</section>" if inside else ""


def _list(rows: Sequence[str], name: str = "") -> str:
    kind = f' class="{name}"' if name else ""
    return f"<ul{kind}>{''.join(rows)}</ul>" if rows else ""


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
