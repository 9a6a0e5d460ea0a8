"""The answers to `alerts`, `mute` and `unmute`, and to `approvals` with the buttons to decide. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bot.views.blocks import Content, actions, context, section, text_message
from bot.views.buttons import list_page, page_buttons
from bot.views.cards.alert import AlertDetails, alert_line
from bot.views.cards.approval import ApprovalDetails, buttons, command_text
from bot.views.cards.notices import uptime_lines
from bot.views.text import escape, first_lines, fit, mention, moment, requester, shorten
from supervisor_core.alerts.flips import SPANS, Uptime
from supervisor_core.alerts.suppression.rows import EVERYTHING, Hush, Suppression
from supervisor_core.commands.command import Command
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import ApprovalState

SHOWN = 10
"""Alerts with a line of their own, and workers that are named."""

REASON = 200  # characters


def open_alerts(
    found: Sequence[AlertDetails],
    muted: Mapping[str, Suppression],
    count: int | None = None,
    worked: Mapping[str, Sequence[Uptime]] | None = None,
) -> Content:
    """All that are open, who is muted, and how long workers were at work. `count`: how many are open, where only the
    first were looked up."""
    content = _open(found, muted, len(found) if count is None else count)
    lines = uptime_lines(worked or {})
    if not lines:
        return content
    shown = first_lines(lines, SHOWN, "… and {} more: on the host, `supervisor alerts --uptime`")
    text = "\n".join([f"*At work* ({' · '.join(SPANS)}):", *shown])
    return {"text": fit(f"{content['text']}\n{text}", 2900), "blocks": [*content["blocks"], section(text)]}


def _open(found: Sequence[AlertDetails], muted: Mapping[str, Suppression], count: int) -> Content:
    quiet = [_muted(worker_id, each) for worker_id, each in sorted(muted.items())]
    if not found:
        return text_message("\n".join([":white_check_mark: *No alert is open.*", *quiet[:SHOWN]]))
    title = f"{count:,} {'alert is' if count == 1 else 'alerts are'} open"
    lines = [alert_line(each) for each in found[:SHOWN]]
    blocks = [section(f"*{title}*"), *map(section, lines)]
    if count > SHOWN:
        blocks.append(context(f"… and {count - SHOWN:,} more: on the host, `supervisor alerts` lists them all."))
    if quiet:
        blocks.append(section("\n".join(first_lines(quiet, SHOWN))))
    return {"text": fit("\n".join([f"{title}:", *lines, *quiet]), 2900), "blocks": blocks}


def mute_answer(made: Sequence[Suppression], *, said: bool) -> Content:
    """The result of a mute, for everybody; `said`: the command named a duration."""
    first = made[0]
    why = f": {fit(escape(first.reason), REASON)}" if first.reason else ""
    hour = "" if said else " Nobody said how long, so it is one hour."
    names = _names([each.target.id for each in made])
    text = f":mute: {names} muted until {moment(first.until)} by {mention(first.by)}{why}"
    return text_message(f"{text.rstrip('.')}.{hour} What happens is recorded; what still holds by then is said then.")


def unmute_answer(ended: Collection[str], asked: Collection[str], by: str, still: Suppression | None = None) -> Content:
    """The result of an unmute. `still`: a maintenance of all workers, which goes on."""
    if still is not None:
        return text_message(f"{_muted(EVERYTHING.id, still)}. `/supervisor unmute all` ends that for this time.")
    if not ended:
        return text_message(f":speaker: {_names(asked)} not muted: there is nothing to end.")
    return text_message(
        f":speaker: Alerts about {', '.join(map(escape, sorted(ended)[:SHOWN]))} are told again, by {by}."
    )


def _muted(worker_id: str, hush: Suppression) -> str:
    why = f": {fit(escape(hush.reason), REASON)}" if hush.reason else ""
    name = "Everything" if worker_id == EVERYTHING.id else escape(worker_id)
    if hush.kind is Hush.MAINTENANCE:
        return f":wrench: *{name}* is in maintenance until {moment(hush.ends_at)}{why}"
    return f":mute: *{name}* is muted until {moment(hush.ends_at)} by {mention(hush.by)}{why}"


def _names(workers: Collection[str]) -> str:
    named = sorted(workers)
    shown = shorten([f"*{escape(each)}*" for each in named], SHOWN)
    return f"{shown} {'is' if len(named) == 1 else 'are'}"


EFFECT = 300  # characters


def pending_approvals(found: Sequence[ApprovalDetails], nonce: str = "", page: int = 0) -> Content:
    """One page of all that wait, oldest first."""
    if not found:
        return text_message(":white_check_mark: Nothing waits for an approval.")
    number = len(found)
    title = f"{number} {'command waits' if number == 1 else 'commands wait'} for an approval"
    blocks = [section(f":raised_hand: *{title}*")]
    part = list_page(found, SHOWN, page)
    for details in part.items:
        blocks.append(section(_line(details)))
        if details.approval.state is ApprovalState.PENDING:
            elements = buttons(details.approval, decides=True)
            blocks.append(actions(details.approval.approval_id, elements))
    blocks += page_buttons(part, Command("approvals"), nonce)
    if part.pages > 1:
        far = f"Page {part.number + 1} of {part.pages}."
        blocks.append(context(f"{far} On the host, `supervisor approvals` lists them all."))
    text = "\n".join([f"{title}:", *(_line(details) for details in part.items)])
    return {"text": fit(text, 3000), "blocks": blocks}


def _line(details: ApprovalDetails) -> str:
    approval = details.approval
    names = shorten([escape(name) for name in approval.command.workers], 3)
    about = f"*{names}: {escape(command_text(approval.command))}*"
    label = f" · label: {escape(approval.command.label)}" if approval.command.label else ""
    until = f"expires {moment(approval.expires_at)}" if approval.state is ApprovalState.PENDING else approval.state
    link = f" · <{details.link}|its card>" if details.link else ""
    does = escape(fit(effect(approval.previews), EFFECT))
    return f"{about}: {does}\nasked by {requester(approval.requester)}{label} · {until}{link}"
