"""The card of a command that waits for people, or that came to nothing because of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.views.blocks import LONGEST, Content, Json, actions, button, context, modal, option, plain_text, section
from bot.views.buttons import command_button, confirm
from bot.views.cards.preview import ON_A_CARD, is_cut, previews_as_text
from bot.views.text import escape, first_lines, fit, mention, moment, phrase_markup, requester, shorten
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import render
from supervisor_core.common.text import capitalize, sentence
from supervisor_core.config.slack_settings import DIRECT
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import OPEN, Approval, ApprovalState, Choice, Vote, count_of, to_go_on

if TYPE_CHECKING:
    from bot.requests.request import Request

VOTE = "approval:"
"""Before `approve`, `deny` or `cancel` in the `action_id` of a button; its value is the approval's id."""

DENIAL = "approval:denied"
"""The `callback_id` of the form in which somebody says why they deny."""

DECISION = "approval:decided"
"""The `callback_id` of the form in which somebody says yes or no, and why."""

TITLE, WHY = 250, 1000  # characters
REASON = 500
NAMED = 3  # workers
CONFIRMED = 240  # characters of an effect, in a question that is asked before it comes to that
VOTES = 20
"""Names on a card; more votes than that are counted."""

_STATES: Mapping[ApprovalState, tuple[str, str]] = {
    ApprovalState.PENDING: (":raised_hand:", "needs an approval"),
    ApprovalState.APPROVED: (":hourglass_flowing_sand:", "is approved, and about to begin"),
    ApprovalState.EXECUTING: (":hourglass_flowing_sand:", "is approved, and under way"),
    ApprovalState.DONE: (":white_check_mark:", "was approved, and is done"),
    ApprovalState.FAILED: (":x:", "was approved, and failed"),
    ApprovalState.DENIED: (":no_entry:", "was denied"),
    ApprovalState.CANCELLED: (":heavy_minus_sign:", "was cancelled"),
    ApprovalState.EXPIRED: (":hourglass:", "was not decided in time"),
    ApprovalState.STALE: (":warning:", "is out of date"),
}


@dataclass(frozen=True, slots=True)
class ApprovalDetails:
    """An approval with its votes, and the place of its other message."""

    approval: Approval
    votes: Sequence[Vote] = ()
    elsewhere: str = ""
    """The channel in which people are asked, where that is another one than the card's."""
    link: str = ""
    """The address of the other message: from the card to the question, and from the question to the card."""


def approval_card(details: ApprovalDetails) -> Content:
    """The one message of the command while nothing was carried out."""
    return _message(details, decides=not details.elsewhere, asks=False)


def approval_request(details: ApprovalDetails) -> Content:
    """The message in the channel where approvals are asked for; the command has a card elsewhere."""
    return _message(details, decides=True, asks=True)


def _message(details: ApprovalDetails, *, decides: bool, asks: bool) -> Content:
    """`asks`: it is the message that asks people, beside a card."""
    approval = details.approval
    sign, title = _STATES[approval.state][0], title_of(approval)
    blocks = [section(f"{sign} *{title}*")]
    if approval.state in OPEN:
        blocks += [section(text) for text in previews_as_text(approval.previews, ON_A_CARD)]
        if is_cut(approval.previews):
            blocks.append(context("More than a card holds: all of it is in the thread."))
    else:
        blocks.append(section(escape(_effect(approval))))
    if _says_why(details):
        word = "It waits" if approval.state is ApprovalState.APPROVED else "Why"
        blocks.append(section(f"*{word}:* {why_of(approval)}"))
    said = votes_text(details.votes)
    if said:
        blocks.append(section(said))
    if elements := buttons(approval, decides=decides):
        blocks.append(actions(f"approval:{approval.approval_id}", elements))
    if details.elsewhere and approval.state is ApprovalState.PENDING:
        link = f" (<{details.link}|go there>)" if details.link else ""
        blocks.append(context(f"People are asked in <#{details.elsewhere}>{link}."))
    elif details.link and decides and not _is_alone(approval):
        blocks.append(context(f"<{details.link}|Its card> tells the rest."))
    elif asks and _is_alone(approval):
        blocks.append(context("Asked in a direct message, where its card is: who asked follows it there."))
    elif approval.state is ApprovalState.PENDING and _is_alone(approval):
        where = "in my Home tab, or with `/supervisor approvals`"
        blocks.append(context(f"Nobody else sees this card: tell an approver, who decides {where}."))
    blocks.append(context(" · ".join(_facts(details))))
    return {"text": _text(details, title), "blocks": blocks}


def _is_alone(approval: Approval) -> bool:
    """True where its card is in a direct message, which no approver sees."""
    return str((approval.card or {}).get("channel") or "").startswith(DIRECT)


def title_of(approval: Approval) -> str:
    """The command and the state of its approval."""
    word = _STATES[approval.state][1]
    command = approval.command
    return f"{escape(fit(_names(command), TITLE))}: {escape(fit(command_text(command), TITLE))} {word}"


def votes_text(votes: Sequence[Vote]) -> str:
    """The votes in their order, a line each."""
    lines = []
    for vote in votes:
        sign, word = (":+1:", "approved") if vote.choice is Choice.APPROVE else (":-1:", "denied")
        reason = f": {escape(fit(vote.reason, REASON // 2))}" if vote.reason else ""
        lines.append(f"{sign} {word} by {mention(vote.voter)}{reason}")
    return "\n".join(first_lines(lines, VOTES))


def command_text(command: Command) -> str:
    """The command without its target, label and note: `rollback 3`."""
    return render(replace(command.without_words(), target=""))


def _names(command: Command) -> str:
    """The first workers, and how many more there are; as it stands, not yet escaped."""
    return shorten(command.workers, NAMED)


def about(command: Command) -> str:
    """The command and its workers, not yet escaped: `rollback 3 of North`."""
    return f"{command_text(command)} of {_names(command)}"


def _effect(approval: Approval) -> str:
    return f"Effect: {sentence(fit(effect(approval.previews) or about(approval.command), WHY))}"


def _says_why(details: ApprovalDetails) -> bool:
    """True for a reason that isn't on the card yet: a denial's is beside its vote."""
    approval = details.approval
    told = any(vote.choice is Choice.DENY and vote.reason == approval.reason for vote in details.votes[:VOTES])
    return bool(approval.reason) and approval.state is not ApprovalState.PENDING and not told


def why_of(approval: Approval) -> str:
    """The reason for its state, and the next step where there is one."""
    return f"{escape(fit(approval.reason, WHY))} {phrase_markup(to_go_on(approval))}".rstrip()


def _text(details: ApprovalDetails, title: str) -> str:
    """The same in one paragraph: it is what a notification shows, and what is read aloud."""
    approval = details.approval
    said = [f"{title}.", escape(_effect(approval))]
    if approval.state is ApprovalState.PENDING:
        said.append(f"Asked by {requester(approval.requester)}; {count_of(approval, details.votes)}.")
    elif approval.reason:
        said.append(f"Why: {why_of(approval)}")
    return fit(" ".join(said), LONGEST)


def _facts(details: ApprovalDetails) -> list[str]:
    approval = details.approval
    facts = [f"asked by {requester(approval.requester)}"]
    if approval.command.label:
        facts.append(f"label: {escape(approval.command.label)}")
    if approval.command.note:
        facts.append(f"note: {escape(approval.command.note)}")
    if approval.state is ApprovalState.PENDING:
        facts += [count_of(approval, details.votes), f"expires {moment(approval.expires_at)}"]
    elif approval.finished_at is not None:
        facts.append(f"ended {moment(approval.finished_at)}")
    return [*facts, f"`{approval.task_id}`", f"approval `{approval.approval_id}`"]


def buttons(approval: Approval, *, decides: bool) -> list[Json]:
    """The buttons for the approval's current state; of a final one none but the new preview of a stale one."""
    said = about(approval.command)
    if approval.state is ApprovalState.PENDING and decides:
        return [_approve(approval, said), _button(approval, "deny", "Deny", f"Deny {said}"), _cancel(approval, said)]
    if approval.state is ApprovalState.STALE:
        text, effect_now = "New preview", "What it would do now is shown, and people are asked about that."
        named = f"{text} of {said}"
        return [command_button(approval.command, approval.approval_id, text, about=named, effect=effect_now)]
    return [_cancel(approval, said)] if approval.state in OPEN else []


def _approve(approval: Approval, said: str) -> Json:
    once = "Once there are enough votes it is carried out."
    text = f"{sentence(fit(capitalize(effect(approval.previews)), CONFIRMED))} {once}"
    return {
        **_button(approval, "approve", "Approve", f"Approve {said}", "primary"),
        "confirm": confirm(f"Approve {said}?", text, "Approve"),
    }


def _cancel(approval: Approval, said: str) -> Json:
    text = "Nothing is carried out, and it can be asked for anew."
    return {
        **_button(approval, "cancel", "Cancel", f"Cancel {said}"),
        "confirm": confirm(f"Cancel {said}?", text, "Cancel it"),
    }


def _button(approval: Approval, name: str, text: str, label: str, style: str = "") -> Json:
    return button(f"{VOTE}{name}", text, approval.approval_id, label=label, style=style)


def denial_form(approval: Approval, request: Request) -> Json:
    """The form in which somebody says why they deny; they may leave it empty."""
    place = {
        "approval_id": approval.approval_id,
        "channel": request.channel,
        "thread": request.thread,
        "response_url": request.response_url,
        "replaces": request.replaces,
    }
    title = escape(fit(about(approval.command), TITLE))
    blocks = [section(f"*{title}*\nasked by {requester(approval.requester)}. One denial ends it."), _why()]
    return modal(DENIAL, "Deny", blocks, json.dumps(place), submit="Deny", close="Not now")


def decision_form(approval: Approval) -> Json:
    """The form of a vote: the card's content, the choice, and a reason. It asks for no confirmation."""
    about = f"{_names(approval.command)}: {escape(command_text(approval.command))}"
    label = f" · label: {escape(approval.command.label)}" if approval.command.label else ""
    label += f" · note: {escape(approval.command.note)}" if approval.command.note else ""
    facts = f"asked by {requester(approval.requester)}{label} · expires {moment(approval.expires_at)}"
    seen = [section(text) for text in previews_as_text(approval.previews, ON_A_CARD)]
    cut = [context("More than a form holds: all of it is in the thread of its card.")]
    choices = (("Approve", "approve", effect(approval.previews)), ("Deny", "deny", "One denial ends it."))
    options = [{**option(text, value), "description": plain_text(fit(words, 75))} for text, value, words in choices]
    vote = {
        "type": "input",
        "block_id": "choice",
        "label": plain_text("Your vote"),
        "element": {"type": "radio_buttons", "action_id": "choice", "options": options},
    }
    about_it = [section(f"*{fit(about, TITLE)}*\n{facts}"), *seen, *(cut if is_cut(approval.previews) else [])]
    blocks = [*about_it, vote, _why()]
    return modal(DECISION, "Approve or deny", blocks, approval.approval_id, submit="Vote", close="Not now")


def _why() -> Json:
    return {
        "type": "input",
        "block_id": "reason",
        "optional": True,
        "label": plain_text("Why?"),
        "hint": plain_text("Everybody who sees the card can read it."),
        "element": {"type": "plain_text_input", "action_id": "reason", "multiline": True, "max_length": 500},
    }
