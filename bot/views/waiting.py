"""What waits for an approval, as only its reader sees it, with the buttons to decide. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.views.approval import Asking, buttons, what
from bot.views.paging import part_of, turning
from bot.views.text import escape, fit
from bot.views.told import Content, context, moment, section, words
from bot.views.who import asker
from supervisor_core.domain.approvals import ApprovalState
from supervisor_core.domain.command import Command
from supervisor_core.domain.observed import effect

SHOWN = 10
"""Approvals with their buttons on one message."""

EFFECT = 300  # characters


def waiting(found: Sequence[Asking], nonce: str = "", page: int = 0) -> Content:
    """One page of all that wait, oldest first."""
    if not found:
        return words(":white_check_mark: Nothing waits for an approval.")
    number = len(found)
    title = f"{number} {'command waits' if number == 1 else 'commands wait'} for an approval"
    blocks = [section(f":raised_hand: *{title}*")]
    part = part_of(found, SHOWN, page)
    for asking in part.items:
        blocks.append(section(_line(asking)))
        if asking.approval.state is ApprovalState.PENDING:
            elements = buttons(asking.approval, decides=True)
            blocks.append({"type": "actions", "block_id": asking.approval.approval_id, "elements": elements})
    blocks += turning(part, Command("approvals"), nonce)
    if part.pages > 1:
        far = f"Page {part.number + 1} of {part.pages}."
        blocks.append(context(f"{far} On the host, `supervisor approvals` lists them all."))
    text = "\n".join([f"{title}:", *(_line(asking) for asking in part.items)])
    return {"text": fit(text, 3000), "blocks": blocks}


def _line(asking: Asking) -> str:
    approval = asking.approval
    names = ", ".join(escape(name) for name in approval.command.workers[:3])
    more = len(approval.command.workers) - 3
    about = f"*{names}{f' and {more} more' if more > 0 else ''}: {escape(what(approval.command))}*"
    label = f" · label: {escape(approval.command.label)}" if approval.command.label else ""
    until = f"expires {moment(approval.expires_at)}" if approval.state is ApprovalState.PENDING else approval.state
    link = f" · <{asking.link}|its card>" if asking.link else ""
    does = escape(fit(effect(approval.previews), EFFECT))
    return f"{about}: {does}\nasked by {asker(approval.requester)}{label} · {until}{link}"
