"""The history of a checkout, read with GitPython: commits, their differences, and missing commits of branches.

`changes` has the operations that change a checkout.
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
    """The top folder of the checkout of a folder, with links resolved; the folder itself if it isn't in one.

    It searches as git does, without starting git, because it runs before every start and stop of a worker.
    """
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def resolve_commit(git: Git, name: str) -> str:
    """The full hash of the commit with this name; empty without one."""
    words = ("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        return str(commands.rev_parse(*words, kill_after_timeout=GIT_SECONDS))
    return ""


def tree_of(git: Git, commit: str) -> str:
    """The hash of a commit's tree: two commits with the same one have the same files."""
    with _commands(git) as commands:
        return str(commands.rev_parse("--verify", "--end-of-options", f"{commit}^{{tree}}"))


def commits(git: Git, *which: str, most: int, first_parents: bool = False) -> list[Commit]:
    """The newest commits of a range, newest first, up to a limit, along first parents."""
    order = "--first-parent" if first_parents else "--topo-order"
    with _commands(git) as commands:
        output = commands.log(
            "-z", "--no-show-signature", f"--format={_FORMAT}", f"--max-count={most}", order, *which, "--"
        )
    found = []
    for record in filter(None, output.split("\0")):
        commit, tree, parents, at, author, subject, *body = record.lstrip("\n").split("\n", _HEADER_LINES)
        # Anybody can write any time into a commit, and git leaves out one that it can't read.
        moment = datetime.fromtimestamp(min(int(at), LATEST) if at.isdigit() else 0, UTC)
        author, subject = one_line(author, LONGEST_SUBJECT), one_line(subject, LONGEST_SUBJECT)
        found.append(Commit(commit, tree, tuple(parents.split()), moment, author, subject, "".join(body)))
    return found


def count_commits(git: Git, *which: str) -> int:
    with _commands(git) as commands:
        return int(commands.rev_list(*which, "--", count=True))


def files_between(git: Git, before: str, after: str) -> list[FileChange]:
    """The changes of files between two commits, with renames.

    GitPython's `Diff` objects would lose files whose names have a line break or aren't UTF-8.
    """
    words = ("-r", "-z", "-M", "--raw", "--no-ext-diff", "--no-textconv", before, after, "--")
    with _commands(git) as commands:
        fields = iter(commands.diff_tree(*words).split("\0"))
    return [_file(header, fields) for header in fields if header]


def count_lines(git: Git, before: str, after: str, changes: Sequence[FileChange]) -> list[FileChange]:
    """The changes with their added and removed lines, if git counts them in time."""
    words = ("-r", "-z", "-M", "--numstat", "--no-ext-diff", "--no-textconv", before, after, "--")
    counted: dict[str, tuple[str, str]] = {}
    with contextlib.suppress(GitFailedError, GitLateError), _commands(git) as commands:
        fields = iter(commands.diff_tree(*words).split("\0"))
        for record in filter(None, fields):
            added, removed, path = record.split("\t", 2)
            if not path:  # renamed: both names follow
                path = list(islice(fields, 2))[-1]
            counted[path] = (added, removed)
    found = []
    for change in changes:
        added, removed = counted.get(change.path, ("-", "-"))
        known = added.isdigit() and removed.isdigit()  # git writes `-` for a binary file
        found.append(replace(change, added=int(added), removed=int(removed)) if known else change)
    return found


def find_blocking_files(git: Git, paths: Iterable[str]) -> list[str]:
    """The untracked files in the way of files with these paths.

    Ignored files count: git itself would overwrite them silently.
    """
    places = {place for path in paths if (place := _occupied(git.folder, path))}
    found = [
        place for place in sorted(places) if not (git.folder / place).is_dir() or (git.folder / place).is_symlink()
    ]
    folders = sorted(places.difference(found))
    known = set(_listed(git, found, "--cached"))
    return [*(place for place in found if place not in known), *_listed(git, folders, "--others")]


def has_file(git: Git, commit: str, path: str) -> bool:
    """True if a commit has something at this path."""
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        commands.cat_file("-e", f"{commit}:{path}")
        return True
    return False


def common_ancestor(git: Git, one: str, other: str) -> str:
    """The newest common commit; empty without one."""
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        return str(commands.merge_base(one, other))
    return ""


def find_removed_commit(git: Git, upstream: str, head: str) -> str:
    """The newest commit of `head` that the remote's branch once had and has no longer; empty without one.

    Git's reflog has the former commits of the branch, for as long as git keeps it.
    """
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        forked = str(commands.merge_base(upstream, head, fork_point=True))
        return "" if is_ancestor(git, forked, upstream) else forked
    return ""


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    """True if the newer commit contains the older one."""
    with contextlib.suppress(GitFailedError), _commands(git) as commands:
        commands.merge_base(older, newer, is_ancestor=True)
        return True
    return False


def is_shallow(git: Git) -> bool:
    """True if the history is a shallow clone's."""
    with _commands(git) as commands:
        return bool(commands.rev_parse(is_shallow_repository=True, kill_after_timeout=GIT_SECONDS) == "true")


def remotes(git: Git) -> list[str]:
    """The names of this checkout's remotes."""
    with _commands(git) as commands:
        return str(commands.remote(kill_after_timeout=GIT_SECONDS)).split()


def has_submodules(git: Git) -> bool:
    """True if submodules are initialized here, so that they must be updated too."""
    if not (git.folder / ".gitmodules").exists():
        return False
    return bool(git.run("config", "--get-regexp", r"^submodule\..*\.(url|active)$").output.strip())


def _commands(git: Git) -> AbstractContextManager[GitCommands]:
    """Open GitPython's commands, which raise our errors."""
    from supervisor_core.code.git.repository import open_commands

    return open_commands(git)


def _file(header: str, fields: Iterable[str]) -> FileChange:
    """Parse `:100644 100755 1a2b… 3c4d… R087` and the path, or two paths for a rename."""
    _, mode, _, _, kind = header.split(" ")
    rest = iter(fields)
    first = next(rest)
    path, was = (next(rest), first) if kind[0] in "RC" else (first, "")
    return FileChange(kind[0], path, was, submodule=mode == SUBMODULE)


def _occupied(folder: Path, path: str) -> str:
    """The obstacle: the path itself, or a file in the place of one of its folders; empty without one."""
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
    """The files of this kind at or below these paths, queried in batches, since a command line has a limit."""
    found: list[str] = []
    for start in range(0, len(paths), BITE):
        bite = [f":(top,literal){path}" for path in paths[start : start + BITE]]
        found += git.ask("ls-files", "-z", "--full-name", which, "--", *bite, timeout=READING_SECONDS).split("\0")
    return [path for path in found if path]
