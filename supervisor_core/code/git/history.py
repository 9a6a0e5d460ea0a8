"""The history of a checkout, read with GitPython: commits, how two differ, what one branch has and another lacks.

Whatever changes a checkout is in `changes`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.code.change_plan import Commit, FileChange
from supervisor_core.code.git.runner import (
    GIT_SECONDS,
    LONGEST_SUBJECT,
    READING_SECONDS,
    Git,
    GitFailedError,
    GitLateError,
)
from supervisor_core.common.text import one_line

if TYPE_CHECKING:
    from supervisor_core.code.git.repository import GitCommands

BITE = 200  # paths on one command line
SUBMODULE = "160000"  # its mode in a tree
LATEST = 253_402_300_799  # the last second of the year 9999

_FORMAT = "%H%n%T%n%P%n%ct%n%an%n%s%n%b"
_HEADER_LINES = 6


def top_of(folder: Path) -> Path:
    """The topmost folder of the checkout that a folder lies in, without links; the folder itself where it is in none.

    Looked for as git does it, and without git: it is asked before every start and stop of a worker.
    """
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def resolve_commit(git: Git, name: str) -> str:
    """The full hash of the commit that this names; empty where it names none."""
    words = ("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        return str(commands.rev_parse(*words, kill_after_timeout=GIT_SECONDS))
    return ""


def tree_of(git: Git, commit: str) -> str:
    """The hash of all that is in a commit: two with the same one have the same files."""
    with _commands(git) as commands:
        return str(commands.rev_parse("--verify", "--end-of-options", f"{commit}^{{tree}}"))


def commits(git: Git, *which: str, most: int, first_parents: bool = False) -> list[Commit]:
    """The newest commits of a range, newest first, at most so many; along first parents: as the branch went.

    Git itself reads what GitPython can't: repositories with SHA-256 names, shallow clones, odd commits.
    """
    from supervisor_core.code.git.repository import UnreadableCommitError, read_commits

    chosen = [f"--max-count={most}", "--first-parent" if first_parents else "--topo-order", *which, "--"]
    with _commands(git) as commands:
        hashes = commands.rev_list(*chosen).split()
        if not hashes:
            return []
        try:
            return read_commits(git, hashes)
        except UnreadableCommitError:
            said = commands.log("-z", "--no-show-signature", f"--format={_FORMAT}", *chosen)
    return [_commit(record) for record in said.split("\0") if record]


def count_commits(git: Git, *which: str) -> int:
    """How many commits a range has."""
    with _commands(git) as commands:
        return int(commands.rev_list(*which, "--", count=True))


def files_between(git: Git, before: str, after: str) -> list[FileChange]:
    """What becomes of which file on the way from one commit to another, renames recognised.

    GitPython's `Diff` objects would lose files whose names have a line break or are no UTF-8.
    """
    words = ("-r", "-z", "-M", "--raw", "--no-ext-diff", "--no-textconv", before, after, "--")
    with _commands(git) as commands:
        fields = iter(commands.diff_tree(*words).split("\0"))
    return [_file(header, fields) for header in fields if header]


def count_lines(git: Git, before: str, after: str, changes: Sequence[FileChange]) -> list[FileChange]:
    """The same changes with their added and removed lines, as far as git counts them in time."""
    words = ("-r", "-z", "-M", "--numstat", "--no-ext-diff", "--no-textconv", before, after, "--")
    counted: dict[str, tuple[str, str]] = {}
    with contextlib.suppress(GitFailedError, GitLateError), _commands(git) as commands:
        fields = iter(commands.diff_tree(*words).split("\0"))
        for record in filter(None, fields):
            added, removed, path = record.split("\t", 2)
            if not path:  # renamed: both names follow
                path = list(islice(fields, 2))[-1]
            counted[path] = (added, removed)
    return [_counted(change, *counted.get(change.path, ("-", "-"))) for change in changes]


def _counted(change: FileChange, added: str, removed: str) -> FileChange:
    """A change with its lines. Git writes `-` for a binary file."""
    return replace(change, added=int(added), removed=int(removed)) if added.isdigit() and removed.isdigit() else change


def find_blocking_files(git: Git, paths: Iterable[str]) -> list[str]:
    """What git does not know, and lies where files of these paths are to be written.

    Ignored files count: git itself would overwrite them without a word.
    """
    places = {place for path in paths if (place := _occupied(git.folder, path))}
    found = [
        place for place in sorted(places) if not (git.folder / place).is_dir() or (git.folder / place).is_symlink()
    ]
    folders = sorted(places.difference(found))
    known = set(_listed(git, found, "--cached"))
    return [*(place for place in found if place not in known), *_listed(git, folders, "--others")]


def has_file(git: Git, commit: str, path: str) -> bool:
    """Whether a commit has something at this path."""
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        commands.cat_file("-e", f"{commit}:{path}")
        return True
    return False


def common_ancestor(git: Git, one: str, other: str) -> str:
    """The newest commit that both hold; empty where they have nothing in common."""
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        return str(commands.merge_base(one, other))
    return ""


def find_removed_commit(git: Git, upstream: str, head: str) -> str:
    """The newest commit that the remote once had, that `head` still holds, and that the remote has taken out of its
    branch since; empty where it took nothing out. What the remote once had is known for as long as git keeps its log.
    """
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        forked = str(commands.merge_base(upstream, head, fork_point=True))
        return "" if is_ancestor(git, forked, upstream) else forked
    return ""


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    """Whether the newer commit holds the older one."""
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        commands.merge_base(older, newer, is_ancestor=True)
        return True
    return False


def is_shallow(git: Git) -> bool:
    """Whether the history was cut off when it was fetched."""
    with _commands(git) as commands:
        return bool(commands.rev_parse(is_shallow_repository=True, kill_after_timeout=GIT_SECONDS) == "true")


def remotes(git: Git) -> list[str]:
    """The names of the remotes that this checkout has."""
    with _commands(git) as commands:
        return str(commands.remote(kill_after_timeout=GIT_SECONDS)).split()


def has_submodules(git: Git) -> bool:
    """Whether submodules are set up here, so that they must come along."""
    if not (git.folder / ".gitmodules").exists():
        return False
    return bool(git.run("config", "--get-regexp", r"^submodule\..*\.(url|active)$").output.strip())


def _commands(git: Git) -> AbstractContextManager[GitCommands]:
    """Open GitPython's commands, which raise our own errors."""
    from supervisor_core.code.git.repository import open_commands

    return open_commands(git)


def _commit(record: str) -> Commit:
    lines = record.lstrip("\n").split("\n", _HEADER_LINES)
    commit, tree, parents, at, author, subject = lines[:_HEADER_LINES]
    body = lines[_HEADER_LINES] if len(lines) > _HEADER_LINES else ""
    by, what = one_line(author, LONGEST_SUBJECT), one_line(subject, LONGEST_SUBJECT)
    return Commit(commit, tree, tuple(parents.split()), _moment(at), by, what, body)


def _moment(seconds: str) -> datetime:
    """A commit's time. Git says nothing of one that it can't read; anybody may write any."""
    return datetime.fromtimestamp(min(int(seconds), LATEST) if seconds.isdigit() else 0, UTC)


def _file(header: str, fields: Iterable[str]) -> FileChange:
    """`:100644 100755 1a2b… 3c4d… R087`, then the path; two of them where it is renamed."""
    _, mode, _, _, kind = header.split(" ")
    rest = iter(fields)
    first = next(rest)
    path, was = (next(rest), first) if kind[0] in "RC" else (first, "")
    return FileChange(kind[0], path, was, submodule=mode == SUBMODULE)


def _occupied(folder: Path, path: str) -> str:
    """What lies there: the path itself, or a file where a folder of it must be; empty where the way is free."""
    parts = Path(path).parts
    for number in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:number])
        whole = number == len(parts)
        if place.is_symlink() or (place.exists() and (whole or not place.is_dir())):
            return "/".join(parts[:number])
        if not place.exists():
            return ""
    return ""


def _listed(git: Git, paths: Sequence[str], which: str) -> list[str]:
    """The files of this kind at or below these paths; asked in bites, for a command line has an end."""
    found: list[str] = []
    for start in range(0, len(paths), BITE):
        bite = [f":(top,literal){path}" for path in paths[start : start + BITE]]
        found += git.ask("ls-files", "-z", "--full-name", which, "--", *bite, timeout=READING_SECONDS).split("\0")
    return [path for path in found if path]
