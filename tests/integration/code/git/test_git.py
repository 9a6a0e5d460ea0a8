"""The door to git, with real repositories: how a checkout stands, and that a look at it runs and changes nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from supervisor_core.code.git import Git, GitError, NoCheckoutError, git_environment
from supervisor_core.demo.repository import Repository, make_repository

ME = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@example.org"}
ME |= {"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@example.org"}


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    return make_repository(tmp_path)


def git(folder: Path, *words: str, check: bool = True) -> str:
    env = {**git_environment(os.environ), **ME}
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


def test_a_checkout_as_it_was_cloned_is_clean_and_level_with_its_remote(made: Repository) -> None:
    state = Git(made.checkout).state()
    assert (state.dirty, state.under_way, state.branch, state.top) == (False, "", "main", made.checkout)
    assert state.head == git(made.checkout, "rev-parse", "HEAD")
    assert Git(made.checkout).distance("origin", "main") == (0, 0)


def test_changes_and_files_that_git_does_not_know_are_named(made: Repository) -> None:
    (made.checkout / "watcher.py").write_text("changed")
    (made.checkout / "watcher.yaml").unlink()
    (made.checkout / "with space ü\nand line").write_text("")
    git(made.checkout, "mv", "requirements.txt", "moved.txt")
    state = Git(made.checkout).state()
    assert set(state.changes) == {"watcher.py", "watcher.yaml", "requirements.txt", "moved.txt"}
    assert state.untracked == ("with space ü\nand line",)
    assert state.dirty


def test_ahead_and_behind_are_by_what_was_last_fetched(made: Repository) -> None:
    git(made.checkout, "reset", "--quiet", "--hard", "HEAD~2")
    git(made.checkout, "commit", "--quiet", "--allow-empty", "-m", "own")
    assert Git(made.checkout).distance("origin", "main") == (1, 2)
    assert Git(made.checkout).distance("origin", "never-fetched") == (None, None)


def test_no_branch_and_no_commit_are_no_errors(made: Repository, tmp_path: Path) -> None:
    git(made.checkout, "checkout", "--quiet", "--detach")
    assert Git(made.checkout).state().branch == ""
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet", "--initial-branch=main")
    state = Git(tmp_path / "empty").state()
    assert (state.head, state.branch, state.dirty) == ("", "main", False)
    assert Git(tmp_path / "empty").distance("origin", "main") == (None, None)


def test_a_revert_that_was_not_ended_is_seen(made: Repository) -> None:
    (made.checkout / "watcher.py").write_text("wholly different")
    git(made.checkout, "commit", "--quiet", "--all", "-m", "different")
    git(made.checkout, "revert", "--no-edit", "HEAD~1", check=False)
    git(made.checkout, "revert", "--no-commit", "HEAD", check=False)
    state = Git(made.checkout).state()
    assert (state.under_way, state.dirty) == ("revert", True)


def test_a_folder_that_is_no_checkout_or_not_there_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NoCheckoutError, match="isn't a git checkout"):
            Git(folder).state()


def test_a_checkout_below_another_repository_tells_whose_it_is(made: Repository) -> None:
    (made.checkout / "inner").mkdir()
    assert Git(made.checkout / "inner").state().top == made.checkout


def test_nothing_that_the_checkout_brings_along_is_run_and_nothing_is_written(made: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "core.sshCommand", "pager.status"):
        git(made.checkout, "config", setting, str(script))
    index = made.checkout / ".git" / "index"
    (made.checkout / "watcher.py").touch()  # which makes an ordinary status write the index anew
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    Git(made.checkout).state()
    assert not ran.exists()
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_a_git_that_hangs_is_given_up(made: Repository, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "git"
    slow.write_text("#!/bin/sh\nexec sleep 99\n")
    slow.chmod(0o755)
    environ = {**os.environ, "PATH": f"{slow.parent}{os.pathsep}{os.environ['PATH']}"}
    with pytest.raises(GitError, match=r"timed out after 0\.5 s"):
        Git(made.checkout, environ).state(0.5)
