"""The demo worker's code repository: a real history, made the same everywhere, whose every version runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from supervisor_core.demo.repository import HISTORY, Repository, git_environment, make_repository

ME = ("-c", "user.name=test", "-c", "user.email=test@example.org")


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    return make_repository(tmp_path)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *ME, *words], cwd=folder, env=git_environment(), capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_the_checkout_is_clean_and_its_newest_commits_can_be_reverted_together(made: Repository) -> None:
    assert git(made.checkout, "status", "--porcelain=v2", "--branch").split("\n")[1:] == [
        "# branch.head main",
        "# branch.upstream origin/main",
        "# branch.ab +0 -0",
    ]
    git(made.origin, "fsck", "--strict")
    assert len(git(made.checkout, "log", "--format=%h").splitlines()) == len(HISTORY)
    git(made.checkout, "revert", "--no-edit", "HEAD~3..HEAD")
    assert git(made.checkout, "diff", "HEAD", "origin/main~3") == ""
