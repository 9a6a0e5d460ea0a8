"""The card of an alert, from its first message to its recovery, and the replies in its thread. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.views.blocks import (
    Color,
    Content,
    Json,
    actions,
    button,
    card,
    code_block,
    context,
    fields,
    section,
    text_message,
)
from bot.views.buttons import ON_ALERT, command_button
from bot.views.cards.next_steps import UNDOABLE
from bot.views.text import ago, dated, escape, fit, in_code, inert, mention, period, when
from supervisor_core.alerts.grouping.rules import NOUNS, STORM, AlertMembers
from supervisor_core.alerts.incoming import name_in
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.alerts.suppression.rows import CONFIGURATION, Hush, Suppression
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.text import capitalize, flatten, times
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.workers.conditions import (
    ALERTMANAGER,
    CLOCK,
    FLAPPING,
    SUPERVISOR,
    Condition,
    Severity,
    shown_as,
)
from supervisor_core.workers.restarts.policy import signal_from_outside, signal_in

WORDS: Mapping[Condition, str] = {
    Condition.WELL: "is healthy",
    Condition.PAUSED: "is paused",
    Condition.DEGRADED: "is degraded",
    Condition.CLOCK_SKEW: "has a wrong clock",
    Condition.UNKNOWN: "can't be checked",
    Condition.MISSING: "hasn't sent a heartbeat",
    Condition.STALE: "is stale",
    Condition.FROZEN: "is frozen",
    Condition.STUCK: "is stuck",
    Condition.DOWN: "is down",
    Condition.RESTART_LIMIT: "is quarantined",
    Condition.FLAPPING: "is flapping",
    Condition.DISK_LOW: "is almost full",
    Condition.DRIVE_UNREACHABLE: "can't be reached",
    Condition.DATABASE_UNREACHABLE: "can't be reached",
    Condition.INTERRUPTED: "was interrupted",
    Condition.SUPERVISOR_SILENT: "is unresponsive",
    Condition.DEAF: "was disconnected from Slack",
    Condition.REFUSED: "carried messages that were refused",
    Condition.FIRING: "is firing",
    Condition.STORM: "isn't over",
}
"""The condition of a target, in words."""

_SEVERAL_WORDS: Mapping[Condition, str] = {
    Condition.CLOCK_SKEW: "with a wrong clock",
    Condition.UNKNOWN: "that can't be checked",
    Condition.MISSING: "without a heartbeat",
}
"""The condition of several workers or hosts, where it isn't said as that of one."""


def several_words(condition: Condition) -> str:
    """The condition of several workers or hosts: `12 stale`."""
    return _SEVERAL_WORDS.get(condition, WORDS[condition].removeprefix("is "))


RESTARTABLE = frozenset(
    {
        Condition.DEGRADED,
        Condition.MISSING,
        Condition.STALE,
        Condition.FROZEN,
        Condition.STUCK,
        Condition.DOWN,
        Condition.RESTART_LIMIT,
        Condition.FLAPPING,
        Condition.FIRING,
    }
)
"""Conditions that a restart may fix."""

STOPPED = frozenset({Condition.DOWN, Condition.RESTART_LIMIT})
"""Conditions in which no process runs, so that a restart ends nothing."""


NAMED_MEMBERS = 15
"""Members with their names on the message."""

NAMED_TEAMS, MEMBER_NAME, MEMBERS_TEXT = 5, 80, 2900
"""Teams that are named; characters of a name, and of a list."""


def condition_counts(members: AlertMembers) -> str:
    counts = {several_words(condition): count for condition, count in members.by_condition.items()}
    counts["recovered"] = members.total - members.holding
    return " · ".join(f"{count:,} {words}" for words, count in counts.items() if count)


def member_blocks(members: AlertMembers) -> list[dict[str, object]]:
    blocks: list[dict[str, object]] = [section(names)] if (names := member_names(members)) else []
    if members.by_team:
        shown = list(members.by_team.items())[:NAMED_TEAMS]
        teams = " · ".join(f"{inert(name, MEMBER_NAME)} {count:,}" for name, count in shown)
        more = f" · {len(members.by_team) - NAMED_TEAMS} more" if len(members.by_team) > NAMED_TEAMS else ""
        blocks.append(context(f"*By team:* {teams}{more}"))
    return blocks


def folded_workers(members: AlertMembers) -> str:
    """The line of a host's alert about workers that seem stale because of it."""
    if not members.holding:
        return ""
    who = "worker depends" if members.holding == 1 else "workers depend"
    return f":link: *{members.holding:,} {who} on it*, and the next check waits for it.\n{member_names(members)}"


def parent_link(parent: Alert, link: str) -> str:
    what = "the alert for several workers"
    if parent.condition is Condition.FLAPPING:
        what = "the flapping alert"
    elif parent.condition is not Condition.STORM:
        what = f"the {escape(parent.target.kind)}'s alert"
    there = f"<{link}|{what}>" if link else f"{what} `{parent.alert_id}`"
    return f":link: Part of {there}. Acknowledge or snooze it there."


def member_names(members: AlertMembers) -> str:
    """Some of those that hold, those in the same condition together, and how many more there are."""
    if not members.first:
        return ""
    by_condition: dict[Condition, list[str]] = {}
    for alert in members.first:
        name = name_in(alert.reason)[0] if alert.target.kind == ALERTMANAGER else alert.target.id
        by_condition.setdefault(alert.condition, []).append(inert(name, MEMBER_NAME))
    lines = [
        f"*{several_words(condition).capitalize()}:* {', '.join(names)}" for condition, names in by_condition.items()
    ]
    left = members.holding - len(members.first)
    if left > 0:
        lines.append(f"… and {left:,} more: `/supervisor alerts` lists them")
    return fit("\n".join(lines), MEMBERS_TEXT)


PRESS = "alert:"
"""Before `acknowledge` or `snooze` in the `action_id` of a button; its value is the alert's id."""

NAME, WHY, LINE = 100, 200, 300  # characters
LINES, LOG = 6, 1500  # of a log on a card, and characters of all of them

_SUPPRESSED: Mapping[Hush, str] = {
    Hush.SNOOZE: "Snoozed",
    Hush.MUTE: "Muted",
    Hush.MAINTENANCE: "In maintenance",
    Hush.QUIET: "Quiet hours",
}

_REPLIES: Mapping[Reason, str] = {
    Reason.WORSE: ":small_red_triangle: Escalated",
    Reason.AGAIN: ":repeat: Back again",
    Reason.REMINDER_DUE: ":bell: Still open, and nobody has acknowledged it",
}


@dataclass(frozen=True, slots=True)
class LastConfigChange:
    by: Issuer
    at: datetime
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlertDetails:
    alert: Alert
    ended: str = ""
    """The state of its target after it recovered."""
    before: Job | None = None
    """The last command for its worker before it began."""
    settings: LastConfigChange | None = None
    """The configuration that affected its worker last before it began, where that is newer than the command."""
    since: Job | None = None
    """The last command for its worker that ended since it began."""
    settings_since: LastConfigChange | None = None
    """The configuration that affected its worker last since it began, where that is newer than the command."""
    tries: int = 0
    """Restarts and undo commands of people that have ended since it began. The buttons work once for each."""
    undone: bool = False
    """The last command was a change of code that has been undone since."""
    hushes: Sequence[Suppression] = ()
    """The suppressions that hold now."""
    undo_asks: bool = False
    """An undo needs an approval."""
    new: bool = False
    """It has no message yet."""
    members: AlertMembers = field(default_factory=AlertMembers)
    """The alerts that are part of it."""
    parent: Alert | None = None
    """The one that stands for it."""
    link: str = ""
    """The link to its parent's message."""

    names: str = ""
    """The worker that an alert from elsewhere names."""

    @property
    def worker(self) -> str:
        """The worker that its buttons are for; empty without one."""
        return self.names or self.alert.target.worker


def alert_card(details: AlertDetails, now: datetime) -> Content:
    alert = details.alert
    storm_over = alert.target.kind == STORM and not details.members.holding
    if alert.state is AlertState.CLOSED or storm_over:
        return _recovered(details, now)
    if alert.target.kind == STORM:
        return _storm(details, now)
    happened, follows = reason_of(alert)
    headline = f"{_sign(details)} {_title(alert, happened)}"
    blocks = [section(capitalize(follows))] if follows else []
    blocks += fields(_facts(details, now))
    if details.members.holding:
        blocks.append(section(folded_workers(details.members)))
    shown: list[str] = []
    marks_only = re.compile(r"[\s^~]*")  # below a line of a traceback
    for line in reversed([line for line in alert.evidence if not marks_only.fullmatch(line)][-LINES:]):
        short = in_code(line, LINE)
        if sum(map(len, shown)) + len(short) > LOG:
            break
        shown.append(short)
    if shown:
        blocks.append(code_block("\n".join(reversed(shown))))
    if details.parent is not None:
        blocks.append(section(parent_link(details.parent, details.link)))
    else:
        blocks.append(actions(f"alert:{alert.alert_id}", buttons(details)))
    return card(headline, _color(details), [*blocks, _footer(details, now)])


def _title(alert: Alert, happened: str) -> str:
    """The subject, its condition, and what happened. Of flapping, the number of changes says most."""
    if shown_as(alert.condition, alert.reason) is Condition.FLAPPING:
        changes, _, worst = happened.partition(", ")
        return f"*Flapping: {changes}* · {target_name(alert)}{worst and f', {worst}'}"
    condition = condition_words(alert)
    again = f"{condition.removeprefix('is ')} after "
    if happened.startswith(again):  # not "is quarantined: quarantined after 5 restarts"
        return f"*{target_name(alert)} {condition}* after {happened.removeprefix(again)}"
    return f"*{target_name(alert)} {condition}*{happened and f': {happened}'}"


def _storm(details: AlertDetails, now: datetime) -> Content:
    members = details.members
    many = f"1 {members.noun} has" if members.holding == 1 else f"{members.holding:,} {members.noun}s have"
    many = f"{members.holding:,} of Alertmanager's" if members.noun == NOUNS[ALERTMANAGER] else many
    what = "alerts" if members.noun == NOUNS[ALERTMANAGER] else "problems"
    headline = f"{_sign(details)} *{many} {what}*: {condition_counts(members)}"
    blocks = [
        *member_blocks(members),
        *fields(_facts(details, now)),
        actions(f"alert:{details.alert.alert_id}", buttons(details)),
        _footer(details, now, "Acknowledge and Snooze apply to all of them"),
    ]
    return card(headline, _color(details), blocks)


def alert_reply(said: Mapping[str, Any], name: str) -> Content:
    """A reply in the alert's thread, for those whom an edit doesn't reach."""
    reason, condition, words = Reason(said["reason"]), Condition(said["condition"]), str(said["words"])
    beginning = _REPLIES.get(reason, ":bell: Still open")
    if reason is Reason.WORSE and words.startswith("quarantined "):  # not "is quarantined. Quarantined after …"
        happened, _, rest = flatten(words).partition(". ")
        return text_message(f"{beginning}: *{name} was {inert(happened, WHY)}*. {_sentence(rest, name)}".rstrip())
    return text_message(f"{beginning}: *{name} {WORDS[shown_as(condition, words)]}*. {_sentence(words, name)}")


def restart_line(alert: Alert, count: int) -> Content:
    """A line about a worker that crashed and was restarted automatically; it calls nobody."""
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    often = "" if count < 2 else f" ({count}{ending} time today)"
    happened, _ = reason_of(alert)
    return text_message(
        f":leftwards_arrow_with_hook: *{target_name(alert)} restarted automatically*{often}"
        f"{happened and f': {happened}'}"
    )


def buttons(details: AlertDetails) -> list[dict[str, Any]]:
    """The buttons for the alert's current state, the likely next step first."""
    alert, elements = details.alert, []
    worker = details.worker
    nonce, workers = f"{ON_ALERT}{alert.alert_id}.{details.tries}", (worker,)
    muted = any(each.kind is Hush.MUTE for each in details.hushes)
    if alert.acknowledged_by is None and alert.state is not AlertState.SNOOZED:
        elements.append(_button(alert, "acknowledge", "Acknowledge", "" if muted else "primary"))
    if alert.target.worker and muted:
        elements.append(command_button(Command("unmute", worker, workers), nonce, "Unmute"))
    if worker and alert.condition in RESTARTABLE:
        ends = alert.condition not in STOPPED
        effect = "" if ends else f"{worker} starts again, and its restart count is reset."
        elements.append(command_button(Command("restart", worker, workers), nonce, "Restart", effect=effect))
    if change := _suspect(details):
        command = Command.for_worker("undo", worker, {"task_id": change.task_id})
        text = f"Undo {command_name(change.handler)}…"
        about, effect = (
            f"Undo the {command_name(change.handler)} of {worker}",
            "Its code goes back to what it was before.",
        )
        elements.append(command_button(command, nonce, text, about=about, effect=effect, asks=details.undo_asks))
    if worker:
        elements.append(command_button(Command("why", worker, workers), nonce, "Why?"))
    if alert.state is not AlertState.SNOOZED and alert.target.kind != ALERTMANAGER:
        elements.append(_button(alert, "snooze", "Snooze 1h"))
    return elements


def _suspect(details: AlertDetails) -> Job | None:
    """The last change of the worker's code, where it may be the cause and can be undone."""
    job, alert = details.before, details.alert
    if job is None or details.settings is not None or details.undone:
        return None
    if job.handler not in UNDOABLE or alert.condition not in RESTARTABLE or job.worker_id != alert.target.id:
        return None
    result = job.outcome.details if job.outcome and job.outcome.success else {}
    number = signal_in(alert.reason)
    from_outside = number is not None and signal_from_outside(number)
    return job if result.get("before") != result.get("after") and not from_outside else None


def command_name(handler: str) -> str:
    definition = by_handler(handler)
    return definition.name if definition else handler


def alert_line(details: AlertDetails, now: datetime) -> str:
    alert = details.alert
    facts = [f"since {when(alert.opened_at, now)}"]
    if alert.acknowledged_by is not None:
        facts.append(f"acknowledged by {mention(alert.acknowledged_by)}")
    facts += [f"{_SUPPRESSED[hush.kind].lower()} until {when(hush.ends_at, now)}" for hush in details.hushes]
    if alert.target.kind == STORM:
        return f"{_sign(details)} *{escape(alert.reason)}* · {' · '.join(facts)}"
    happened, _ = reason_of(alert)
    named = f"{_sign(details)} *{target_name(alert)} {condition_words(alert)}*"
    return f"{named} · {' · '.join(facts)}" + (f"\n{fit(happened, LINE)}" if happened else "")


def _recovered(details: AlertDetails, now: datetime) -> Content:
    alert = details.alert
    ended = alert.closed_at or alert.cleared_at or alert.opened_at
    lasted = format_span((ended - alert.opened_at).total_seconds())
    name = f"All {details.members.noun}s" if alert.target.kind == STORM else target_name(alert)
    headline, color = f":white_check_mark: *{name} recovered* after {lasted}", Color.GOOD
    _, _, condition = details.ended.partition(", now ")
    if alert.target.kind == FLAPPING and condition not in ("", Condition.WELL.word, Condition.PAUSED.word):
        headline = f":large_yellow_circle: *{name} is no longer flapping* but {inert(condition, NAME)}"
        color = Color.QUIET
    happened = escape(alert.reason) if alert.target.kind == STORM else reason_of(alert)[0]
    if alert.target.kind == FLAPPING:
        happened, _, _ = happened.partition(", now ")
    if details.new:  # it came and went while nobody could be told
        return text_message(f"{headline}: {happened}\nSlack couldn't be reached in the meantime.")
    facts = {
        "Problem": capitalize(happened, alert.target.id) if happened else condition_words(alert),
        "Now": _sentence(details.ended, alert.target.id),
        "When": period(alert.opened_at, ended, now),
        "Came back": times(alert.occurrences - 1) if alert.occurrences > 1 else "",
        "Acknowledged": mention(alert.acknowledged_by) if alert.acknowledged_by else "",
    }
    return card(headline, color, [*fields(facts), _footer(details, now)])


def _facts(details: AlertDetails, now: datetime) -> dict[str, str]:
    alert = details.alert
    facts = {"Since": f"{when(alert.opened_at, now)} · {ago(alert.opened_at)}"}
    facts["From"] = "Alertmanager" if alert.target.kind == ALERTMANAGER else ""
    facts["Worker"] = inert(details.worker, NAME) if facts["From"] else ""
    if alert.acknowledged_by is not None and alert.acknowledged_at is not None:
        facts["Acknowledged"] = f"{mention(alert.acknowledged_by)} · {when(alert.acknowledged_at, now)}"
    for hush in details.hushes:
        why = f"\n{inert(hush.reason, LINE // 2)}" if hush.reason else ""
        by = "" if hush.by == CONFIGURATION else f" by {mention(hush.by)}"
        facts[_SUPPRESSED[hush.kind]] = f"until {when(hush.ends_at, now)}{by}{why}"
    facts["Came back"] = times(alert.occurrences - 1) if alert.occurrences > 1 else ""
    if alert.cleared_at is not None and alert.cleared_at <= now:
        facts["Looks recovered"] = f"since {when(alert.cleared_at, now)}"
    facts["Last change"] = _last_change(details, now)
    return facts


def _color(details: AlertDetails) -> Color:
    if details.hushes:
        return Color.QUIET
    return Color.CRITICAL if details.alert.severity is Severity.CRITICAL else Color.WARNING


def _sign(details: AlertDetails) -> str:
    alert = details.alert
    if any(hush.kind is not Hush.SNOOZE for hush in details.hushes):
        return ":no_bell:"
    if alert.state is AlertState.ACKNOWLEDGED:
        return ":eyes:"
    if alert.state is AlertState.SNOOZED:
        return ":zzz:"
    return ":red_circle:" if alert.severity is Severity.CRITICAL else ":large_yellow_circle:"


def condition_words(alert: Alert) -> str:
    """The condition of the alert's target in words. A clock doesn't have a wrong clock."""
    return "is wrong" if alert.target.kind == CLOCK else WORDS[shown_as(alert.condition, alert.reason)]


def target_name(alert: Alert) -> str:
    if alert.target.kind == STORM:
        several = next((noun for noun in ("hosts", "alerts") if noun in alert.reason), "workers")
        return f"The outage of several {several}" if several != "alerts" else "The storm of alerts"
    if alert.target.kind == ALERTMANAGER:
        return inert(name_in(alert.reason)[0], NAME)
    name = inert(alert.target.id, NAME)
    if alert.target.worker or alert.target.kind == SUPERVISOR:
        return name
    return f"The {escape(alert.target.kind)} of {name}"


def reason_of(alert: Alert) -> tuple[str, str]:
    """What happened, in a few words; and the sentences that follow, mostly what the supervisor does about it."""
    if alert.target.kind == ALERTMANAGER:
        return inert(name_in(flatten(alert.reason))[1], WHY), ""
    happened, follows = (*re.split(r"[.;] ", flatten(alert.reason), maxsplit=1), "")[:2]
    return dated(inert(happened.rstrip("."), WHY)), _sentence(follows, alert.target.id)


def _sentence(text: str, name: str) -> str:
    text = dated(inert(text.strip(), WHY)).rstrip(".")
    return f"{capitalize(text, name)}." if text else ""


def _last_change(details: AlertDetails, now: datetime) -> str:
    settings = details.settings_since or (details.settings if details.since is None else None)
    if settings is not None:
        changes = inert("; ".join(settings.changes), LINE // 2)
        return f"Configuration by {mention(settings.by)} · {when(settings.at, now)}\n{changes}"
    job = details.since or details.before
    if job is None or job.finished_at is None:
        return ""
    ended = "" if job.outcome is None or job.outcome.success else ", failed"
    if job.state is JobState.INTERRUPTED:
        ended = ", interrupted"
    if details.undone and job is details.before:
        ended = ", undone"
    label = f" · {escape(job.label)}" if job.label else ""
    name = in_code(command_name(job.handler), LINE)
    changed = f"`{name}` by {mention(job.issuer)}{ended} · {when(job.finished_at, now)}{label}"
    number = signal_in(details.alert.reason)
    if job.handler in CODE_HANDLERS and number is not None and signal_from_outside(number):
        changed += "\nA signal from outside ended the worker, so its code is an unlikely cause."
    return changed


def _footer(details: AlertDetails, now: datetime, hint: str = "") -> Json:
    """The line of small print: the host, the severity, the alert's id, the next reminder."""
    alert = details.alert
    parts = [inert(alert.supervisor_id, NAME), str(alert.severity), f"alert `{alert.alert_id}`"]
    reminds = alert.state is AlertState.OPEN and alert.parent_id is None and alert.cleared_at is None
    if reminds and alert.due_at is not None:
        parts.append(f"reminder at {when(alert.due_at, now)}")
    return context(" · ".join(filter(None, [*parts, hint])))


def _button(alert: Alert, name: str, text: str, style: str = "") -> Json:
    label = f"{text} the alert about {alert.target.id}"
    return button(f"{PRESS}{name}", text, alert.alert_id, label=label, style=style)
