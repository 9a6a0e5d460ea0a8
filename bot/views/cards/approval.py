"""The card of a command that waits for approval, or that wasn't approved. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.views.blocks import (
    LONGEST,
    Color,
    Content,
    Json,
    actions,
    button,
    card,
    context,
    fields,
    modal,
    option,
    plain_text,
    section,
)
from bot.views.buttons import command_button, confirm
from bot.views.cards.preview import (
    ON_A_CARD,
    is_cut,
    preview_blocks,
    preview_facts,
    previews_as_text,
    summary,
)
from bot.views.text import (
    ago,
    escape,
    first_lines,
    fit,
    in_code,
    inert,
    mention,
    named_or_counted,
    phrase_markup,
    requester,
    unescape,
)
from supervisor_core.code.change_plan import count
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import render
from supervisor_core.common.times import format_span
from supervisor_core.config.fields import ON_CALL
from supervisor_core.config.schema import DIRECT
from supervisor_core.intake.approvals.observed_state import with_batches
from supervisor_core.intake.approvals.rules import OPEN, Approval, ApprovalState, Choice, Vote, count_of, to_go_on
from supervisor_core.intake.rolling.rules import rolling_terms

if TYPE_CHECKING:
    from bot.requests.request import Request

VOTE = "approval:"
"""Before `approve`, `deny` or `cancel` in the `action_id` of a button; its value is the approval's id."""

DENIAL = "approval:denied"
"""The `callback_id` of the form in which somebody gives a reason for a denial."""

DECISION = "approval:decided"
"""The `callback_id` of the form in which somebody approves or denies, and gives a reason."""

TITLE, WHY = 160, 600  # characters
COMMAND = 100
"""Characters of a command that a title has room for, beside its workers."""

PIECE = 500
"""Characters of a long command in one block: it holds them also if each is escaped."""

REASON = 500
NAMED = 3  # workers
CONFIRMED = 240  # characters of an effect, in the confirmation of Approve
VOTES = 20
"""Names on a card; more votes than that are counted."""

APPROVERS = 10  # people and groups who are mentioned

_STATES: Mapping[ApprovalState, tuple[str, str, Color]] = {
    ApprovalState.PENDING: (":raised_hand:", "Approval needed", Color.WARNING),
    ApprovalState.APPROVED: (":hourglass_flowing_sand:", "approved, starting", Color.ACTIVE),
    ApprovalState.EXECUTING: (":hourglass_flowing_sand:", "approved, running", Color.ACTIVE),
    ApprovalState.DONE: (":white_check_mark:", "approved and done", Color.GOOD),
    ApprovalState.FAILED: (":x:", "approved, but failed", Color.CRITICAL),
    ApprovalState.DENIED: (":no_entry:", "denied", Color.QUIET),
    ApprovalState.CANCELLED: (":heavy_minus_sign:", "cancelled", Color.QUIET),
    ApprovalState.EXPIRED: (":hourglass:", "expired without a decision", Color.QUIET),
    ApprovalState.STALE: (":warning:", "out of date", Color.QUIET),
}

_TITLES: Mapping[str, str] = {
    "pause": "Pause {}",
    "resume": "Resume {}",
    "restart": "Restart {}",
    "update": "Update {}",
    "update-deps": "Update {} with packages",
    "undo": "Undo a change to {}",
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
    approvers: Sequence[str] = ()
    """The ids of the people and groups who may approve it."""


def approval_card(details: ApprovalDetails, *, asks: bool = False) -> Content:
    """The one message of the command until it starts. `asks`: the message in the channel for approvals, where the
    command has a card elsewhere."""
    decides = asks or not details.elsewhere
    approval = details.approval
    sign, word, color = _STATES[approval.state]
    pending = approval.state is ApprovalState.PENDING
    headline = f"{sign} *{_title(approval.command)}?* {word}"
    if not pending:
        denied = [mention(vote.voter) for vote in details.votes if vote.choice is Choice.DENY]
        by = f" by {denied[-1]}" if denied and approval.state is ApprovalState.DENIED else ""
        headline = f"{sign} *{_title(approval.command)}*: {word}{by}"
    blocks = fields(_facts(details))
    if approval.state in OPEN:
        blocks += preview_blocks(approval.previews)
    # A denial's reason is beside its vote.
    told = any(vote.choice is Choice.DENY and vote.reason == approval.reason for vote in details.votes[:VOTES])
    if approval.reason and not pending and not told:
        word = "Waiting" if approval.state is ApprovalState.APPROVED else "Reason"
        blocks.append(section(f"*{word}:* {inert(approval.reason, WHY)}"))
    if not pending and (votes := votes_text(details.votes)):
        blocks.append(section(votes))
    if elements := buttons(approval, decides=decides):
        blocks.append(actions(f"approval:{approval.approval_id}", elements))
    ids = f"approval `{approval.approval_id}` · `{approval.task_id}`"
    blocks.append(context(" · ".join([*_places(details, decides=decides, asks=asks), ids])))
    return card(headline, color, blocks)


def title_of(approval: Approval) -> str:
    return f"{_title(approval.command)}: {_STATES[approval.state][1]}"


def _title(command: Command) -> str:
    """The command as a short imperative: `Roll back 2 commits on OrionMX`."""
    names = escape(_names(command))
    if command.name == "rollback":
        return fit(f"Roll back {count(int(command.params.get('commits_back') or 1), 'commit')} on {names}", TITLE)
    form = _TITLES.get(command.name)
    dropping = ", dropping local changes" if command.params.get("reset") else ""
    return fit((form.format(names) if form else f"{escape(command_text(command))} on {names}") + dropping, TITLE)


def full_command(command: Command) -> list[str]:
    """An added command with all its parameters in pieces, each a code block, where a title can't hold or show it as it
    is; else empty."""
    text = command_text(command)
    fits = len(escape(text)) <= COMMAND and not set(text) & set("*_~`\n")
    if fits or CATALOG.on_record(command.name).extension is None:
        return []
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    return [f"```{in_code(piece, LONGEST)}```" for piece in pieces]


def _facts(details: ApprovalDetails) -> dict[str, str]:
    approval = details.approval
    command = approval.command
    facts = {"Requested by": requester(approval.requester)}
    facts["Label"] = inert(command.label or "", REASON)
    facts["Note"] = inert(command.note, REASON)
    if approval.state in OPEN:
        facts |= preview_facts(approval.previews)
        facts["Batches"] = batches_text(with_batches(command, approval.previews))
    else:
        facts["Change"] = escape(summary(approval.previews))
    if approval.state is ApprovalState.PENDING:
        agreed = [mention(vote.voter) for vote in details.votes if vote.choice is Choice.APPROVE]
        who = ", ".join(first_lines(agreed, NAMED, "and {} more"))
        facts["Approvals"] = ": ".join(filter(None, [count_of(approval, details.votes), who]))
        facts["Expires"] = ago(approval.expires_at)
    return facts


def batches_text(command: Command) -> str:
    """The batches of a rolling change: `11 batches of up to 5 after a first one of 1`; empty for any other command."""
    terms, batches = rolling_terms(command.params), command.batches
    if terms is None or not batches:
        return ""
    first, most = len(batches[0]), max(map(len, batches))
    sizes = set(map(len, batches))
    number, size, after = len(batches), f"{most:,}", ""
    if sizes != {most}:
        number, size = number - (first < most), f"up to {most:,}"
        after = f" after a first one of {first:,}" if first < most else ""
    text = f"{'1 batch' if number == 1 else f'{number:,} batches'} of {size}{after}"
    limits = [f"each healthy for {format_span(terms.healthy.total_seconds())}"] if terms.healthy else []
    accepts_all = terms.max_failures >= len(command.workers)
    stop = f"after {terms.max_failures + 1} failures" if terms.max_failures else "at the first failure"
    limits += ["failures don't stop it" if accepts_all else f"stops {stop}"]
    return "; ".join([text, *limits])


def _places(details: ApprovalDetails, *, decides: bool, asks: bool) -> list[str]:
    """Where it goes on, and who can approve. Their mention notifies them once, with the first message."""
    approval = details.approval
    alone = str((approval.card or {}).get("channel") or "").startswith(DIRECT)
    pending = approval.state is ApprovalState.PENDING
    said = []
    if details.elsewhere and pending:
        said.append(
            f"Approval requested in <#{details.elsewhere}>" + (f" (<{details.link}|open>)" if details.link else "")
        )
    elif details.link and decides and not alone:
        said.append(f"<{details.link}|Open the command>")
    elif asks and alone:
        said.append("Requested in a direct message")
    elif pending and alone:
        said.append(
            "Only you see this. Ask an approver to decide in the app's Home tab or with `/supervisor approvals`"
        )
    if pending and decides and (asks or not alone) and (who := _approvers(details)):
        said.append(f"{who} can approve")
    if approval.state in OPEN and (is_cut(approval.previews) or full_command(approval.command)):
        said.append("full preview in the thread")
    return said


def _approvers(details: ApprovalDetails) -> str:
    """Mentions of those who may approve; empty if everybody may."""
    own = "" if details.approval.terms.self_approval else details.approval.requester.person.id.rpartition("/")[2]
    mentions = []
    for who in details.approvers:
        if who.startswith(ON_CALL):
            mentions.append("the person on call")
        elif who.startswith("S"):
            mentions.append(f"<!subteam^{who}>")
        elif who.startswith(("C", "G")):
            mentions.append(f"<#{who}>")
        elif not who.startswith(("U", "W")):
            return ""
        elif who != own:
            mentions.append(f"<@{who}>")
    return ", ".join(mentions[:APPROVERS])


def votes_text(votes: Sequence[Vote]) -> str:
    lines = []
    for vote in votes:
        sign, word = (":+1:", "Approved") if vote.choice is Choice.APPROVE else (":-1:", "Denied")
        reason = f": {inert(vote.reason, REASON // 2)}" if vote.reason else ""
        lines.append(f"{sign} {word} by {mention(vote.voter)}{reason}")
    return "\n".join(first_lines(lines, VOTES))


def command_text(command: Command) -> str:
    """The command without its target, its label and its note: `rollback 3`."""
    return unescape(render(replace(command.without_words(), target="")))


def _names(command: Command) -> str:
    """The first workers, and how many more there are; as it stands, not yet escaped."""
    return named_or_counted(command.workers, NAMED)


def about(command: Command) -> str:
    """The command and its workers, not yet escaped: `rollback 3 of North`."""
    return f"{command_text(command)} of {_names(command)}"


def why_of(approval: Approval) -> str:
    """The reason for its state, and the next step where there is one."""
    return f"{inert(approval.reason, WHY)} {phrase_markup(to_go_on(approval))}".rstrip()


def buttons(approval: Approval, *, decides: bool) -> list[Json]:
    """The buttons for the approval's current state; of a final one at most one that requests the same again."""
    said = about(approval.command)

    def vote_button(name: str, text: str, style: str = "", ask: Json | None = None) -> Json:
        made = button(f"{VOTE}{name}", text, approval.approval_id, label=f"{text} {said}", style=style)
        return {**made, "confirm": ask} if ask else made

    keeps = confirm(f"Cancel {said}?", "Nothing is changed. You can request it again.", "Cancel it")
    if approval.state is ApprovalState.PENDING and decides:
        needed = approval.terms.votes_needed
        starts = "Your approval starts it." if needed == 1 else f"It starts when {needed} people have approved it."
        effect = f"{fit(summary(approval.previews), CONFIRMED)} {starts}"
        return [
            vote_button("approve", "Approve", "primary", confirm(f"Approve {said}?", effect, "Approve")),
            vote_button("deny", "Deny"),
            vote_button("cancel", "Cancel", ask=keeps),
        ]
    if approval.state in (ApprovalState.STALE, ApprovalState.EXPIRED):
        text = "New preview" if approval.state is ApprovalState.STALE else "Request again"
        effect = "Shows a new preview and requests approval for it."
        named = f"{text} of {said}"
        return [
            command_button(approval.command, approval.approval_id, text, about=named, effect=effect, style="primary")
        ]
    return [vote_button("cancel", "Cancel", ask=keeps)] if approval.state in OPEN else []


def denial_form(approval: Approval, request: Request) -> Json:
    place = {
        "approval_id": approval.approval_id,
        "channel": request.channel,
        "thread": request.thread,
        "response_url": request.response_url,
        "replaces": request.replaces,
    }
    said = f"Requested by {requester(approval.requester)}. One denial ends it."
    blocks = [section(f"*{_title(approval.command)}*\n{said}"), _why()]
    return modal(DENIAL, "Deny", blocks, json.dumps(place), submit="Deny", close="Not now")


def decision_form(approval: Approval) -> Json:
    """The form of a vote: the preview, the choice, and a reason. It asks for no confirmation."""
    label = f" · label: {inert(approval.command.label, REASON)}" if approval.command.label else ""
    note = f" · note: {inert(approval.command.note, REASON)}" if approval.command.note else ""
    facts = f"Requested by {requester(approval.requester)}{label}{note} · expires {ago(approval.expires_at)}"
    seen = [section(text) for text in previews_as_text(approval.previews, ON_A_CARD)]
    cut = [context("The full preview is in the thread of the message.")]
    choices = (("Approve", "approve", summary(approval.previews)), ("Deny", "deny", "One denial ends it."))
    options = [{**option(text, value), "description": plain_text(fit(words, 75))} for text, value, words in choices]
    vote = {
        "type": "input",
        "block_id": "choice",
        "label": plain_text("Your vote"),
        "element": {"type": "radio_buttons", "action_id": "choice", "options": options},
    }
    in_full = [section(piece) for piece in full_command(approval.command)]
    about_it = [
        section(f"*{_title(approval.command)}*\n{facts}"),
        *in_full,
        *seen,
        *(cut if is_cut(approval.previews) else []),
    ]
    blocks = [*about_it, vote, _why()]
    return modal(DECISION, "Approve or deny", blocks, approval.approval_id, submit="Vote", close="Not now")


def _why() -> Json:
    return {
        "type": "input",
        "block_id": "reason",
        "optional": True,
        "label": plain_text("Why?"),
        "hint": plain_text("Visible to everybody who sees the request."),
        "element": {"type": "plain_text_input", "action_id": "reason", "multiline": True, "max_length": 500},
    }
