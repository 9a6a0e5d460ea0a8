"""Notices: configurations, quiet hours, a week, escalations, introductions, and the state of the connection. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.views.blocks import Color, Content, Json, card, code_block, context, section, text_message
from bot.views.cards.alert import condition_words, reason_of, target_name
from bot.views.home import TRY_FIRST
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

CHANGES, NAMES = 8, 8
"""Lines of changes, and workers by name; the others are counted."""

CHANGE, CONFIG_ERROR, PATH = 150, 1500, 200  # characters


def config_card(said: Mapping[str, Any]) -> Content:
    path = in_span(str(said["path"]), PATH)
    small_print = context(f"{_data(said['owner'])} · {path} · version {said['version']}")
    if "error" not in said:
        headline, color, body = _applied(said)
        return card(headline, color, [*body, small_print])
    headline = f":warning: *Configuration refused* on {_data(said['host'])}, version {said['version']} stays in force"
    error = code_block(in_code(str(said["error"]), CONFIG_ERROR))
    remedy = section("Fix the error above. The file is read again as soon as it changes.")
    return card(headline, Color.WARNING, [error, remedy, small_print])


def _applied(said: Mapping[str, Any]) -> tuple[str, Color, list[Json]]:
    results = {str(name): str(result) for name, result in said.get("workers", {}).items()}
    done = [
        f"{_listed(names)} {role}" for role in ("restarted", "started", "stopped") if (names := _with(results, role))
    ]
    failed, held = _with(results, "failed", "kept"), _with(results, "held", "kept")
    lines = first_lines([f"• {_data(change)}" for change in said["changes"]], CHANGES, "• and {} more")
    if failed:
        down = f"{_listed(failed)} {'does' if len(failed) == 1 else 'do'}n't run with it"
        halted = "*Configuration halted*:" if _with(results, "held") else "*Configuration applied*, but"
        headline, color = f":red_circle: {halted} {down}", Color.CRITICAL
        if held:
            lines.append(f"{_listed(held)} {'keeps' if len(held) == 1 else 'keep'} running with the older settings.")
        lines.append("Fix the configuration. It's applied as soon as the file changes.")
    else:
        facts = "; ".join(done) or "no worker restarted"
        headline, color = f":white_check_mark: *Configuration applied*: {facts}", Color.GOOD
    return headline, color, [section("\n".join(lines))] if lines else []


def _with(results: Mapping[str, str], *wanted: str) -> list[str]:
    return sorted(name for name, result in results.items() if result in wanted)


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMES:
        return count(len(names), "worker")
    *others, last = map(_data, names) if names else [""]
    return f"{', '.join(others)} and {last}" if others else last


def _data(text: object) -> str:
    return inert(str(text), CHANGE)


ID_LINE = 300  # characters of one


def unknown_ids(host: str, troubles: Sequence[str]) -> Content:
    """One notice for all of them. Everybody in the channel reads it: nobody is mentioned, ids stand as they are."""
    lines = first_lines([f"• {inert(trouble, ID_LINE)}" for trouble in troubles], CHANGES, "• and {} more")
    headline = f":warning: *Slack and the configuration of {inert(host, CHANGE)} disagree*"
    lines.append("Unknown people and groups have no rights. `supervisor doctor` checks again.")
    return card(headline, Color.WARNING, [section("\n".join(lines))])


_BELONGS = {
    "alert_channel": "alerts",
    "approval_channel": "approval requests",
    "fallback_channel": "messages without another channel",
}


def unreachable_channel(host: str, channel: str, refused: str, keys: Sequence[str], fallback: str, bot: str) -> Content:
    """The notice for admins: the channel, the reason, the place of its messages meanwhile, and the remedy."""
    what = " and ".join(_BELONGS[key] for key in keys)
    settings = " and ".join(f"`slack.{key}`" for key in keys)
    meanwhile = (
        f"Until then they are posted in <#{fallback}>."
        if fallback and fallback != channel
        else "Until then nobody sees them in Slack: `supervisor alerts` on the host lists them."
    )
    invite = f"`/invite @{bot}` in the channel"
    fix = {
        "is_archived": "Unarchive the channel",
        "not_in_channel": f"Type {invite}",
        "channel_not_found": f"Check that the channel exists and type {invite}",
    }.get(refused, f"Let @{bot} post there")
    lines = [
        f"Affected: {what} of {inert(host, CHANGE)}. {meanwhile}",
        f"{fix}. Or set another channel in {settings} and run `supervisor daemon restart` on the host.",
        "Waiting messages are posted then.",
    ]
    headline = f":no_entry: *Can't post in <#{channel}>* (`{channel}`): {refused}"
    return card(headline, Color.CRITICAL, [section("\n".join(lines))])


SHOWN = 10
"""Lines of a kind."""

MENTIONS = 50
"""Of one step of the escalation: more would not fit."""

NOTICE, COMMAND = 100, 400  # characters


def quiet_hours_summary(kept: Sequence[Alert], since: datetime, until: datetime) -> Content:
    still = [alert for alert in kept if alert.state is not AlertState.CLOSED]
    recovered = [alert for alert in kept if alert.state is AlertState.CLOSED]
    many = f"{len(kept)} {'alert' if len(kept) == 1 else 'alerts'}"
    headline = f":sunrise: *Quiet hours ended*: {many} held back since {when(since, until)}"
    lines = [
        f"• {target_name(alert)} {condition_words(alert)} since {when(alert.opened_at, until)}"
        + (f": {happened}" if (happened := reason_of(alert)[0]) else "")
        for alert in still
    ]
    blocks = [section(_part("*Still open*", lines))] if still else []
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
    only = f" Commands are accepted in {', '.join(f'<#{each}>' for each in channels[:SHOWN])}." if channels else ""
    alerts = f" Alerts are posted in <#{alert_channel}>." if alert_channel else ""
    return text_message(
        f":wave: I manage the workers on {inert(host, NOTICE)}. To see them: `/supervisor status`. For all commands: "
        f"`/supervisor help`.{only}{alerts}"
    )


def escalation(alert: Alert, people: Sequence[str]) -> Content:
    called = " ".join(f"<!subteam^{who}>" if who.startswith("S") else f"<@{who}>" for who in people[:MENTIONS])
    return text_message(f":rotating_light: {called} {_unanswered(alert)}".replace("  ", " "))


def escalation_elsewhere(alert: Alert, channel: str, link: str) -> Content:
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
    return sum(((alert.closed_at or until) - alert.opened_at).total_seconds() for alert in alerts)


def _unanswered(alert: Alert) -> str:
    why = f": {happened}" if (happened := reason_of(alert)[0]) else ""
    return (
        f"*{target_name(alert)} {condition_words(alert)}* since {minute(alert.opened_at)} "
        f"and nobody has acknowledged it{why}."
    )


def pause_flag(said: Mapping[str, Any]) -> Content:
    headline = f":warning: *{inert(str(said['worker_id']), NOTICE)}:* {escape(str(said['what']))}."
    todo = "Somebody can write to the drive's state folder. Find out who, and pause or resume with a command instead."
    return text_message(f"{headline}\n{todo}")


def hub_taken_over(said: Mapping[str, Any]) -> Content:
    machine, before = (inert(str(said[name]), NOTICE) for name in ("machine", "before"))
    last, at = (from_text(str(said[name])) for name in ("last_sign", "at"))
    headline = f":warning: *{machine} is the hub now*: {before} has been unresponsive since {last:%H:%M:%S} UTC."
    seconds = format_span((at - last).total_seconds())
    gap = f"No command was taken for {seconds}; what was under way goes on."
    return text_message(f"{headline}\n{gap} Until {before} is back, no machine stands by.")


def _part(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *first_lines(lines, SHOWN)])


def _recovered(recovered: Sequence[Alert]) -> list[str]:
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


GAPS = 15  # on one notice


def preview_pending(command: Command) -> Content:
    what = "Checking the remote" if command.name.startswith("update") else "Preparing the preview"
    return text_message(f":hourglass_flowing_sand: {what}… {in_span(unescape(render(command)), COMMAND)}")


def approval_requested(command: Command) -> Content:
    return text_message(f":raised_hand: Approval requested for {in_span(unescape(render(command)), COMMAND)}")


def not_a_member_hint(channel: str, bot: str) -> str:
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
