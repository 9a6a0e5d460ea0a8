"""Submodules: they come along with the code, or the code stays; `parts/inner` is one, `inner.origin` is its remote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.code.code_homes import CodeHost, a_code_place, done, failed
from tests.support.code.odd_repositories import ALLOWED, with_submodule
from tests.support.code.repositories import Clones, Repository


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Clones, Clones]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    return with_submodule(tmp_path / "code")


@pytest.fixture
def place(made: tuple[Clones, Clones], tmp_path: Path) -> Iterator[CodeHost]:
    with a_code_place(tmp_path / "place", made[0].checkout.folder) as opened:
        yield opened


def moved_on(made: tuple[Clones, Clones]) -> str:
    """The submodule goes on, and the repository with it."""
    outer, inner = made
    new = inner.comes_in({"inner.txt": "newer\n"})
    there = Repository(outer.colleague.folder / "parts" / "inner", outer.colleague.clock)
    there.git("fetch", "--quiet")
    there.git("checkout", "--quiet", new)
    outer.colleague.git("commit", "--quiet", "--all", "--message=Move it further")
    outer.colleague.push()
    return new


def test_they_come_along_on_update_rollback_and_undo(place: CodeHost, made: tuple[Clones, Clones]) -> None:
    inner = Repository(made[0].checkout.folder / "parts" / "inner")
    old = inner.head
    new = moved_on(made)
    settings = made[0].checkout.git("config", "--local", "--list")
    done(place, "update_code", "t1")
    assert inner.head == new
    done(place, "rollback_code", "t2")
    assert inner.head == old
    done(place, "undo_code", "t3")
    assert inner.head == new
    assert made[0].checkout.status() == ""
    assert made[0].checkout.git("config", "--local", "--list") == settings


def test_one_whose_remote_is_away_is_named_and_the_code_is_put_back(
    place: CodeHost, made: tuple[Clones, Clones]
) -> None:
    outer, inner = made
    before, there = outer.checkout.head, Repository(outer.checkout.folder / "parts" / "inner").head
    moved_on(made)
    away = inner.origin.folder.rename(inner.origin.folder.parent / "away.git")
    said = failed(place, "update_code")
    assert "parts/inner" in said
    assert outer.checkout.head == before
    assert Repository(outer.checkout.folder / "parts" / "inner").head == there
    assert outer.checkout.status() == ""
    away.rename(inner.origin.folder)
    done(place, "update_code", "t2")


def test_a_preview_sets_no_submodule_up(place: CodeHost, made: tuple[Clones, Clones]) -> None:
    outer = made[0]
    outer.colleague.git("-c", ALLOWED, "submodule", "--quiet", "add", str(made[1].origin.folder), "parts/other")
    outer.colleague.git("commit", "--quiet", "--message=Add another one")
    outer.colleague.push()
    before = outer.checkout.git("config", "--local", "--list"), outer.checkout.on_disk()
    assert place.plan("update_code").ok
    assert (outer.checkout.git("config", "--local", "--list"), outer.checkout.on_disk()) == before
    done(place, "update_code", "t1")
    assert Repository(outer.checkout.folder / "parts" / "other").head == made[1].origin.head


def test_one_whose_old_commit_is_gone_ends_a_rollback_with_the_code_as_it_was(
    place: CodeHost, made: tuple[Clones, Clones]
) -> None:
    outer, _ = made
    before = outer.checkout.head
    outer.checkout.git("submodule", "deinit", "--force", "parts/inner")
    (outer.checkout.folder / ".git" / "modules" / "parts" / "inner").rename(outer.checkout.folder.parent / "gone")
    outer.checkout.git("config", "submodule.parts/inner.url", "/nowhere")
    outcome = place.carry_out("rollback_code")
    assert not outcome.success
    assert "parts/inner" in str(outcome.error)
    assert (outcome.details["commits_reverted"], outer.checkout.head) == (0, before)
