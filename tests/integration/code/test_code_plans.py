"""What a plan reads of a history: what it needs, and no more of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor_core.code.git.runner import Git
from supervisor_core.code.planning import _commit, _notes
from tests.support.code.repositories import Clones, origin_and_checkout

LOST = "1" * 40
"""A commit that is not there: who walks as far as that fails."""


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """A checkout whose history ends in the middle, because the grandparent of its head is lost."""
    made: Clones = origin_and_checkout(tmp_path / "code")
    for parent in (LOST, "HEAD"):
        _on_top_of(made, parent)
    return Git(made.checkout.folder)


def _on_top_of(made: Clones, parent: str) -> None:
    hashed = parent if parent == LOST else made.checkout.head
    text = made.checkout.git("cat-file", "commit", made.origin.head)
    rest = [line for line in text.split("\n") if not line.startswith(("parent ", "tree "))]
    lines = [f"tree {made.origin.tree()}", f"parent {hashed}", *rest]
    new = made.checkout.git("hash-object", "-t", "commit", "-w", "--stdin", given="\n".join(lines).encode())
    made.checkout.git("update-ref", "refs/heads/main", new)


def test_one_commit_is_read_without_the_history_before_it(git: Git) -> None:
    assert _commit(git, "HEAD").hash == git.ask("rev-parse", "HEAD").strip()


def test_what_a_revert_took_back_is_told_without_the_history_before_it(git: Git) -> None:
    head = _commit(git, "HEAD")
    revert = replace(head, body=f"This reverts commit {head.hash}.")
    (note,) = _notes(git, [revert])
    assert f"is a revert of {head}" in note
