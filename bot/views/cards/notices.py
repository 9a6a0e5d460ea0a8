"""Notices: the summaries of quiet hours and of a week, escalations, and the state of the connection. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.views.blocks import Content, section, text_message
from bot.views.cards.alert import WORDS, target_name
from bot.views.text import day, escape, first_lines, fit, moment
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.rules import Alert, AlertState
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import render
from supervisor_core.common.text import times
from supervisor_core.common.times import format_span
from supervisor_core.diagnosis.history import percent

SHOWN = 10
"""Lines of a kind."""

MENTIONS = 50
"""Of one step of the escalation: more would not fit."""

NOTICE, WHY, LONGEST = 100, 200, 2900  # characters


def quiet_hours_summary(kept: Sequence[Alert], since: datetime, until: datetime) -> Content:
    """The alerts that quiet hours held back: those still open, which have messages of their own, and those that
    recovered."""
    holds = [alert for alert in kept if alert.state is not AlertState.CLOSED]
    over = [alert for alert in kept if alert.state is AlertState.CLOSED]
    many = f"{len(kept)} {'alert was' if len(kept) == 1 else 'alerts were'} kept back"
    title = f"Quiet hours are over: {many} from {moment(since)} to {moment(until)}."
    parts = [f":sunrise: *{title}*"]
    if holds:
        parts.append(_part("*Still so:*", [_holding(alert) for alert in holds]))
    if over:
        parts.append(_part("*Came and went:*", _gone(over)))
    return {"text": fit("\n".join([title, *parts[1:]]), LONGEST), "blocks": [section(part) for part in parts]}


def escalation(alert: Alert, people: Sequence[str]) -> Content:
    """The escalation in the thread of the alert's message, which mentions people."""
    called = " ".join(map(_mention, people[:MENTIONS]))
    return text_message(f":rotating_light: {called} {_unanswered(alert)}".replace("  ", " "))


def escalation_elsewhere(alert: Alert, channel: str, link: str) -> Content:
    """In another channel: what it is, and where to do something about it."""
    where = (
        f" <{link}|Its message> has the buttons." if link else f" Its message is in <#{channel}>." if channel else ""
    )
    return text_message(f":rotating_light: {_unanswered(alert)}{where}")


def weekly_summary(
    host: str, since: datetime, until: datetime, begun: Sequence[Alert], worked: Mapping[str, Uptime]
) -> Content:
    """The summary of a week, one line where it was quiet."""
    all_of_it = _sum(worked.values())
    at_work = f"{count(len(worked), 'worker')}, {percent(all_of_it)} at work"
    whose = f"on {fit(escape(host), NOTICE)} from {day(since)} to {day(until)}"
    if not begun:
        return text_message(f":calendar: *A quiet week* {whose}: no alerts; {at_work}.")
    title = f"The week {whose}: {count(len(begun), 'alert')}; {at_work}."
    grouped: dict[str, list[Alert]] = {}
    for alert in begun:
        grouped.setdefault(target_name(alert), []).append(alert)
    worst = sorted(grouped.items(), key=lambda each: (-_lengths(each[1], until), each[0]))
    lines = [_of_one(name, each, until, worked.get(each[0].target.worker)) for name, each in worst]
    part = _part("*Longest in trouble:*", lines)
    return {"text": fit(f"{title}\n{part}", LONGEST), "blocks": [section(f":calendar: *{title}*"), section(part)]}


def uptime_lines(worked: Mapping[str, Sequence[Uptime]]) -> list[str]:
    """The uptime of workers, the lowest first; without those that have none on record."""
    known = {worker_id: each for worker_id, each in worked.items() if any(part.share is not None for part in each)}
    worst = sorted(known.items(), key=lambda each: (_least(each[1]), each[0]))
    return [f"• {fit(escape(name), NOTICE)}: {' · '.join(map(percent, each))}" for name, each in worst]


def _least(spans: Sequence[Uptime]) -> float:
    return min(part.share for part in spans if part.share is not None)


def _sum(worked: Iterable[Uptime]) -> Uptime:
    total = Uptime()
    for each in worked:
        total = Uptime(
            total.well + each.well,
            total.unwell + each.unwell,
            total.down + each.down,
            total.uncounted + each.uncounted,
        )
    return total


def _lengths(alerts: Iterable[Alert], until: datetime) -> float:
    """The duration of these alerts in seconds, open ones up to this moment."""
    return sum(((alert.closed_at or until) - alert.opened_at).total_seconds() for alert in alerts)


def _of_one(name: str, alerts: Sequence[Alert], until: datetime, worked: Uptime | None) -> str:
    lasted = format_span(_lengths(alerts, until))
    share = f"; {percent(worked)} at work" if worked is not None else ""
    goes_on = ", and goes on" if any(alert.state is not AlertState.CLOSED for alert in alerts) else ""
    return f"• {name}: {count(len(alerts), 'alert')}, {lasted}{goes_on}{share}"


def _unanswered(alert: Alert) -> str:
    why = fit(escape(alert.reason), WHY).rstrip(".")
    since = f"since {moment(alert.opened_at)}"
    return f"Nobody has acknowledged this yet: *{target_name(alert)} {WORDS[alert.condition]}* {since}. Why: {why}."


def _mention(who: str) -> str:
    """Somebody out of the configuration: a person, or a group of them."""
    return f"<!subteam^{who}>" if who.startswith("S") else f"<@{who}>"


def pause_flag(said: Mapping[str, Any]) -> Content:
    """A pause flag that somebody changed on the drive, and that was put back."""
    headline = f":warning: *{fit(escape(str(said['worker_id'])), NOTICE)}:* {escape(str(said['what']))}."
    todo = "Somebody can write to the state folder of the drive. Find out who, and pause or resume with a command."
    return text_message(f"{headline}\n{todo}")


def _part(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *first_lines(lines, SHOWN)])


def _holding(alert: Alert) -> str:
    why = fit(escape(alert.reason), WHY)
    return f"• {target_name(alert)} {WORDS[alert.condition]} since {moment(alert.opened_at)}: {why}"


def _gone(over: Sequence[Alert]) -> list[str]:
    """A line for each target and what it was, however often."""
    grouped: dict[tuple[str, str], list[Alert]] = {}
    for alert in over:
        grouped.setdefault((target_name(alert), WORDS[alert.condition].removeprefix("is ")), []).append(alert)
    lines = []
    for (name, was), each in grouped.items():
        lasted = sum((_lasted(alert) for alert in each), timedelta())
        often = "" if len(each) == 1 else f" {times(len(each))},"
        in_all = " in all" if len(each) > 1 else ""
        lines.append(f"• {name}: {was}{often} for {format_span(lasted.total_seconds())}{in_all}")
    return lines


def _lasted(alert: Alert) -> timedelta:
    return max((alert.closed_at or alert.opened_at) - alert.opened_at, timedelta())


ERROR = 1000  # characters

GAPS = 15  # on one notice


def preview_pending(command: Command) -> Content:
    """A preview is under way, and its sender waits."""
    what = "Checking the remote" if command.name.startswith("update") else "Checking what it would do"
    return text_message(f":hourglass_flowing_sand: {what}… `{escape(render(command))}` The result follows here.")


def approval_requested(command: Command) -> Content:
    """The message in its place once an approval is requested."""
    return text_message(f":white_check_mark: Approval requested for `{escape(render(command))}`. See its card.")


def not_a_member_hint(channel: str, bot: str) -> str:
    """The reason for a direct message, and the way to change that."""
    return f"Told here because I can't write in <#{channel}>. To change that: `/invite @{bot}` in that channel."


def connection_gap_notice(host: str, gaps: Sequence[tuple[datetime, datetime]], *, away: bool) -> Content:
    """The times without a connection; `away`: the supervisor itself wasn't running."""
    shown = gaps[-GAPS:]
    lines = [f"• and {len(gaps) - len(shown)} times before"] if len(gaps) > len(shown) else []
    lines += [
        f"• from {moment(since)} to {moment(until)} ({format_span((until - since).total_seconds())})"
        for since, until in shown
    ]
    what = (
        f"*The supervisor on {escape(host)} was not there* (it was stopped, or had died)"
        if away
        else f"*The supervisor on {escape(host)} could not reach Slack*"
    )
    advice = (
        "Slash commands and clicks of that time did not reach it: Slack told whoever gave one that it failed, and they "
        "can give it again. A mention of that time may still be carried out: look before you repeat it."
    )
    return text_message("\n".join([f":warning: {what}:", *lines, advice]))


def other_connection_notice(reason: str) -> Content:
    """Somebody else uses our token."""
    advice = (
        "End the other process, or revoke the token in the app's settings and make a new one; `supervisor doctor` "
        "looks again. What an earlier run left open counts for a while, too."
    )
    return text_message(f":warning: *I may not be alone.* {escape(fit(reason, ERROR))}\n{advice}")
