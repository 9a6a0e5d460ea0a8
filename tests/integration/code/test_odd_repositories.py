"""Repositories out of the ordinary: each command goes through, or is refused or undone, and says why."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.text import one_line
from tests.support.code.code_homes import a_code_place, done, failed
from tests.support.code.commits import straight
from tests.support.code.odd_repositories import BROKEN, lfs_pointer, with_broken_filter, with_crlf, with_lfs_pointers
from tests.support.code.repositories import Repository, origin_and_checkout, shallow
from tests.support.programs.unprivileged import NOBODY

pytestmark = pytest.mark.sampled(of_file=5)

ODD_NAMES = (
    "with space.py",
    'with "quotes".py',
    "with 'quote'.py",
    "ümläut.py",
    "new\nline.py",
    "-dash.py",
    "--force",
    "a\tb",
)


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    """The settings of the user who runs the supervisor: none."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    caplog.set_level(logging.INFO)
    return home / ".gitconfig"


def test_lfs_pointers_go_through_where_git_lfs_is_not_there(tmp_path: Path) -> None:
    made = with_lfs_pointers(tmp_path / "code")
    made.comes_in({"model.bin": lfs_pointer(b"the third model")})
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        done(place, "update_code", "t1")
        done(place, "rollback_code", "t2", commits_back=2)
        assert (made.checkout.folder / "model.bin").read_text() == lfs_pointer(b"the first model")
        done(place, "undo_code", "t3")
        assert (made.checkout.folder / "model.bin").read_text() == lfs_pointer(b"the third model")
        assert made.checkout.status() == ""


def test_a_checkout_with_other_line_ends_stays_clean(tmp_path: Path) -> None:
    made = with_crlf(tmp_path / "code")
    made.comes_in({"notes.txt": "one\n2\nthree\nfour\nfive\n", "new.txt": "new\n"})
    text = made.checkout.folder / "notes.txt"
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        done(place, "update_code", "t1")
        assert text.read_bytes() == b"one\r\n2\r\nthree\r\nfour\r\nfive\r\n"
        done(place, "rollback_code", "t2", commits_back=3)
        assert (text.read_bytes(), made.checkout.status()) == (b"one\r\ntwo\r\nthree\r\n", "")
        done(place, "undo_code", "t3")
        assert (text.read_bytes()[-6:], made.checkout.status()) == (b"five\r\n", "")


def test_a_filter_that_fails_ends_a_rollback_half_way_and_what_was_done_can_be_undone(tmp_path: Path) -> None:
    made = with_broken_filter(tmp_path / "code")
    before, tree = made.checkout.head, made.checkout.tree()
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        outcome = place.carry_out("rollback_code", {"commits_back": 3}, "t1")
        assert not outcome.success
        assert outcome.details["reverted_commits"] == [before]
        assert outcome.details["failed_commit"] == made.checkout.git("rev-parse", f"{before}~1")
        assert outcome.details["final_commit"] == made.checkout.head
        assert BROKEN in str(outcome.error)
        assert "undo OrionMX t1" in str(outcome.error)
        assert made.checkout.tree() == made.checkout.tree(f"{before}~1")
        assert made.checkout.git("status", "--porcelain", "--ignored") == ""
        done(place, "undo_code", "t2", task_id="t1")
        assert made.checkout.tree() == tree


def test_a_shallow_clone_is_updated_and_rolled_back_as_far_as_it_goes(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path / "code")
    cut = shallow(made.origin, tmp_path / "shallow", depth=2)
    made.comes_in({"watcher.py": "print('four')\n"})
    with a_code_place(tmp_path / "place", cut.folder) as place:
        done(place, "update_code", "t1")
        assert cut.head == made.colleague.head
        said = failed(place, "rollback_code", "t2", commits_back=3)
        assert "can't be rolled back by 3 commits: it has only 3" in said
        assert "It's a shallow clone." in said
        done(place, "rollback_code", "t3", commits_back=2)
        done(place, "undo_code", "t4")
        assert cut.tree() == made.colleague.tree()


def test_names_that_shells_and_lists_stumble_over_go_through(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path / "code", straight({"watcher.py": "1\n"}, dict.fromkeys(ODD_NAMES, "old\n")))
    changed: dict[str, str | None] = dict.fromkeys(ODD_NAMES[:4], "new\n")
    made.comes_in({**changed, **dict.fromkeys(ODD_NAMES[4:]), **{f"more/{name}": "more\n" for name in ODD_NAMES}})
    old = made.checkout.on_disk()
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        seen = place.plan("update_code")
        touched = {file.path for file in seen.files} | {file.was for file in seen.files}
        assert touched >= {*ODD_NAMES, *(f"more/{name}" for name in ODD_NAMES)}
        for name in ODD_NAMES:
            (made.checkout.folder / name).write_text("by hand\n")
            shown = one_line(name.splitlines()[0], 100)
            assert shown in failed(place, "update_code", f"changed-{ODD_NAMES.index(name)}")
            (made.checkout.folder / name).write_text("old\n")
            (made.checkout.folder / "more").mkdir()
            (made.checkout.folder / "more" / name).write_text("in the way\n")
            assert "would be overwritten" in failed(place, "update_code", f"in-the-way-{ODD_NAMES.index(name)}")
            (made.checkout.folder / "more" / name).unlink()
            (made.checkout.folder / "more").rmdir()
        done(place, "update_code", "t1")
        assert made.checkout.on_disk() == made.colleague.on_disk()
        done(place, "rollback_code", "t2")
        assert made.checkout.on_disk() == old
        done(place, "undo_code", "t3")
        assert made.checkout.on_disk() == made.colleague.on_disk()


def test_a_linked_worktree_is_a_checkout_of_its_own(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path / "code")
    linked = Repository(tmp_path / "linked", made.checkout.clock)
    made.checkout.git("switch", "--quiet", "--create", "elsewhere")
    made.checkout.git("worktree", "add", "--quiet", str(linked.folder), "main")
    made.comes_in({"watcher.py": "print('four')\n"})
    main = made.checkout.head
    with a_code_place(tmp_path / "place", linked.folder) as place:
        done(place, "update_code", "t1")
        done(place, "rollback_code", "t2", commits_back=2)
        done(place, "undo_code", "t3")
        (tmp_path / "code/checkout/.git/worktrees/linked/index.lock").touch()
        assert "index.lock exists" in failed(place, "rollback_code", "t4")
    assert linked.tree() == made.colleague.tree()
    assert made.checkout.head == main


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others may enter, which those of the tests are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def wrapped(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """A `git` that first does this, for the supervisor alone."""
    git = shutil.which("git")
    program = folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text("\n".join(["#!/bin/sh", *lines]).replace("GIT", str(git)) + "\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("handler", ["update_code", "rollback_code"])
def test_a_git_folder_that_may_not_be_written_is_told_and_the_worker_runs(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: str
) -> None:
    made = origin_and_checkout(open_folder / "code")
    made.comes_in({"watcher.py": "print('four')\n"})
    git_folder = made.checkout.folder / ".git"
    if os.geteuid() == 0:  # who may write anything
        if shutil.which("setpriv") is None:
            pytest.skip("root may write anything, and nothing here runs git as somebody else")
        nobody = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
        wrapped(open_folder, monkeypatch, f'{nobody} GIT -c safe.directory="*" "$@"')
        monkeypatch.setenv("HOME", str(open_folder))
        (open_folder / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    git_folder.chmod(0o555)
    for path in git_folder.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o222)
    before = made.checkout.head, made.checkout.on_disk()
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        said = failed(place, handler)
        assert re.search("Permission denied|insufficient permission|unable to create directory", said)
        assert (made.checkout.head, made.checkout.on_disk()) == before
    for path in (git_folder, *git_folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("way", ["forward", "merge", "reset", "rollback", "undo"])
def test_a_disk_that_takes_no_more_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What really runs full here is the room of a file, for git alone: it meets an error while it writes as well."""
    made = origin_and_checkout(tmp_path / "code")
    large = {"a.txt": "before it\n", "large.txt": "0" * 100_000, "watcher.py": "print('four')\n"}
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        if way in ("rollback", "undo"):
            made.checkout.commit(large)
            made.checkout.commit(dict.fromkeys(large))
            if way == "undo":
                made.checkout.git("revert", "--no-edit", "HEAD")
                made.checkout.git("push", "--quiet", "origin", "HEAD")
                done(place, "rollback_code", "t0")
        else:
            made.comes_in(large)
        if way == "merge":
            made.checkout.commit({"own.txt": "own\n"})
        if way == "reset":
            made.checkout.write({"watcher.py": "print('by hand')\n"})
        before = made.checkout.head, made.checkout.on_disk(), made.checkout.status()
        wrapped(tmp_path, monkeypatch, "trap '' XFSZ", "ulimit -f 32", 'exec GIT "$@"')
        handler = {"rollback": "rollback_code", "undo": "undo_code"}.get(way, "update_code")
        params = {"reset": True} if way == "reset" else {}
        assert "large.txt" in failed(place, handler, **params)
        assert (made.checkout.head, made.checkout.on_disk(), made.checkout.status()) == before


@pytest.mark.parametrize("handler", ["update_code", "rollback_code", "undo_code"])
def test_without_git_a_command_says_so_and_the_worker_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: str
) -> None:
    made = origin_and_checkout(tmp_path / "code")
    with a_code_place(tmp_path / "place", made.checkout.folder) as place:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert failed(place, handler) == "The program git isn't installed. Install git."
        assert "The program git isn't installed" in place.plan(handler).refused
        assert len(place.processes.started) == 1
