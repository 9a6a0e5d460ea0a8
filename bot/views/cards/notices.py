"""Notices: the summaries of quiet hours and of a week, escalations, and the state of the connection. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.views.blocks import Color, Content, card, context, section, text_message
from bot.views.cards.alert import condition_words, reason_of, target_name
from bot.views.home.page import TRY_FIRST
from bot.views.text import day, escape, first_lines, in_code, in_span, inert, minute, unescape, when
from supervisor_core.alerts.flips import Uptime
from supervisor_core.alerts.rules import Alert, AlertState
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import render
from supervisor_core.common.text import times
from supervisor_core.common.times import format_span, from_text
from supervisor_core.diagnosis.history import NO_PERCENT, percent
from supervisor_core.storage.audit.chain import ChainHead

SHOWN = 10
"""Lines of a kind."""

MENTIONS = 50
"""Of one step of the escalation: more would not fit."""

NOTICE, COMMAND = 100, 400  # characters


def quiet_hours_summary(kept: Sequence[Alert], since: datetime, until: datetime) -> Content:
    """The alerts that quiet hours held back: those still open, which have messages of their own, and those that
    recovered."""
    still = [alert for alert in kept if alert.state is not AlertState.CLOSED]
    recovered = [alert for alert in kept if alert.state is AlertState.CLOSED]
    many = f"{len(kept)} {'alert' if len(kept) == 1 else 'alerts'}"
    headline = f":sunrise: *Quiet hours ended*: {many} held back since {when(since, until)}"
    blocks = [section(_part("*Still open*", [_still_open(alert, until) for alert in still]))] if still else []
    blocks += [section(_part("*Recovered*", _recovered(recovered)))] if recovered else []
    return card(headline, Color.WARNING if still else Color.GOOD, blocks)


def welcome(bot: str, host: str, worker: str) -> Content:
    """The introduction in the alert channel. `worker`: one for the examples, where there are some."""
    headline = f":wave: *{inert(bot, NOTICE)} is connected* and posts the alerts of {inert(host, NOTICE)} here"
    what = "Each problem gets one message, which updates until it ends and has the buttons that fix it."
    more = (
        f"In other channels: `/invite @{in_code(bot, NOTICE)}` · more workers: `workers` in the configuration · "
        "all commands: `/supervisor help`"
    )
    tries = TRY_FIRST.replace("NAME", worker) if worker else TRY_FIRST
    return card(headline, Color.QUIET, [section(what), section(tries), context(more)])


def introduction(host: str, alert_channel: str, channels: Sequence[str]) -> Content:
    """The introduction in any other channel. `channels`: the only ones in which commands are accepted, if not all."""
    only = f" Commands are accepted in {', '.join(f'<#{each}>' for each in channels[:SHOWN])}." if channels else ""
    alerts = f" Alerts are posted in <#{alert_channel}>." if alert_channel else ""
    return text_message(
        f":wave: I manage the workers on {inert(host, NOTICE)}. To see them: `/supervisor status`. For all commands: "
        f"`/supervisor help`.{only}{alerts}"
    )


def escalation(alert: Alert, people: Sequence[str]) -> Content:
    """The escalation in the thread of the alert's message, which mentions people."""
    called = " ".join(f"<!subteam^{who}>" if who.startswith("S") else f"<@{who}>" for who in people[:MENTIONS])
    return text_message(f":rotating_light: {called} {_unanswered(alert)}".replace("  ", " "))


def escalation_elsewhere(alert: Alert, channel: str, link: str) -> Content:
    """The escalation in another channel, with a link to the alert."""
    where = f" <{link}|Open the alert>" if link else f" The alert is in <#{channel}>." if channel else ""
    return text_message(f":rotating_light: {_unanswered(alert)}{where}")


def weekly_summary(
    host: str,
    since: datetime,
    until: datetime,
    begun: Sequence[Alert],
    worked: Mapping[str, Uptime],
    head: ChainHead | None = None,
) -> Content:
    """The summary of a week, one line where it was quiet, with the newest row of the audit trail: where it is posted,
    somebody who rewrites the trail can't reach it."""
    names = ("well", "unwell", "down", "uncounted")
    sums = [sum((getattr(one, name) for one in worked.values()), timedelta()) for name in names]
    mean = Uptime(*(total / max(len(worked), 1) for total in sums))
    uptime = f"{count(len(worked), 'worker')}, uptime {percent(mean)}"
    whose = f"on {inert(host, NOTICE)}, {day(since)} to {day(until)}"
    proof = f"Audit trail at row {head.audit_id}: `{escape(head.hash)}`" if head else ""
    if not begun:
        return text_message(f":calendar: *A quiet week* {whose}: no alerts, {uptime}" + (f"\n{proof}" if proof else ""))
    headline = f":calendar: *{count(len(begun), 'alert')} this week* {whose}: {uptime}"
    grouped: dict[str, list[Alert]] = {}
    for alert in begun:
        grouped.setdefault(target_name(alert), []).append(alert)
    worst = sorted(grouped.items(), key=lambda each: (-_lengths(each[1], until), each[0]))
    lines = []
    for name, alerts in worst:
        still = ", still open" if any(alert.state is not AlertState.CLOSED for alert in alerts) else ""
        share = worked.get(alerts[0].target.worker)
        its_uptime = f"; uptime {percent(share)}" if share is not None else ""
        lasted = format_span(_lengths(alerts, until))
        lines.append(f"• {name}: {count(len(alerts), 'alert')}, {lasted}{still}{its_uptime}")
    blocks = [section(_part("*Longest problems*", lines)), *([context(proof)] if proof else [])]
    return card(headline, Color.QUIET, blocks)


def uptime_lines(worked: Mapping[str, Sequence[Uptime]]) -> list[str]:
    """The uptime of workers, the lowest first; without those that have none on record."""
    known = {worker_id: each for worker_id, each in worked.items() if any(percent(part) != NO_PERCENT for part in each)}
    least = {name: min(part.share for part in spans if part.share is not None) for name, spans in known.items()}
    worst = sorted(known.items(), key=lambda each: (least[each[0]], each[0]))
    return [f"• {inert(name, NOTICE)}: {' · '.join(map(percent, each))}" for name, each in worst]


def _lengths(alerts: Iterable[Alert], until: datetime) -> float:
    """The duration of these alerts in seconds, open ones up to this moment."""
    return sum(((alert.closed_at or until) - alert.opened_at).total_seconds() for alert in alerts)


def _unanswered(alert: Alert) -> str:
    why = f": {happened}" if (happened := reason_of(alert)[0]) else ""
    return (
        f"*{target_name(alert)} {condition_words(alert)}* since {minute(alert.opened_at)} "
        f"and nobody has acknowledged it{why}."
    )


def pause_flag(said: Mapping[str, Any]) -> Content:
    """A pause flag that somebody changed on the drive, and that was put back."""
    headline = f":warning: *{inert(str(said['worker_id']), NOTICE)}:* {escape(str(said['what']))}."
    todo = "Somebody can write to the drive's state folder. Find out who, and pause or resume with a command instead."
    return text_message(f"{headline}\n{todo}")


def hub_taken_over(said: Mapping[str, Any]) -> Content:
    """Another machine is the hub, because the one before it is unresponsive."""
    machine, before = (inert(str(said[name]), NOTICE) for name in ("machine", "before"))
    last, at = (from_text(str(said[name])) for name in ("last_sign", "at"))
    headline = f":warning: *{machine} is the hub now*: {before} has been unresponsive since {last:%H:%M:%S} UTC."
    seconds = format_span((at - last).total_seconds())
    gap = f"No command was taken for {seconds}; what was under way goes on."
    return text_message(f"{headline}\n{gap} Until {before} is back, no machine stands by.")


def _part(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *first_lines(lines, SHOWN)])


def _still_open(alert: Alert, now: datetime) -> str:
    why = f": {happened}" if (happened := reason_of(alert)[0]) else ""
    return f"• {target_name(alert)} {condition_words(alert)} since {when(alert.opened_at, now)}{why}"


def _recovered(recovered: Sequence[Alert]) -> list[str]:
    """A line for each target and what it was, however often."""
    grouped: dict[tuple[str, str], list[Alert]] = {}
    for alert in recovered:
        grouped.setdefault((target_name(alert), condition_words(alert).removeprefix("is ")), []).append(alert)
    lines = []
    for (name, was), each in grouped.items():
        lasted = timedelta()
        for alert in each:
            lasted += max((alert.closed_at or alert.opened_at) - alert.opened_at, timedelta())
        often = "" if len(each) == 1 else f" {times(len(each))},"
        total = " in total" if len(each) > 1 else ""
        lines.append(f"• {name}: {was}{often} for {format_span(lasted.total_seconds())}{total}")
    return lines


ERROR = 1000  # characters

GAPS = 15  # on one notice


def preview_pending(command: Command) -> Content:
    """A preview is under way, and its sender waits."""
    what = "Checking the remote" if command.name.startswith("update") else "Preparing the preview"
    return text_message(f":hourglass_flowing_sand: {what}… {in_span(unescape(render(command)), COMMAND)}")


def approval_requested(command: Command) -> Content:
    """The message in its place once an approval is requested."""
    return text_message(f":raised_hand: Approval requested for {in_span(unescape(render(command)), COMMAND)}")


def not_a_member_hint(channel: str, bot: str) -> str:
    """The reason for a direct message, and the way to change that."""
    if channel.startswith("D"):
        return "Sent here because I can't post in direct messages between other people."
    invite = f"If I'm not a member, type `/invite @{bot}` there; in a group message, start a new one with me."
    return f"Sent here because I can't post in <#{channel}>. {invite}"


def connection_gap_notice(host: str, gaps: Sequence[tuple[datetime, datetime]], *, away: bool) -> Content:
    """The times without a connection; `away`: the supervisor itself wasn't running."""
    shown = gaps[-GAPS:]
    lines = [f"• {len(gaps) - len(shown)} earlier gaps"] if len(gaps) > len(shown) else []
    lines += [
        f"• {minute(since)} to {minute(until)} ({format_span((until - since).total_seconds())})"
        for since, until in shown
    ]
    what = f"*The supervisor on {escape(host)} {'was not running' if away else 'was disconnected from Slack'}*"
    advice = (
        "Slash commands and clicks from that time weren't received, and Slack showed their senders an error. A mention "
        "may still run now, so check the channel before you repeat it."
    )
    return text_message("\n".join([f":warning: {what}", *lines, advice]))
