"""Git's locks: those that were left behind are seen before anybody is stopped, and those in use are waited for."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor_core.code import git_changes as git_changing
from supervisor_core.code.git import Git, GitError
from supervisor_core.code.git_changes import fetch
from tests.support.code.repositories import Clones, origin_and_checkout


@pytest.fixture
def made(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock", "refs/heads/main.lock", "packed-refs.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_each_lock_that_would_stop_a_change_is_seen(made: Clones, name: str) -> None:
    lock = made.checkout.folder / ".git" / name
    assert Git(made.checkout.folder).state().lock is None
    lock.touch()
    assert Git(made.checkout.folder).state().lock == lock
    below = made.checkout.folder / "src"
    assert Git(below).state().lock == lock


@pytest.mark.parametrize("name", ["refs/heads/side/way.lock", "packed-refs.lock"])
def test_a_lock_on_the_branch_of_a_worktree_lies_where_all_worktrees_have_their_branches(
    made: Clones, tmp_path: Path, name: str
) -> None:
    made.checkout.git("worktree", "add", "--quiet", "-b", "side/way", str(tmp_path / "beside"))
    lock = made.checkout.folder / ".git" / name
    lock.touch()
    assert Git(tmp_path / "beside").state().lock == lock


def test_a_lock_on_another_branch_stops_nobody(made: Clones) -> None:
    (made.checkout.folder / ".git" / "refs" / "heads" / "other.lock").touch()
    assert Git(made.checkout.folder).state().lock is None


class Releases(logging.Handler):
    """Takes a lock away as soon as git was seen to fail because of it."""

    def __init__(self, lock: Path) -> None:
        super().__init__(logging.WARNING)
        self._lock = lock

    def emit(self, record: logging.LogRecord) -> None:
        self._lock.unlink(missing_ok=True)


@pytest.fixture
def lock(made: Clones) -> Path:
    """One on what a fetch writes."""
    lock = made.checkout.folder / ".git" / "refs" / "remotes" / "origin" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    return lock


def test_a_fetch_waits_for_another_one_that_is_at_work(made: Clones, lock: Path) -> None:
    newest, releases = made.comes_in({"new.txt": "new\n"}), Releases(lock)
    git_changing.log.addHandler(releases)
    try:
        assert fetch(Git(made.checkout.folder), "origin", "main") == newest
    finally:
        git_changing.log.removeHandler(releases)


def test_many_fetches_at_once_all_learn_what_is_new(made: Clones) -> None:
    newest = made.comes_in({"new.txt": "new\n"})
    with ThreadPoolExecutor(6) as pool:
        learned = [pool.submit(fetch, Git(made.checkout.folder), "origin", "main") for _ in range(6)]
    assert {one.result() for one in learned} == {newest}


def test_a_lock_that_stays_is_named_and_the_remote_is_not_blamed(
    made: Clones, lock: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(git_changing, "LOCK_WAITS", (0.0, 0.0))
    made.comes_in({"new.txt": "new\n"})
    with pytest.raises(GitError, match="delete that file") as caught:
        fetch(Git(made.checkout.folder), "origin", "main")
    assert f"was killed: {lock} exists" in caught.value.message
    assert caplog.text.count("git fetch in") == 3


def test_a_ref_that_is_in_the_way_is_said_at_once_and_the_remote_is_not_blamed(
    made: Clones, caplog: pytest.LogCaptureFixture
) -> None:
    made.checkout.git("update-ref", "-d", "refs/remotes/origin/main")
    made.checkout.git("update-ref", "refs/remotes/origin/main/below", "HEAD")
    with pytest.raises(GitError, match=r"can't be updated in .* Git says: .*cannot lock ref"):
        fetch(Git(made.checkout.folder), "origin", "main")
    assert caplog.text.count("git fetch in") == 1
