"""Which commit is checked out, read from git's files, says what git itself says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from supervisor_core.code.git import head_of


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")
    ran = subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    commit(folder, "one")
    return folder


def commit(folder: Path, words: str) -> None:
    git(folder, "commit", "--quiet", "--allow-empty", "-m", words)


def says_the_same(folder: Path) -> bool:
    return head_of(folder) == git(folder, "rev-parse", "HEAD")


def test_on_a_branch_after_each_commit_and_in_a_folder_below(checkout: Path) -> None:
    assert says_the_same(checkout)
    commit(checkout, "two")
    (checkout / "below" / "it").mkdir(parents=True)
    assert says_the_same(checkout)
    assert says_the_same(checkout / "below" / "it")


def test_in_a_worktree_and_in_a_submodule(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    commit(tmp_path / "side", "aside")
    assert says_the_same(tmp_path / "side")
    git(checkout, "pack-refs", "--all")
    assert says_the_same(tmp_path / "side")
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "--quiet")
    git(whole, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(checkout), "part")
    assert says_the_same(whole / "part")


def test_where_nothing_can_be_known_it_is_empty(tmp_path: Path) -> None:
    assert head_of(tmp_path) == ""
    git(tmp_path, "init", "--quiet")
    assert head_of(tmp_path) == ""
    for head in ("", "ref: ../../secret", "ref: refs/heads/../../x", "ref: HEAD", "x" * 40, "a" * 41, "\xff\x00"):
        (tmp_path / ".git" / "HEAD").write_text(head)
        assert head_of(tmp_path) == ""
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/loop")
    (tmp_path / ".git" / "refs" / "heads" / "loop").write_text("ref: refs/heads/loop")
    assert head_of(tmp_path) == ""
