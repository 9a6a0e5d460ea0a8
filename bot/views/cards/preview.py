"""The preview of a command: a summary with facts for its card, and the whole as text for a thread. Pure.

It is made from the documents that an approval keeps, so that people see what they approve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.views.blocks import Json, context, section
from bot.views.cards.outcome import (
    commit_line,
    commit_lines,
    commit_ref,
    file_line,
    files_text,
    size_text,
    sizes,
)
from bot.views.text import FEW, fit, in_span, inert, named_or_counted, shorten
from supervisor_core.code.change_plan import count, describe_own_reverts
from supervisor_core.common.text import canonical_json, capitalize, sentence
from supervisor_core.intake.approvals.observed_state import does_nothing

Document = Mapping[str, Any]

LINE = 200
"""Characters of a line that somebody else wrote."""

LONG_LINE = 400  # characters of a reason

NAMED = 4  # workers

NOT_ALIKE = frozenset({"checkout", "host", "state", "workers"})
"""The facts that differ between checkouts with the same effect."""

CLEAN, NOTHING_NEW = "Applies cleanly", "No new commits"


@dataclass(frozen=True, slots=True)
class Sizes:
    checkouts: int
    commits: int
    files: int
    workers: int
    text: int
    """Characters of each piece."""


ON_A_CARD = Sizes(checkouts=3, commits=5, files=4, workers=5, text=2000)
IN_A_THREAD = Sizes(checkouts=20, commits=20, files=50, workers=50, text=100_000)

VERBS: Mapping[str, str] = {"rollback": "Reverts", "undo": "Undoes"}
"""A command's effect on its commits. Any other command adds them."""


def preview_facts(previews: Sequence[Document]) -> dict[str, str]:
    code = [each for each in previews if each.get("checkout")]
    facts: dict[str, str] = {}
    if code:
        totals = [sizes(each) for each in code]
        same = len(code) > 1 and len(alike(code)) == 1
        size = size_text(*totals[0]) if same else size_text(*map(sum, zip(*totals, strict=True)))
        facts[_verb(code[0])] = (f"{size} in each of {len(code):,} checkouts" if same and size else size) or NOTHING_NEW
        commits = sum(len(each.get("dropped") or ()) for each in code)
        files = sum(len(each.get("changes") or ()) for each in code)
        drops = [count(commits, "local commit")] if commits else []
        drops += [f"uncommitted changes in {count(files, 'file')}"] if files else []
        facts["Drops"] = f"{', '.join(drops)} (kept as backup refs)" if drops else ""
        files = sum(len(each.get("installs") or ()) for each in code)
        facts["Installs"] = count(files, "requirements file") if files else ""
    if runs := list(dict.fromkeys(str(each["would_run"]) for each in previews if each.get("would_run"))):
        facts["Would run"] = shorten([in_span(each, LONG_LINE) for each in runs], 1)
        facts["Folder"] = shorten([in_span(str(each["folder"]), LINE) for each in previews if each.get("folder")], 1)
    for name, workers in _workers_by_effect(previews).items():
        facts[name] = named_or_counted([inert(worker, LINE) for worker in workers], NAMED)
    if len(code) == 1 and len(_workers_by_effect(code).get("Restarts", ())) > 1:
        facts["Restarts"] += " (same checkout)"
    if any(map(_is_tried, code)):
        failed = any(each.get("conflict") for each in code)
        untried = any(each.get("untried") for each in code)
        facts["Dry run"] = "Fails" if failed else "Couldn't run" if untried else CLEAN
    return {name: value for name, value in facts.items() if value}


def summary(previews: Sequence[Document]) -> str:
    """The same as sentences without markup: `Reverts 2 commits, 5 files. Restarts OrionMX.`"""
    facts = {name: value for name, value in preview_facts(previews).items() if name != "Folder" and value != CLEAN}
    said = [f"{name} {value}".replace("Dry run ", "Dry run: ").replace("`", "") for name, value in facts.items()]
    return " ".join(f"{each}." for each in said if NOTHING_NEW not in each) or "Nothing changes."


def preview_blocks(previews: Sequence[Document]) -> list[Json]:
    code = [each for each in previews if each.get("checkout")]
    problems = [line for each in previews for line in _problems(each)]
    problems += [
        f":hourglass: {inert(str(worker['id']), LINE)}: {inert(str(worker['busy']), LINE)}"
        for each in previews
        for worker in each["workers"]
        if worker.get("busy")
    ]
    problems += [
        f":warning: {describe_own_reverts(len(each['own_reverts']))}" for each in code if each.get("own_reverts")
    ]
    blocks = [section("\n".join(problems[: ON_A_CARD.workers]))] if problems else []
    alone, groups = len(code) == 1, alike(code)
    for group in groups[: ON_A_CARD.checkouts]:
        each = group[0]
        lines = [] if alone else [f"{_name_of(group, code)}: {size_text(*sizes(each)) or 'unchanged'}"]
        most = ON_A_CARD.commits if len(groups) == 1 else 2
        number, _ = sizes(each)
        lines += commit_lines(each.get("commits") or (), number, most, each.get("commit_page"))
        if lines:
            blocks.append(section(fit("\n".join(lines), ON_A_CARD.text)))
    if left := sum(map(len, groups[ON_A_CARD.checkouts :])):
        blocks.append(context(f"… and {count(left, 'more checkout')}"))
    if alone:
        blocks.append(context(_place(code[0])))
    return blocks


def alike(code: Sequence[Document]) -> list[list[Document]]:
    """The checkouts with the same effect together, the most first; those with a problem before all others."""
    found: dict[str, list[Document]] = {}
    for each in code:
        workers = sorted((_worker_effect(str(each["command"]), one), str(one.get("rests"))) for one in each["workers"])
        seen = {name: value for name, value in each.items() if name not in NOT_ALIKE}
        found.setdefault(canonical_json({**seen, "workers": workers}), []).append(each)
    return sorted(found.values(), key=lambda group: (not any(_problems(group[0])), -len(group)))


def _name_of(group: Sequence[Document], code: Sequence[Document] = ()) -> str:
    if len(group) == 1:
        return f"*{in_span(str(group[0]['checkout']), LINE)}*"
    workers = [inert(str(worker["id"]), LINE) for each in group for worker in each["workers"]]
    if len(group) == len(code) and len(workers) > FEW:
        return f"*All {len(group):,} checkouts are the same*"
    return f"*{len(group):,} checkouts, all the same* ({shorten(workers, NAMED)})"


def _place(preview: Document) -> str:
    place = f"{in_span(str(preview['checkout']), LINE)}, branch {in_span(str(preview['branch']), LINE)}"
    head = preview.get("head") or {}
    at = f" at {commit_ref(head.get('hash'), preview.get('commit_page'))}" if head else ""
    files = files_text(preview.get("files") or (), sizes(preview)[1], ON_A_CARD.files)
    return " · ".join(filter(None, [f"{place}{at}", files]))


def is_cut(previews: Sequence[Document]) -> bool:
    code = [each for each in previews if each.get("checkout")]
    if len(code) > 1 or any(len(each["workers"]) > NAMED for each in previews):
        return True
    hidden = ("skipped", "kept", "dropped", "changes", "notes", "installs")
    return any(
        any(each.get(name) for name in hidden) or sizes(each)[0] > ON_A_CARD.commits or sizes(each)[1] > ON_A_CARD.files
        for each in code
    )


def _verb(preview: Document) -> str:
    return VERBS.get(str(preview["command"]), "Adds")


def _workers_by_effect(previews: Sequence[Document]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"Restarts": [], "Stops": [], "Starts": [], "Not started": []}
    for preview in previews:
        if does_nothing(preview) or preview.get("would_run"):
            continue
        for worker in preview["workers"]:
            found[_worker_effect(str(preview["command"]), worker)].append(str(worker["id"]))
    return {name: workers for name, workers in found.items() if workers}


def _worker_effect(command: str, worker: Document) -> str:
    """A restart by a person starts a paused worker as well."""
    if command == "pause":
        return "Stops"
    rests = worker.get("rests") and not (worker.get("paused") and command in ("restart", "resume"))
    if worker.get("pid"):
        return "Stops" if rests else "Restarts"
    return "Not started" if rests else "Starts"


def _problems(preview: Document) -> Iterator[str]:
    for name, words in (("refused", "*Can't run now*: "), ("conflict", "*Would fail*: "), ("untried", "")):
        if preview.get(name):
            yield f":warning: {words}{sentence(capitalize(inert(str(preview[name]), LONG_LINE)))}"


def _is_tried(preview: Document) -> bool:
    may_not_fit = preview["command"] == "rollback" or bool(preview.get("kept"))
    return bool(preview.get("commit_count") and may_not_fit and not preview.get("refused"))


def previews_as_text(previews: Sequence[Document], shown: Sizes = ON_A_CARD) -> list[str]:
    """One text for each checkout, or one for all workers where no code is changed; those cut away are counted."""
    code = [each for each in previews if each.get("checkout")]
    groups = alike(code)
    texts = [fit("\n".join(_of_checkouts(group, shown)), shown.text) for group in groups[: shown.checkouts]]
    if left := sum(map(len, groups[shown.checkouts :])):
        texts.append(f"… and {count(left, 'more checkout')}")
    rest = [each for each in previews if not each.get("checkout")]
    lines = [line for each in rest for line in _effects(each)]
    workers = [*lines[: shown.workers], *_more(len(lines), shown.workers, "worker")]
    return [*texts, fit("\n".join(workers), shown.text)] if workers else texts


def _of_checkouts(group: Sequence[Document], shown: Sizes) -> Iterator[str]:
    preview = group[0]
    page = preview.get("commit_page")
    yield f"{_name_of(group)}, branch {in_span(str(preview['branch']), LINE)}"
    if head := preview.get("head"):
        yield f"Now at {commit_line(head, page).removeprefix('• ')}"
    yield from _problems(preview)
    yield from _changes(preview, shown, page)
    if _is_tried(preview) and preview.get("ok") and not preview.get("untried"):
        yield "Dry run: applies cleanly."
    if does_nothing(preview):
        yield "Nothing to do. No worker is stopped."
    else:
        lines = [line for each in group for line in _workers(str(each["command"]), each["workers"])]
        yield from [*lines[: shown.workers], *_more(len(lines), shown.workers, "worker")]


_OTHER_COMMITS = (
    ("skipped", "commit", "Skips {} without changes"),
    ("kept", "local commit", "Keeps {}"),
    ("dropped", "local commit", "Drops {} (kept as a backup ref)"),
)


def _changes(preview: Document, shown: Sizes, page: object) -> Iterator[str]:
    number, files = sizes(preview)
    for commits, total, title in (
        (preview.get("commits") or (), number, f"{_verb(preview)} {count(number, 'commit')}"),
        *(
            (found := preview.get(name) or (), len(found), title.format(count(len(found), noun)))
            for name, noun, title in _OTHER_COMMITS
        ),
    ):
        if total:
            yield f"*{title}*"
            yield from commit_lines(commits, total, shown.commits, page)
    changed = [str(path) for path in preview.get("changes") or ()]
    if changed:
        yield f"*Discards uncommitted changes in {count(len(changed), 'file')}* (kept as a backup ref)"
        yield from (f"• {in_span(path, LINE)}" for path in changed[: shown.files])
        yield from _more(len(changed), shown.files, "file")
    if files:
        yield f"*Changes {count(files, 'file')}*"
        listed = (preview.get("files") or ())[: shown.files]
        yield from map(file_line, listed)
        yield from _more(files, len(listed), "file")
    if installs := preview.get("installs"):
        yield f"*Installs {count(len(installs), 'requirements file')}*"
        yield from (f"• {inert(str(each), LINE)}" for each in installs)
    for note in preview.get("notes") or ():
        yield sentence(inert(str(note), LONG_LINE))  # a note may begin with a commit or a file


def _effects(preview: Document) -> Iterator[str]:
    if not preview.get("would_run"):
        yield from _problems(preview)
        yield from _workers(str(preview["command"]), preview["workers"]) if preview.get("ok") else ()
        return
    names = ", ".join(inert(str(worker["id"]), LINE) for worker in preview["workers"])
    yield f"Would run for {names}: {in_span(str(preview['would_run']), LONG_LINE)}"


def _workers(command: str, workers: Sequence[Document]) -> Iterator[str]:
    for worker in workers:
        runs = f"running (pid {worker['pid']})" if worker.get("pid") else "not running"
        verb = _worker_effect(command, worker)
        why = (
            f" ({inert(str(worker['rests']), LINE)})"
            if worker.get("rests") and verb in ("Stops", "Not started")
            else ""
        )
        busy = f"; {inert(str(worker['busy']), LINE)}" if worker.get("busy") else ""
        name = inert(str(worker["id"]), LINE)
        yield f"{name}: not started{why}{busy}" if verb == "Not started" else f"{verb} {name}{why}, {runs}{busy}"


def _more(total: int, most: int, noun: str) -> list[str]:
    return [f"… and {count(total - most, f'more {noun}')}"] if total > most else []
