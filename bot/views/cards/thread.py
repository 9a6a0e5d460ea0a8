"""Replies in the thread of a card: the outcome with mentions, and everything that the card has no room for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bot.views.blocks import LONGEST, Content, context, section
from bot.views.cards.approval import ApprovalDetails, title_of, why_of
from bot.views.cards.card import COMMITS, ERRORS, FILES, LINE, NOTES, WORKERS, error_of, is_cut, line_of, seconds_of
from bot.views.cards.card import title_of as outcome_of
from bot.views.cards.preview import IN_A_THREAD, code, previews_as_text
from bot.views.cards.preview import is_cut as preview_is_cut
from bot.views.text import display_name, escape, fit, in_code, mentions
from supervisor_core.code.change_plan import CHANGES, count, short
from supervisor_core.common.text import one_line
from supervisor_core.common.times import format_span
from supervisor_core.intake.approvals.rules import FINAL as DECIDED
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice
from supervisor_core.jobs.model import FINAL, Job, not_begun
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
    if not _is_over(jobs, details):
        return None
    told = mentions(_concerned(jobs, details, asked_here=asked_here), but=by)
    left_out = [] if asked_here else list(_left_out(jobs))
    if not told and not left_out:
        return None
    said = _in_a_sentence(jobs) if jobs else _not_carried_out(details)
    return _packed(f"{told} {said}" if told else f"*{escape(outcome_of(jobs))}*, in full:", left_out, _rest_of(jobs))


def preview_reply(details: ApprovalDetails | None) -> Content | None:
    """All of what a command would do, where its card has room for a part; None once that is decided."""
    approval = details.approval if details else None
    if approval is None or approval.state in DECIDED or not preview_is_cut(approval.previews):
        return None
    texts = previews_as_text(approval.previews, IN_A_THREAD)
    rest = f"`supervisor approvals --json` on {escape(approval.supervisor_id)}"
    return _packed("*All of what it would do:*", [line for text in texts for line in text.split("\n")], rest)


def report_text(job: Job) -> str:
    """A summary of a report, shown above the file."""
    details: Mapping[str, Any] = job.outcome.details if job.outcome else {}
    lines = [f"*{escape(job.worker_id)}*: {escape(job.command)}"]
    tests = details.get("tests")
    if isinstance(tests, Sequence) and not isinstance(tests, str):
        lines += [_test(each) for each in tests if isinstance(each, Mapping)]
    else:
        lines += [f"• {_line(part)}" for part in str(details.get("message") or "").split("; ") if part]
    return fit("\n".join(lines), SUMMARY)


def _test(test: Mapping[str, Any]) -> str:
    sign = ":white_check_mark:" if test.get("passed") else ":x:"
    return f"{sign} {_line(test.get('name'))}: {_line(test.get('message'))}"


def _is_over(jobs: Sequence[Job], details: ApprovalDetails | None) -> bool:
    if jobs:
        return all(job.state in FINAL for job in jobs)
    return details is not None and details.approval.state in DECIDED


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
        yield from (vote.voter for vote in details.votes if not (asked_here and vote.voter.id == requester))


def _in_a_sentence(jobs: Sequence[Job]) -> str:
    took = seconds_of(jobs, jobs[0].filed_at)
    after = f" after {format_span(took)}" if took >= LONG.total_seconds() else ""
    failed = [job for job in jobs if job.outcome and not job.outcome.success and not not_begun(job)]
    why = f": {escape(fit(' '.join(error_of(failed[0]).split()), WHY)).rstrip('.')}" if failed else ""
    return f"{escape(outcome_of(jobs))}{after}{why}."


def _not_carried_out(details: ApprovalDetails | None) -> str:
    if details is None:
        raise ValueError("nothing was asked for")
    approval = details.approval
    reason = f" Why: {why_of(approval)}" if approval.reason else ""
    return f"{title_of(approval)}{_denied_by(approval, details)}.{reason}"


def _denied_by(approval: Approval, details: ApprovalDetails) -> str:
    denied = [display_name(vote.voter) for vote in details.votes if vote.choice is Choice.DENY]
    return f" by {denied[-1]}" if denied and approval.state is ApprovalState.DENIED else ""


def _left_out(jobs: Sequence[Job]) -> Iterator[str]:
    if len(jobs) > WORKERS:
        yield from (line_of(job) for job in jobs)
    alone = len(jobs) == 1
    tried = [job for job in jobs if job.outcome and not job.outcome.success and not not_begun(job)]
    in_full = [job for number, job in enumerate(tried) if number >= ERRORS or is_cut(job)]
    yield from (f"*{escape(job.worker_id)}*\n```{in_code(error_of(job), ERROR)}```" for job in in_full)
    for job in jobs:
        details: Mapping[str, Any] = job.outcome.details if job.outcome and job.outcome.success else {}
        lines = [*_changes(details, alone=alone), *_notes(details, alone=alone), *_report(details, len(jobs))]
        if lines and not alone:
            message = str(details.get("message") or "")
            yield f"*{escape(job.worker_id)}*{f': {_line(message)}' if message else ''}"
        yield from lines


def _changes(details: Mapping[str, Any], *, alone: bool) -> Iterator[str]:
    """Commits and files. A card of several workers shows none of them."""
    commits, files = list(details.get("commits") or ()), list(details.get("files") or ())
    number = max(int(details.get("commit_count") or 0), len(commits))
    total = max(int(details.get("file_count") or 0), len(files))
    if number > (COMMITS if alone else 0):
        yield f"*{count(number, 'commit')}*"
        yield from (_commit(each) for each in commits[:LISTED_COMMITS])
        if number > min(len(commits), LISTED_COMMITS):
            way = in_code(f"{short(str(details.get('before')))}..{short(str(details.get('after')))}", LINE)
            yield f"• … and {number - min(len(commits), LISTED_COMMITS)} more: `git log {way}`"
    if dropped := list(details.get("dropped") or ()):
        yield f"*{count(len(dropped), 'commit')} of this checkout alone*, kept aside under `refs/supervisor/`"
        yield from (_commit(each) for each in dropped[:LISTED_COMMITS])
    if total > (FILES if alone else 0):
        yield f"*{count(total, 'file')}*"
        yield from (_file(each) for each in files[:LISTED_FILES])
        if total > min(len(files), LISTED_FILES):
            way = in_code(f"{short(str(details.get('before')))} {short(str(details.get('after')))}", LINE)
            yield f"• … and {total - min(len(files), LISTED_FILES)} more: `git diff --stat {way}`"


def _commit(commit: Mapping[str, Any]) -> str:
    return f"• {_short(commit.get('hash'))} {_line(commit.get('subject'))}"


def _file(change: Mapping[str, Any]) -> str:
    word = str(change.get("change") or "")
    return f"• {_line(CHANGES.get(word, word))} {code(str(change.get('path') or ''))}"


def _short(commit: object) -> str:
    return code(short(str(commit or "")))


def _line(text: object) -> str:
    return fit(escape(one_line(str(text or ""), LINE)), LINE * 2)


def _notes(details: Mapping[str, Any], *, alone: bool) -> list[str]:
    notes = [_line(note) for note in details.get("notes") or ()]
    return notes[NOTES if alone else 0 :]


def _report(details: Mapping[str, Any], workers: int) -> list[str]:
    path = details.get("report_path")
    return [f"The report: `{in_code(str(path), ERROR)}`"] if path and workers > REPORTS else []


def _rest_of(jobs: Sequence[Job]) -> str:
    if not jobs:
        return ""
    first = jobs[0]
    worker = f" --worker {first.worker_id}" if len(jobs) == 1 else ""
    asked = f"`supervisor audit --command {first.command}{worker} --json` on {escape(first.supervisor_id)}"
    return f"{asked}, by the id `{first.task_id}`"


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
    words = f"Cut here, {count(len(left), 'line')} before the end. All of it: {rest}." if left else ""
    blocks = [section(piece) for piece in pieces]
    text = "\n".join(pieces)
    return {
        "text": fit(text, LONGEST - len(words) - 1) + (f"\n{words}" if words else ""),
        "blocks": [*blocks, context(words)] if words else blocks,
    }
