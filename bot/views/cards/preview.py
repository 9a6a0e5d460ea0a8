"""The preview of a command on code, a text for each checkout. Pure.

It is made from the documents that an approval keeps, so that people see what they approve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.views.text import CUT, escape, fit
from supervisor_core.code.change_plan import count, short
from supervisor_core.common.text import one_line, sentence
from supervisor_core.intake.approvals.observed_state import does_nothing

Document = Mapping[str, Any]

LINE = 200
"""Characters of a line: a subject or a path that somebody else wrote."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of items of each kind that are shown before the rest is counted."""

    checkouts: int
    commits: int
    files: int
    workers: int
    text: int
    """Characters of each piece; below a card's previews there is still room for all else that it says."""


ON_A_CARD = Sizes(checkouts=3, commits=5, files=6, workers=5, text=2000)
IN_A_THREAD = Sizes(checkouts=20, commits=20, files=50, workers=50, text=100_000)

_BECOMES: Mapping[str, tuple[str, str]] = {
    "rollback": ("is taken back", "are taken back, newest first"),
    "undo": ("goes with it", "go with it"),
}


def previews_as_text(previews: Sequence[Document], sizes: Sizes = ON_A_CARD) -> list[str]:
    """One text for each checkout, or one for all workers where no code is changed; those cut away are counted."""
    code = [each for each in previews if each.get("checkout")]
    texts = [fit("\n".join(_of_checkout(each, sizes)), sizes.text) for each in code[: sizes.checkouts]]
    if len(code) > sizes.checkouts:
        texts.append(f"… and {count(len(code) - sizes.checkouts, 'checkout')} more")
    workers = [worker for each in previews if not each.get("checkout") for worker in each["workers"]]
    return [*texts, fit("\n".join(_workers(workers, sizes)), sizes.text)] if workers else texts


def is_cut(previews: Sequence[Document]) -> bool:
    """True where the card has no room for all of them."""
    on_a_card = previews_as_text(previews, ON_A_CARD)
    return on_a_card != previews_as_text(previews, IN_A_THREAD) or any(text.endswith(CUT) for text in on_a_card)


def _of_checkout(preview: Document, sizes: Sizes) -> Iterator[str]:
    head = preview.get("head") or {}
    at = f", now at {_commit(head)}" if head else ""
    yield f"*In* {code(str(preview['checkout']))} (branch {code(str(preview['branch']))}){at}"
    if preview.get("refused"):
        yield f":warning: Refused as things are: {_sentence(preview['refused'])}"
    yield from _changes(preview, sizes)
    if preview.get("conflict"):
        yield f":warning: It would fail: {_sentence(preview['conflict'])}"
    if preview.get("untried"):
        yield f":warning: {_sentence(preview['untried'])}"
    elif _is_tried(preview):
        yield "Tried in a worktree of its own: it goes through."
    yield from _workers(preview["workers"], sizes, rest=does_nothing(preview))


def _changes(preview: Document, sizes: Sizes) -> Iterator[str]:
    one, many = _BECOMES.get(str(preview["command"]), ("comes in", "come in"))
    number = int(preview.get("commit_count") or 0)
    yield from _commits(preview.get("commits"), number, f"commit {one}", f"commits {many}", sizes)
    for name, single, several in (
        ("skipped", "commit changes no file, and is skipped", "commits change no file, and are skipped"),
        ("kept", "commit of this checkout alone stays in force", "commits of this checkout alone stay in force"),
        (
            "dropped",
            "commit of this checkout alone *goes*, kept aside",
            "commits of this checkout alone *go*, kept aside",
        ),
    ):
        found = preview.get(name) or ()
        yield from _commits(found, len(found), single, several, sizes)
    changed = [str(path) for path in preview.get("changes") or ()]
    if changed:
        yield f"*{count(len(changed), 'file')} with changes that no commit has: they go*, kept aside"
        yield from _listed([code(path) for path in changed[: sizes.files]], len(changed))
    files = preview.get("files") or ()
    number = int(preview.get("file_count") or 0)
    if number:
        yield f"*{count(number, 'file')}* would change"
        yield from _listed([_file(each) for each in files[: sizes.files]], number)
    for words in preview.get("installs") or ():
        yield f"*Installs* what is required: {_said(words)}"
    if not preview.get("refused") and not (number or changed or preview.get("commit_count") or preview.get("dropped")):
        yield "No commit comes in." if preview.get("installs") else "Nothing to do for the code: it is so already."
    for note in preview.get("notes") or ():
        yield _sentence(note)


def _is_tried(preview: Document) -> bool:
    may_not_fit = preview["command"] == "rollback" or bool(preview.get("kept"))
    return bool(preview.get("ok") and preview.get("commit_count") and may_not_fit)


def _commits(commits: Sequence[Document] | None, number: int, one: str, many: str, sizes: Sizes) -> Iterator[str]:
    if number:
        yield f"*{number}* {one if number == 1 else many}"
        yield from _listed([_commit(each) for each in (commits or ())[: sizes.commits]], number)


def _workers(workers: Sequence[Document], sizes: Sizes, *, rest: bool = False) -> Iterator[str]:
    """`rest`: nobody is stopped or started."""
    for worker in workers[: sizes.workers]:
        runs = f"runs as pid {worker['pid']}" if worker.get("pid") else "does not run"
        busy = f"; :hourglass: {_said(worker['busy'])}" if worker.get("busy") else ""
        if rest:
            after = "; it is left as it is"
        elif worker.get("rests"):
            after = f"; not started afterwards: {_said(worker['rests'])}"
        else:
            after = "; it is stopped, and started again" if worker.get("pid") else "; it is started"
        yield f"*{escape(one_line(str(worker['id']), LINE))}* {runs}{after}{busy}"
    if len(workers) > sizes.workers:
        yield f"… and {count(len(workers) - sizes.workers, 'worker')} more"


def _listed(lines: Sequence[str], number: int) -> Iterator[str]:
    yield from (f"• {line}" for line in lines)
    if number > len(lines):
        yield f"• … and {number - len(lines)} more"


def _commit(commit: Document) -> str:
    author = f" ({_said(commit['author'])})" if commit.get("author") else ""
    merge = ", a merge" if commit.get("merge") else ""
    return f"`{short(str(commit.get('hash') or ''))}` {_said(commit.get('subject') or '')}{author}{merge}"


def _file(change: Document) -> str:
    was = f", was {code(str(change['was']))}" if change.get("was") else ""
    return f"{change.get('change')} {code(str(change['path']))}{was}"


def _said(text: object) -> str:
    """Data in a line of text: it can neither mention anybody nor end the line."""
    return fit(escape(one_line(str(text), LINE)), LINE * 2).rstrip(".")


def _sentence(text: object) -> str:
    """Data that stands on a line of its own."""
    return sentence(_said(text))


def code(text: str) -> str:
    """Data as a piece of code."""
    return f"`{fit(escape(one_line(text, LINE).replace('`', chr(39))), LINE * 2)}`"
