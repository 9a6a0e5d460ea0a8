"""The answers to `alerts`, `mute` and `unmute`, and to `approvals` with the buttons to decide. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from bot.views.blocks import Color, Content, Json, actions, card, context, section, text_message
from bot.views.buttons import ListPage, command_button, list_page, page_buttons
from bot.views.cards.alert import AlertDetails, alert_line, reason_of, target_name
from bot.views.cards.approval import ApprovalDetails, buttons, command_text, full_command
from bot.views.cards.notices import uptime_lines
from bot.views.text import ago, escape, first_lines, fit, inert, mention, requester, shorten, when
from supervisor_core.alerts.flips import SPANS, Uptime
from supervisor_core.alerts.rules import Alert
from supervisor_core.alerts.suppression.rows import EVERYTHING, Hush, Suppression
from supervisor_core.commands.command import Command
from supervisor_core.common.times import format_span
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.workers.conditions import Severity

SHOWN = 10
"""Alerts with a line of their own, and workers that are named."""

REASON = 200  # characters


def open_alerts(
    part: ListPage[AlertDetails],
    count: int,
    muted: Mapping[str, Suppression],
    now: datetime,
    *,
    nonce: str = "",
    worked: Mapping[str, Sequence[Uptime]] | None = None,
    recovered: Sequence[Alert] = (),
) -> Content:
    """One page of the open alerts, the muted workers, and the uptime of each worker. `recovered`: the last ones, for
    when none is open."""
    quiet = [_muted(worker_id, each, now) for worker_id, each in sorted(muted.items())]
    blocks = [section(alert_line(each, now)) for each in part.items] or _recovered(recovered)
    if quiet:
        blocks.append(section("\n".join(first_lines(quiet, SHOWN))))
    if lines := uptime_lines(worked or {}):
        shown = first_lines(lines, SHOWN, "… and {} more: `supervisor alerts --uptime` on the host")
        blocks.append(section("\n".join([f"*Uptime* ({' · '.join(SPANS)})", *shown])))
    blocks += page_buttons(part, Command("alerts"), nonce)
    if part.pages > 1:
        blocks.append(context(f"Page {part.number + 1} of {part.pages}"))
    if not count:
        headline = ":no_bell: *No open alerts*, some are muted" if quiet else ":white_check_mark: *No open alerts*"
        return card(headline, Color.QUIET if quiet else Color.GOOD, blocks)
    critical = any(each.alert.severity is Severity.CRITICAL for each in part.items)
    headline = f":rotating_light: *{count:,} open alert{'' if count == 1 else 's'}*"
    return card(headline, Color.CRITICAL if critical else Color.WARNING, blocks)


def _recovered(alerts: Sequence[Alert]) -> list[Json]:
    if not alerts:
        return []
    lines = [_recovered_line(each) for each in alerts]
    explained = next((each.target.worker for each in alerts if each.target.worker), "")
    hint = f"What happened: `/supervisor why {explained}`" if explained else "What happened: `/supervisor why`"
    return [section("\n".join(["*Recovered in the last 24 hours*", *lines])), context(hint)]


def _recovered_line(alert: Alert) -> str:
    ended = alert.closed_at or alert.opened_at
    lasted = format_span((ended - alert.opened_at).total_seconds())
    happened, _ = reason_of(alert)
    said = f": {happened[:1].lower()}{happened[1:]}" if happened else ""
    return f"• *{target_name(alert)}* recovered {ago(ended)} after {lasted}{fit(said, REASON)}"


def mute_answer(made: Sequence[Suppression], target: str, now: datetime, *, said: bool) -> Content:
    """The result of a mute of this target, for everybody; `said`: the command named a duration."""
    first = made[0]
    names = _names([each.target.id for each in made])
    headline = f":no_bell: *Muted {names}* until {when(first.until, now)}, by {mention(first.by)}"
    blocks = [section(inert(first.reason, REASON))] if first.reason else []
    workers = tuple(sorted(each.target.id for each in made if each.target.worker))
    if workers:
        command = Command("unmute", target, workers)
        blocks.append(actions("unmute", [command_button(command, first.task_id, "Unmute")]))
    hint = "Alerts are still recorded. Alerts still open when the mute ends will be posted."
    blocks.append(context(hint if said else f"{hint} Without a duration, a mute lasts 1 hour."))
    return card(headline, Color.QUIET, blocks)


def unmute_answer(
    ended: Collection[str], asked: Collection[str], by: str, now: datetime, still: Suppression | None = None
) -> Content:
    """The result of an unmute. `still`: a maintenance of all workers, which goes on."""
    if still is not None:
        return text_message(f"{_muted(EVERYTHING.id, still, now)}. `/supervisor unmute all` ends it early.")
    if not ended:
        verb = "isn't" if len(asked) == 1 else "aren't"
        return text_message(f":bell: *{_names(asked)}* {verb} muted.")
    return text_message(f":bell: *Unmuted {_names(ended)}*, by {by}")


def _muted(worker_id: str, hush: Suppression, now: datetime) -> str:
    why = f": {inert(hush.reason, REASON)}" if hush.reason else ""
    name = "Everything" if worker_id == EVERYTHING.id else escape(worker_id)
    if hush.kind is Hush.MAINTENANCE:
        return f":wrench: *{name}* in maintenance until {when(hush.ends_at, now)}{why}"
    return f":no_bell: *{name}* muted until {when(hush.ends_at, now)} by {mention(hush.by)}{why}"


def _names(workers: Collection[str]) -> str:
    return "everything" if EVERYTHING.id in workers else shorten([escape(each) for each in sorted(workers)], SHOWN)


EFFECT, NOTE = 300, 500  # characters


def pending_approvals(
    found: Sequence[ApprovalDetails], nonce: str = "", page: int = 0, *, decides: bool = True, wanted: str = ""
) -> Content:
    """One page of the pending approvals, oldest first. `decides`: for an approver, not only a person's own requests;
    `wanted`: the id that was asked for."""
    if not found:
        nothing = "*Nothing needs approval*" if decides else "You have no pending requests."
        return text_message(f":white_check_mark: {f'No pending approval {escape(wanted)}.' if wanted else nothing}")
    part = list_page(found, SHOWN, page)
    blocks: list[Json] = []
    for details in part.items:
        blocks += map(section, [_line(details), *full_command(details.approval.command)])
        if details.approval.state is ApprovalState.PENDING:
            blocks.append(actions(details.approval.approval_id, buttons(details.approval, decides=decides)))
    blocks += page_buttons(part, Command("approvals"), nonce)
    if part.pages > 1:
        blocks.append(context(f"Page {part.number + 1} of {part.pages}"))
    number = len(found)
    headline = f":raised_hand: *{number} {'command needs' if number == 1 else 'commands need'} approval*"
    return card(headline, Color.WARNING, blocks)


def _line(details: ApprovalDetails) -> str:
    approval = details.approval
    names = shorten([escape(name) for name in approval.command.workers], 3)
    title = f"{names}: {escape(fit(command_text(approval.command), EFFECT))}"
    title = f"<{details.link}|{title}>" if details.link else f"*{title}*"
    facts = [f"requested by {requester(approval.requester)}"]
    if approval.command.label:
        facts.append(f"label: {inert(approval.command.label, NOTE)}")
    if approval.command.note:
        facts.append(f"note: {inert(approval.command.note, NOTE)}")
    pending = approval.state is ApprovalState.PENDING
    facts.append(f"expires {ago(approval.expires_at)}" if pending else str(approval.state))
    return f"{title}\n{escape(fit(effect(approval.previews), EFFECT))}\n{' · '.join(facts)}"
