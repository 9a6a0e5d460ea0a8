"""Replies in the thread of a card: the outcome with mentions, and everything that the card has no room for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bot.views.blocks import LONGEST, Content, context, section
from bot.views.cards.approval import ApprovalDetails, full_command, title_of, why_of
from bot.views.cards.card import COMMITS, ERRORS, FILES, LINE, NOTES
from bot.views.cards.headlines import line_of
from bot.views.cards.headlines import title_of as outcome_of
from bot.views.cards.many import MOST
from bot.views.cards.next_steps import CardContext
from bot.views.cards.outcome import (
    commit_lines,
    error_of,
    error_parts,
    file_line,
    has_ended,
    is_cut,
    output_of,
    seconds_of,
    sizes,
    tried,
    worker_errors,
)
from bot.views.cards.preview import IN_A_THREAD, previews_as_text
from bot.views.cards.preview import is_cut as preview_is_cut
from bot.views.text import display_name, escape, fit, in_code, in_span, inert, mentions
from supervisor_core.code.change_plan import count, short
from supervisor_core.common.text import sentence
from supervisor_core.common.times import format_span
from supervisor_core.intake.approvals.rules import FINAL as DECIDED
from supervisor_core.intake.approvals.rules import ApprovalState, Choice
from supervisor_core.jobs.model import Job
from supervisor_core.storage.outbox import REPORTS

LONG = timedelta(seconds=60)
"""A person who waits longer looks elsewhere by then, so the reply mentions them. After an approval everybody concerned
is mentioned anyway."""

WHY, ERROR, SUMMARY = 300, 2500, 2000  # characters
PIECE, PIECES = 2600, 4
"""Characters of a block, and blocks; together less than a message holds."""

LISTED_COMMITS, LISTED_FILES = 100, 200
"""Of one worker."""


def outcome_reply(
    jobs: Sequence[Job], details: ApprovalDetails | None, by: str = "", *, asked_here: bool = False
) -> Content | None:
    """The reply at the end of a command; None where its card says everything and nobody needs a mention.

    `by` is the person who just ended it. `asked_here`: in the thread of the approval request, where only voters are
    mentioned.
    """
    over = has_ended(jobs) if jobs else details is not None and details.approval.state in DECIDED
    if not over:
        return None
    told = mentions(_concerned(jobs, details, asked_here=asked_here), but=by)
    left_out = [] if asked_here else list(_left_out(jobs))
    if not told and not left_out:
        return None
    if jobs:
        took = seconds_of(jobs, jobs[0].filed_at)
        after = f" after {format_span(took)}" if took >= LONG.total_seconds() else ""
        failed = tried(jobs)
        parts = error_parts(error_of(failed[0])) if failed else None
        why = f": {inert((parts.first or parts.rest).rstrip('.'), WHY)}" if parts else ""
        said = f"{inert(outcome_of(jobs), LINE)}{after}{why}."
    else:
        said = _not_carried_out(details)
    head = f"{told} {said}" if told else f"*{inert(outcome_of(jobs), LINE)}*"
    return _packed(head, left_out, _rest_of(jobs))


def preview_reply(details: ApprovalDetails | None) -> Content | None:
    """All of what a command would do, where its card has room for a part; None once that is decided."""
    approval = details.approval if details else None
    if approval is None or approval.state in DECIDED:
        return None
    command = full_command(approval.command)
    if not command and not preview_is_cut(approval.previews):
        return None
    texts = previews_as_text(approval.previews, IN_A_THREAD)
    rest = f"`supervisor approvals --json` on {escape(approval.supervisor_id)}"
    return _packed("*Full preview*", [*command, *(line for text in texts for line in text.split("\n"))], rest)


def report_text(job: Job) -> str:
    details: Mapping[str, Any] = job.outcome.details if job.outcome else {}
    lines = [f"*{escape(job.worker_id)}*: {escape(job.command)}"]
    tests = details.get("tests")
    if isinstance(tests, Sequence) and not isinstance(tests, str):
        for test in tests:
            if isinstance(test, Mapping):
                sign = ":white_check_mark:" if test.get("passed") else ":x:"
                lines.append(f"{sign} {_line(test.get('name'))}: {_line(test.get('message'))}")
    else:
        lines += [f"• {_line(part)}" for part in str(details.get("message") or "").split("; ") if part]
    return fit("\n".join(lines), SUMMARY)


def _concerned(jobs: Sequence[Job], details: ApprovalDetails | None, *, asked_here: bool) -> Iterator[Any]:
    """The people to mention: after an approval everybody who took part, else a requester who waited long."""
    if details is None:
        if seconds_of(jobs, jobs[0].filed_at) >= LONG.total_seconds():
            yield jobs[0].issuer
        return
    if not asked_here:
        yield details.approval.requester.person
    if asked_here or not details.elsewhere:  # where the question stands elsewhere, those who answered it are there
        requester = details.approval.requester.person.id
        yield from (vote.voter for vote in details.votes if not (asked_here and vote.voter.is_same_as(requester)))


def _not_carried_out(details: ApprovalDetails | None) -> str:
    if details is None:
        raise ValueError("there is neither a job nor an approval")
    approval = details.approval
    denied = [display_name(vote.voter) for vote in details.votes if vote.choice is Choice.DENY]
    by = f" by {denied[-1]}" if denied and approval.state is ApprovalState.DENIED else ""
    reason = f" {sentence(why_of(approval))}" if approval.reason else ""
    return f"{title_of(approval)}{by}.{reason}"


def _left_out(jobs: Sequence[Job]) -> Iterator[str]:
    if len(jobs) > MOST:
        yield from (line_of(job, CardContext()) for job in jobs)
    alone = len(jobs) == 1
    in_full = [job for number, job in enumerate(tried(jobs)) if number >= ERRORS or is_cut(job)]
    for job in in_full:
        errors = worker_errors(job) or {job.worker_id: error_of(job)}
        yield from (f"*{inert(name, LINE)}*\n```{in_code(error, ERROR)}```" for name, error in errors.items())
    for job in jobs:
        details: Mapping[str, Any] = job.outcome.details if job.outcome and job.outcome.success else {}
        notes = [_line(note) for note in details.get("notes") or ()]
        lines = [*_changes(details, alone=alone), *notes[NOTES if alone else 0 :]]
        if (path := details.get("report_path")) and len(jobs) > REPORTS:
            lines.append(f"Report: {in_span(str(path), LINE)}")
        text = "" if alone else output_of(job)[0]
        lines += [f"```{in_code(text, ERROR)}```"] if text else []
        if lines and not alone:
            message = str(details.get("message") or "")
            yield f"*{inert(job.worker_id, LINE)}*{f': {_line(message)}' if message else ''}"
        yield from lines


def _changes(details: Mapping[str, Any], *, alone: bool) -> Iterator[str]:
    """Commits and files. A card of several workers shows none of them."""
    commits, files = list(details.get("commits") or ()), list(details.get("files") or ())
    number, total = sizes(details)
    page = details.get("commit_page")
    if number > (COMMITS if alone else 0):
        way = in_code(f"{short(str(details.get('before')))}..{short(str(details.get('after')))}", LINE)
        yield f"*{count(number, 'commit')}*"
        yield from commit_lines(commits, number, LISTED_COMMITS, page, f": `git log {way}`")
    if dropped := list(details.get("dropped") or ()):
        yield f"*Dropped {count(len(dropped), 'local commit')}* (kept as backup refs under `refs/supervisor/`)"
        yield from commit_lines(dropped[:LISTED_COMMITS], len(dropped), LISTED_COMMITS, page)
    if total > (FILES if alone else 0):
        yield f"*{count(total, 'file')}*"
        yield from map(file_line, files[:LISTED_FILES])
        if total > min(len(files), LISTED_FILES):
            way = in_code(f"{short(str(details.get('before')))} {short(str(details.get('after')))}", LINE)
            yield f"• … and {total - min(len(files), LISTED_FILES)} more: `git diff --stat {way}`"


def _line(text: object) -> str:
    return inert(str(text or ""), LINE)


def _rest_of(jobs: Sequence[Job]) -> str:
    if not jobs:
        return ""
    first = jobs[0]
    worker = f" --worker {first.worker_id}" if len(jobs) == 1 else ""
    asked = f"`supervisor audit --command {first.command}{worker} --json` on {escape(first.supervisor_id)}"
    return f"{asked}, command id `{escape(first.task_id)}`"


def _packed(head: str, lines: Sequence[str], rest: str) -> Content:
    """A message of these lines: as many as it holds, and where the others are."""
    pieces = [fit(head, PIECE)]
    left = list(lines)
    while left:
        line = fit(left[0], PIECE)
        if len(pieces[-1]) + len(line) < PIECE:
            pieces[-1] += f"\n{line}"
        elif len(pieces) < PIECES:
            pieces.append(line)
        else:
            break
        left.pop(0)
    words = f"{count(len(left), 'more line')}. To see all of them: {rest}." if left else ""
    blocks = [section(piece) for piece in pieces]
    text = "\n".join(pieces)
    return {
        "text": fit(text, LONGEST - len(words) - 1) + (f"\n{words}" if words else ""),
        "blocks": [*blocks, context(words)] if words else blocks,
    }
