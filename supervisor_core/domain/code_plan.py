"""What a command on code would do, worked out before anything is done: shown to people, then carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from supervisor_core.domain.code import Commit, FileChange

LISTED_COMMITS, LISTED_FILES = 50, 200
"""So many are named, in a preview and in an outcome; the others are counted."""


@dataclass(frozen=True, slots=True)
class CodePlan:
    """One command on one checkout."""

    command: str
    """Its name in the catalog."""
    head: Commit
    """What is checked out now."""
    target: str
    """The commit whose state is gone to; of a merge, the one that is merged."""
    commits: tuple[Commit, ...] = ()
    """Those that come in, or are taken back; newest first."""
    commit_count: int = 0
    skipped: tuple[Commit, ...] = ()
    """Those that change nothing, so that there is nothing to take back."""
    kept: tuple[Commit, ...] = ()
    """Commits of this checkout that the remote has not, and that stay in force."""
    dropped: tuple[Commit, ...] = ()
    """Those that go."""
    changes: tuple[str, ...] = ()
    """Files with changes that no commit has, and that go."""
    files: tuple[FileChange, ...] = ()
    on_the_way: tuple[FileChange, ...] = ()
    """Files that come and go between its steps; nothing may lie in their places either."""
    undone_task_id: str = ""
    undone: str = ""
    """What that was: `the rollback`."""
    packages: tuple[Mapping[str, Any], ...] = ()
    """What it had installed, by environment; that goes as well."""
    installs: tuple[str, ...] = ()
    """What is installed into which Python, in words; also where no code is to be brought."""
    notes: tuple[str, ...] = ()
    """What is worth knowing beside all that, a sentence each."""

    @property
    def leaves_code(self) -> bool:
        """Whether the code is already as it would be."""
        return not (self.commits or self.dropped or self.changes or self.undone_task_id)

    @property
    def does_nothing(self) -> bool:
        """Whether nobody needs to be stopped: nothing changes, and nothing is installed."""
        return self.leaves_code and not self.installs

    @property
    def merges(self) -> bool:
        """Whether two lines of history come together: then they may not fit."""
        return bool(self.commits and self.kept)

    @property
    def is_tried(self) -> bool:
        """Whether it may turn out not to fit, so that a trial tells something."""
        return self.merges or bool(self.commits and self.command == "rollback")

    def facts(self) -> dict[str, Any]:
        """What somebody relied on who saw this plan."""
        installs = {"installs": list(self.installs)} if self.installs else {}
        return {"head": self.head.hash, "target": self.target, "changes": sorted(self.changes), **installs}

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "head": self.head.as_json(),
            "target": self.target,
            "commits": as_list(self.commits),
            "commit_count": self.commit_count,
            "skipped": as_list(self.skipped),
            "kept": as_list(self.kept),
            "dropped": as_list(self.dropped),
            "changes": list(self.changes[:LISTED_FILES]),
            "files": [change.as_json() for change in self.files[:LISTED_FILES]],
            "file_count": len(self.files),
            "undone_task_id": self.undone_task_id or None,
            "installs": list(self.installs),
            "notes": list(self.notes),
        }


def as_list(commits: Sequence[Commit]) -> list[dict[str, Any]]:
    """Commits for results, the first of them."""
    return [commit.as_json() for commit in commits[:LISTED_COMMITS]]
