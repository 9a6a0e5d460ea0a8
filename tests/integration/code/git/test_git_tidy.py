"""Packing: done in the foreground where there is much to pack, and no reason to fail anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from supervisor_core.code.git.history import resolve_commit

from supervisor_core.code import git_changes as git_changing
from supervisor_core.code.git import Git
from supervisor_core.code.git_changes import fetch, keep_commit, tidy
from tests.support.code.repositories import Clones, origin_and_checkout


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clones:
    """A checkout with several packs, which wants one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    made = origin_and_checkout(tmp_path / "code")
    made.checkout.git("config", "fetch.unpackLimit", "1")
    made.checkout.git("config", "gc.autoPackLimit", "1")
    for number in range(3):
        made.comes_in({f"new{number}.txt": "new\n"})
        fetch(Git(made.checkout.folder), "origin", "main")
    assert packs(made) > 1
    return made


def packs(made: Clones) -> int:
    return len(list((made.checkout.folder / ".git" / "objects" / "pack").glob("*.pack")))


def test_many_packs_become_one_and_what_a_command_kept_stays(made: Clones) -> None:
    git = Git(made.checkout.folder)
    dropped = made.checkout.commit({"own.txt": "own\n"})
    name = keep_commit(git, "t1", dropped)
    made.checkout.git("reset", "--quiet", "--hard", "HEAD~1")
    made.checkout.git("reflog", "expire", "--expire=all", "--all")
    tidy(git)
    assert packs(made) == 1
    assert resolve_commit(git, name) == dropped
    assert made.checkout.status() == ""


def test_one_that_takes_too_long_is_given_up(
    made: Clones, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(git_changing, "TIDY_SECONDS", 0.0)
    tidy(Git(made.checkout.folder))
    assert "failed: timed out after 0 s" in caplog.text
