"""Git's locks: those that were left behind are seen before anybody is stopped, and those in use are waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.adapters.git import Git
from tests.support.repositories import Clones, origin_and_checkout


@pytest.fixture
def made(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock", "refs/heads/main.lock", "packed-refs.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_each_lock_that_would_stop_a_change_is_seen(made: Clones, name: str) -> None:
    lock = made.checkout.folder / ".git" / name
    assert Git(made.checkout.folder).state("origin", "main").lock is None
    lock.touch()
    assert Git(made.checkout.folder).state("origin", "main").lock == lock
    below = made.checkout.folder / "src"
    assert Git(below).state("origin", "main").lock == lock


@pytest.mark.parametrize("name", ["refs/heads/side/way.lock", "packed-refs.lock"])
def test_a_lock_on_the_branch_of_a_worktree_lies_where_all_worktrees_have_their_branches(
    made: Clones, tmp_path: Path, name: str
) -> None:
    made.checkout.git("worktree", "add", "--quiet", "-b", "side/way", str(tmp_path / "beside"))
    lock = made.checkout.folder / ".git" / name
    lock.touch()
    assert Git(tmp_path / "beside").state("origin", "side/way").lock == lock


def test_a_lock_on_another_branch_stops_nobody(made: Clones) -> None:
    (made.checkout.folder / ".git" / "refs" / "heads" / "other.lock").touch()
    assert Git(made.checkout.folder).state("origin", "main").lock is None
