"""Generated histories, with everything in them that a rollback may meet: merges, renames, odd names, reverts …"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st

from tests.support.code.commits import (
    AUTHOR,
    LINK,
    PLAIN,
    PROGRAM,
    Entry,
    Files,
    Growing,
    History,
    carry,
    put,
)

FIRST_FILES: Files = {
    "watcher.py": Entry(b"".join(b"line %d\n" % number for number in range(12)), PROGRAM),
    "requirements.txt": Entry(b"# nothing yet\n"),
    "src/deep/util.py": Entry(b"one\ntwo\nthree\nfour\n"),
    "data.bin": Entry(bytes(range(256))),
}

NAMES = (
    "plain.txt",
    "src/more.py",
    "src/deep/er/most.py",
    "with space.txt",
    'double"quote.txt',
    "it's.txt",
    "ümläut/ß.txt",
    "-dash.txt",
    "--hard",
    "HEAD",
    ":(glob)*",
    "back\\slash.txt",
    "line\nbreak.txt",
)
SUBJECTS = ("Tidy up", "Fix `code` & <!channel> *now*", "--no-verify", 'Say "grüße"', "x" * 200, "")
AUTHORS = (AUTHOR, "Jürgen O'Groß <j@example.org>", "@U123 & `co` <co@example.org>")


@dataclass(frozen=True, slots=True)
class Step:
    """One commit: what kind of change, and two numbers that choose among what there is to be changed."""

    kind: str
    which: int = 0
    what: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """Side branches, each begun so many first-parent steps back and with these steps, and their merge.

    `merge` takes what they changed; `ours` changes nothing; with two sides it is an octopus.
    """

    kind: str
    sides: tuple[tuple[int, tuple[Step, ...]], ...]


AnyStep: TypeAlias = Step | Merge


def _one_of(choices: list[str], which: int) -> str | None:
    return choices[which % len(choices)] if choices else None


def _free(files: Files, which: int) -> str:
    """A name that no file has, so an odd one as long as there are any."""
    free = [name for name in NAMES if name not in files and not any(path.startswith(f"{name}/") for path in files)]
    return _one_of(free, which) or f"more/{which}-{len(files)}.txt"


PLAIN_KINDS = (
    *("edit", "add", "delete", "rename", "rename and edit", "binary", "mode", "link"),
    *("file to folder", "folder to file", "empty"),
)


def _change(files: Files, step: Step, number: int) -> None:
    """Change the files as this step does; where there's none of the kind that it needs, add one."""
    free = _free(files, step.which)
    path = _one_of(list(files), step.which)
    text = _one_of([name for name, file in files.items() if file.text], step.which)
    match step.kind:
        case "edit" if text:
            lines = files[text].content.splitlines(keepends=True) or [b""]
            lines[step.what % len(lines)] = b"edited in %d\n" % number
            put(files, text, Entry(b"".join(lines), files[text].mode))
        case "delete" if path:
            put(files, path, None)
        case "rename" if path:
            new = _free(files, step.what)
            put(files, new, files.pop(path))
        case "rename and edit" if text:
            new, old = _free(files, step.what), files.pop(text)
            put(files, new, Entry(old.content + b"renamed in %d\n" % number, old.mode))
        case "binary":
            old_one = _one_of([name for name in files if b"\0" in files[name].content], step.which)
            binary = old_one if old_one and step.what % 2 else free
            put(files, binary, Entry(b"\0\xff\r\n%d" % number + bytes(reversed(range(256)))))
        case "mode" if name := _one_of([path for path, file in files.items() if file.mode != LINK], step.which):
            put(files, name, Entry(files[name].content, PLAIN if files[name].mode == PROGRAM else PROGRAM))
        case "link":  # to a file, a folder, nowhere or outside; sometimes where a file was
            targets = ["watcher.py", "src", f"nowhere-{number}", "../outside", "/"]
            link = Entry(targets[step.what // 2 % len(targets)].encode(), LINK)
            put(files, path if path and step.what % 2 and files[path] != link else free, link)
        case "file to folder":
            put(files, f"{path or 'folder'}/inner file.txt", Entry(b"in a folder since %d\n" % number))
        case "folder to file":
            folders = {"/".join(name.split("/")[:depth]) for name in files for depth in range(1, name.count("/") + 1)}
            put(files, _one_of(sorted(folders), step.which) or free, Entry(b"a file since %d\n" % number))
        case "empty":
            pass
        case _:
            put(files, free, Entry(b"new in %d\nand a second line\n" % number))


REVERT = "revert"


class _Grower(Growing):
    """Follows steps. Each commit of the line but `empty`, `ours` and a revert or merge of nothing changes its files."""

    def __init__(self) -> None:
        super().__init__()
        self.line = [self.add("first", [], FIRST_FILES, "Begin\n")]

    def follow(self, step: AnyStep) -> None:
        """One more commit on the line."""
        tip = self.line[-1]
        if isinstance(step, Merge):
            self.line.append(self._merge(tip, step))
        elif step.kind == REVERT and len(self.line) > 1:
            self.line.append(self._revert(tip, self.line[1 + step.which % (len(self.line) - 1)]))
        else:
            self.line.append(self._plain(tip, step))

    def _plain(self, tip: int, step: Step) -> int:
        files = dict(self.commits[tip].files)
        number = len(self.commits)
        _change(files, step, number)
        subject = SUBJECTS[(step.which + step.what) % len(SUBJECTS)]
        author = AUTHORS[step.which % len(AUTHORS)]
        return self.add(step.kind, [tip], files, f"{subject} ({step.kind}, {number})\n" if subject else "", author)

    def _revert(self, tip: int, number: int) -> int:
        taken_back = self.commits[number]
        before = self.commits[taken_back.parents[0]]
        files = carry(dict(self.commits[tip].files), taken_back.files, before.files)
        body = f"This reverts commit {taken_back.hash}."
        return self.add(REVERT, [tip], files, f'Revert "{taken_back.subject}"\n\n{body}\n')

    def _merge(self, tip: int, merge: Merge) -> int:
        files = dict(self.commits[tip].files)
        parents = [tip]
        for back, steps in merge.sides:
            base = side = self.line[max(-1 - back, -len(self.line))]
            for step in steps:
                side = self._plain(side, step)
            parents.append(side)
            if merge.kind != "ours":
                files = carry(files, self.commits[base].files, self.commits[side].files)
        return self.add(merge.kind, parents, files, f"Merge {len(merge.sides)} ({merge.kind})\n")


def grown(*steps: AnyStep) -> History:
    """The history that these steps make, after a first commit with `FIRST_FILES`."""
    grower = _Grower()
    for step in steps:
        grower.follow(step)
    return History(tuple(grower.commits), steps)


NUMBERS = st.integers(0, 40)
PLAIN_STEP = st.builds(Step, st.sampled_from(sorted(PLAIN_KINDS)), NUMBERS, NUMBERS)
SIDE = st.tuples(st.integers(0, 3), st.lists(PLAIN_STEP, min_size=1, max_size=3).map(tuple))
SIDES = st.lists(SIDE, min_size=1, max_size=2).map(tuple)
KINDS = (*sorted(PLAIN_KINDS), REVERT, REVERT, "merge", "merge", "ours")


@st.composite
def any_step(draw: st.DrawFn) -> AnyStep:
    """A commit of the line."""
    kind = draw(st.sampled_from(KINDS))
    return Merge(kind, draw(SIDES)) if kind in ("merge", "ours") else Step(kind, draw(NUMBERS), draw(NUMBERS))


def histories(min_steps: int = 1, max_steps: int = 10) -> st.SearchStrategy[History]:
    """Histories of so many commits on their line, beside the first one."""
    return st.lists(any_step(), min_size=min_steps, max_size=max_steps).map(lambda steps: grown(*steps))
