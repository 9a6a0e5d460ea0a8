"""The one message of an alert, from its first word to how long it lasted; and what is said in its thread. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.views.blocks import Content, Json, actions, button, context, section, text_message
from bot.views.buttons import ON_ALERT, command_button
from bot.views.cards import digests as storm
from bot.views.text import escape, fit, in_code, mention, moment
from supervisor_core.alerts.grouping.rules import STORM, AlertMembers
from supervisor_core.alerts.rules import Alert, AlertState, Reason
from supervisor_core.alerts.suppression.rows import Hush, Suppression
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.commands.grammar import render
from supervisor_core.common.text import capitalize, times
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.workers.conditions.rules import Condition, Severity
from supervisor_core.workers.restarts.policy import signal_from_outside, signal_in

PRESS = "alert:"
"""Before `acknowledge` or `snooze` in the `action_id` of a button; its value is the alert's id."""

NAME, WHY, LINE, TEXT = 100, 600, 300, 3000  # characters
LINES, LOG = 6, 1500
"""Lines of a log on a card, and characters of all of them."""

WORDS: Mapping[Condition, str] = {
    Condition.WELL: "is well",
    Condition.PAUSED: "rests",
    Condition.DEGRADED: "is degraded",
    Condition.CLOCK_SKEW: "has a clock that differs",
    Condition.UNKNOWN: "can't be looked at",
    Condition.MISSING: "has said nothing since its start",
    Condition.STALE: "is silent",
    Condition.FROZEN: "is frozen",
    Condition.STUCK: "is stuck",
    Condition.DOWN: "is down",
    Condition.RESTART_LIMIT: "was given up after too many restarts",
    Condition.FLAPPING: "comes and goes",
    Condition.DISK_LOW: "has little disk left",
    Condition.DRIVE_UNREACHABLE: "can't be reached",
    Condition.DATABASE_UNREACHABLE: "can't be reached",
    Condition.INTERRUPTED: "was interrupted",
    Condition.SUPERVISOR_SILENT: "is silent",
    Condition.DEAF: "was deaf",
    Condition.STORM: "goes on",
}
"""The condition of a target, in words."""

_WAS: Mapping[Condition, str] = {
    Condition.CLOCK_SKEW: "had a clock that differed",
    Condition.UNKNOWN: "could not be looked at",
    Condition.MISSING: "had said nothing since its start",
    Condition.RESTART_LIMIT: "was given up after too many restarts",
    Condition.FLAPPING: "came and went",
    Condition.DISK_LOW: "had little disk left",
    Condition.DRIVE_UNREACHABLE: "could not be reached",
    Condition.DATABASE_UNREACHABLE: "could not be reached",
    Condition.INTERRUPTED: "was interrupted",
    Condition.DEAF: "was deaf",
    Condition.STORM: "went on",
}
"""The same, once it is over; what is not here "is" so while it lasts."""

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
    }
)
"""Conditions that a restart may fix."""

_HUSHED: Mapping[Hush, str] = {
    Hush.SNOOZE: ":zzz: Snoozed",
    Hush.MUTE: ":mute: Muted",
    Hush.MAINTENANCE: ":wrench: In maintenance",
    Hush.QUIET: ":zzz: Quiet hours",
}

_SAID: Mapping[Reason, str] = {
    Reason.WORSE: ":small_red_triangle: It is worse now",
    Reason.AGAIN: ":repeat: It is there again",
    Reason.REMINDER_DUE: ":bell: It still holds, and nobody has acknowledged it",
}

_TOGETHER = "They have one message together, and are listed after the others."


@dataclass(frozen=True, slots=True)
class LastConfigChange:
    """A configuration that was applied."""

    by: Issuer
    at: datetime
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlertDetails:
    """An alert, and what else is known about it."""

    alert: Alert
    host: str = ""
    ended: str = ""
    """The state of its target after it recovered."""
    before: Job | None = None
    """The last command for its worker before it began."""
    settings: LastConfigChange | None = None
    """The configuration that affected its worker last before it began, where that is newer than the command."""
    tries: int = 0
    """Restarts by people that have ended since it began. The button works once for each."""
    hushes: Sequence[Suppression] = ()
    """The suppressions that hold now."""
    new: bool = False
    """It has no message yet."""
    members: AlertMembers = field(default_factory=AlertMembers)
    """The alerts that are part of it."""
    parent: Alert | None = None
    """The one that stands for it."""
    link: str = ""
    """The link to its parent's message."""


def alert_card(details: AlertDetails, now: datetime) -> Content:
    """The message as it is now. `text` and `blocks` say the same."""
    alert = details.alert
    if alert.state is AlertState.CLOSED:
        return _over(details)
    if alert.target.kind == STORM:
        return _storm(details, now)
    title = f"{target_name(alert)} {WORDS[alert.condition]}"
    facts = [f"*Since* {moment(alert.opened_at)}", f"*on* {fit(escape(details.host), NAME)}", str(alert.severity)]
    blocks = [section(f"{_sign(details)} *{title}*\n{_why(alert)}"), context(" · ".join(facts))]
    if said := _said_before(details):
        blocks.append(section(said))
    if log := _log(alert.evidence):
        blocks.append(section(log))
    state = [*_state(details, now), *filter(None, [storm.folded_workers(details.members)])]
    if details.parent is not None:
        state.append(storm.parent_link(details.parent, details.link))
    if state:
        blocks.append(section("\n".join(state)))
    if details.parent is None:
        blocks.append(actions(f"alert:{alert.alert_id}", buttons(details)))
    blocks.append(context(f"alert `{alert.alert_id}`{_next(alert)}"))
    text = f"{title}: {_why(alert)} Since {moment(alert.opened_at)}."
    return {"text": fit("\n".join([text, *state]), TEXT), "blocks": blocks}


def _storm(details: AlertDetails, now: datetime) -> Content:
    """The digest of many; over as soon as none of them holds, though others may still join it for a moment."""
    alert, members = details.alert, details.members
    if not members.holding:
        return _over(details)
    title = f"{members.holding:,} workers are unhealthy" if members.holding != 1 else "1 worker is still unhealthy"
    counts, state = storm.condition_counts(members), _state(details, now)
    facts = [f"*Since* {moment(alert.opened_at)}", f"*on* {fit(escape(details.host), NAME)}", str(alert.severity)]
    blocks = [
        section(f"{_sign(details)} *{title}*\n{counts}"),
        context(" · ".join(facts)),
        *storm.member_blocks(members),
    ]
    if state:
        blocks.append(section("\n".join(state)))
    blocks.append(actions(f"alert:{alert.alert_id}", buttons(details)))
    about = "one message for all of them: Acknowledge and Snooze are for all, too"
    blocks.append(context(f"alert `{alert.alert_id}` · {about}{_next(alert)}"))
    text = f"{title}: {counts}. Since {moment(alert.opened_at)}."
    return {"text": fit("\n".join(filter(None, [text, storm.member_names(members), *state])), TEXT), "blocks": blocks}


def alert_reply(said: Mapping[str, Any], name: str) -> Content:
    """A reply in the alert's thread, for those whom an edit doesn't reach."""
    reason, condition = Reason(said["reason"]), Condition(said["condition"])
    beginning = _SAID.get(reason, ":bell: It still holds")
    return text_message(f"{beginning}: *{escape(name)} {WORDS[condition]}*. {_sentence(str(said['words']), name)}")


def restart_line(alert: Alert, count: int) -> Content:
    """A line about a worker that crashed and was restarted automatically; it calls nobody."""
    often = "" if count < 2 else f", the {_ordinal(count)} time today"
    last = f" (last {moment(alert.closed_at)})" if alert.closed_at and count > 1 else ""
    return text_message(
        f":leftwards_arrow_with_hook: *{target_name(alert)}* restarted itself{often}{last}. {_why(alert)}"
    )


def buttons(details: AlertDetails) -> list[dict[str, Any]]:
    """The buttons for the alert's current state."""
    alert, elements = details.alert, []
    if alert.state is not AlertState.ACKNOWLEDGED:
        elements.append(_button(alert, "acknowledge", "Acknowledge", "primary"))
    if alert.state is not AlertState.SNOOZED:
        elements.append(_button(alert, "snooze", "Snooze 1h"))
    if alert.target.worker:
        nonce = f"{ON_ALERT}{alert.alert_id}.{details.tries}"
        worker = (alert.target.id,)
        if alert.condition in RESTARTABLE:
            elements.append(command_button(Command("restart", alert.target.id, worker), nonce, "Restart"))
        elements.append(command_button(Command("why", alert.target.id, worker), nonce, "Why?"))
    return elements


def alert_line(details: AlertDetails) -> str:
    """One of several alerts."""
    alert = details.alert
    by = f" · acknowledged by {mention(alert.acknowledged_by)}" if alert.acknowledged_by else ""
    since = f"since {moment(alert.opened_at)}"
    if alert.target.kind == STORM:
        return f"{_sign(details)} *{alert.reason}* {since}{by}\n{_TOGETHER}"
    return f"{_sign(details)} *{target_name(alert)} {WORDS[alert.condition]}* {since}{by}\n{fit(_why(alert), LINE)}"


def _over(details: AlertDetails) -> Content:
    alert = details.alert
    ended = alert.closed_at or alert.cleared_at or alert.opened_at
    lasted = format_span((ended - alert.opened_at).total_seconds())
    what = alert.reason if alert.target.kind == STORM else f"{target_name(alert)} {_was(alert.condition)}"
    title = f"{what} for {lasted}, and that is over"
    from_to = f"From {moment(alert.opened_at)} to {moment(ended)}."
    if details.new:  # it came and went while nobody could be told
        why = "" if alert.target.kind == STORM else f" {_why(alert)}"
        line = f":white_check_mark: *{title}.* {from_to}{why}"
        return text_message(f"{line} Slack could not be told of it meanwhile.")
    often = f" It came back {times(alert.occurrences - 1)} meanwhile." if alert.occurrences > 1 else ""
    now = f"\n*Now:* {_sentence(details.ended, alert.target.id)}" if details.ended else ""
    was = "" if alert.target.kind == STORM else f"\n*It was:* {_why(alert)}{now}"
    blocks = [section(f":white_check_mark: *{title}*{was}")]
    facts = [f"{from_to}{often}", f"on {fit(escape(details.host), NAME)}"]
    if alert.acknowledged_by is not None:
        facts.append(f"acknowledged by {mention(alert.acknowledged_by)}")
    blocks.append(context(" · ".join([*facts, f"alert `{alert.alert_id}`"])))
    return {"text": fit(f"{title}. {from_to}{now}", TEXT), "blocks": blocks}


def _was(condition: Condition) -> str:
    words = WORDS[condition]
    return _WAS.get(condition, f"was {words.removeprefix('is ')}")


def _sign(details: AlertDetails) -> str:
    alert = details.alert
    if any(hush.kind is not Hush.SNOOZE for hush in details.hushes):
        return ":mute:"
    if alert.state is AlertState.ACKNOWLEDGED:
        return ":eyes:"
    if alert.state is AlertState.SNOOZED:
        return ":zzz:"
    return ":red_circle:" if alert.severity is Severity.CRITICAL else ":large_yellow_circle:"


def target_name(alert: Alert) -> str:
    """The name of the alert's target."""
    if alert.target.kind == STORM:
        return "The storm"
    name = fit(escape(alert.target.id), NAME)
    return name if alert.target.worker else f"The {escape(alert.target.kind)} of {name}"


def _why(alert: Alert) -> str:
    return _sentence(alert.reason, alert.target.id)


def _sentence(text: str, name: str) -> str:
    text = fit(escape(text.strip()), WHY).rstrip(".")
    return f"{capitalize(text, name)}." if text else ""


def _said_before(details: AlertDetails) -> str:
    """The last command or configuration before it: most troubles follow on one."""
    if details.settings is not None:
        changes = fit(escape("; ".join(details.settings.changes)), LINE)
        return (
            f"*Last change:* configuration by {mention(details.settings.by)} {moment(details.settings.at)}: {changes}"
        )
    job = details.before
    if job is None or job.finished_at is None:
        return ""
    definition = by_handler(job.handler)
    name = definition.name if definition else job.handler
    command = render(Command.for_worker(name, job.worker_id, label=job.label))
    came = "was interrupted" if job.state is JobState.INTERRUPTED else "done"
    if job.outcome is not None and not job.outcome.success and job.state is not JobState.INTERRUPTED:
        came = "failed"
    code = in_code(command, LINE)
    said = f"*Last command before it:* `{code}` by {mention(job.issuer)}, {came} {moment(job.finished_at)}"
    number = signal_in(details.alert.reason)
    if job.handler in CODE_HANDLERS and number is not None and signal_from_outside(number):
        said += "\nThe worker was ended by a signal from outside, which doesn't point to its code."
    return said


def _log(lines: Sequence[str]) -> str:
    """The last lines of its log, bounded, as data."""
    shown, left = [], LOG
    for line in reversed(lines[-LINES:]):
        short = in_code(line, LINE)
        if len(short) > left:
            break
        left -= len(short)
        shown.append(short)
    return f"*Last lines of its log:*\n```{chr(10).join(reversed(shown))}```" if shown else ""


def _state(details: AlertDetails, now: datetime) -> list[str]:
    alert, lines = details.alert, []
    if alert.acknowledged_by is not None and alert.acknowledged_at is not None:
        lines.append(f":eyes: Acknowledged by {mention(alert.acknowledged_by)} {moment(alert.acknowledged_at)}.")
    for hush in details.hushes:
        why = f": {fit(escape(hush.reason), LINE)}" if hush.reason else ""
        about = f"{_HUSHED[hush.kind]} until {moment(hush.ends_at)} by {mention(hush.by)}{why}"
        lines.append(f"{about.rstrip('.')}.")
    if alert.occurrences > 1:
        lines.append(f":repeat: It was gone and came back {times(alert.occurrences - 1)}.")
    if alert.cleared_at is not None and alert.cleared_at <= now:
        lines.append(f":hourglass_flowing_sand: It seems to be over since {moment(alert.cleared_at)}.")
    return lines


def _ordinal(count: int) -> str:
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def _next(alert: Alert) -> str:
    waits = (
        alert.state is AlertState.OPEN
        and alert.parent_id is None
        and alert.due_at is not None
        and alert.cleared_at is None
    )
    return f" · reminder {moment(alert.due_at)}" if waits and alert.due_at is not None else ""


def _button(alert: Alert, name: str, text: str, style: str = "") -> Json:
    """It changes no worker, and the other button undoes it: so it doesn't ask first."""
    label = f"{text} the alert about {alert.target.id}"
    return button(f"{PRESS}{name}", text, alert.alert_id, label=label, style=style)
