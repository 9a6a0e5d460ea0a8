"""A change of the code that fails half way all the same: what is said of it is so, and the checkout is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.code.code_homes import a_code_host, message, picture
from tests.support.code.commits import straight
from tests.support.code.odd_repositories import ALLOWED, with_submodule
from tests.support.code.repositories import Clones, Repository, origin_and_checkout


def with_broken(folder: Path, *changes: dict[str, str | None]) -> Clones:
    """These commits, after a first one; files `*.broken` can't be written any more."""
    made = origin_and_checkout(folder, straight({".gitattributes": "*.broken filter=broken\n", "a": "1\n"}, *changes))
    for setting, value in (("smudge", "false"), ("clean", "cat"), ("required", "true")):
        made.checkout.git("config", f"filter.broken.{setting}", value)
    return made


def test_a_revert_that_fails_leaves_no_folder_where_a_file_was(tmp_path: Path) -> None:
    """Git makes the folder of before, then stumbles: the file that was there is back, and nothing is beside it."""
    first: dict[str, str | None] = {"place/inner": "x\n", "place/other": "y\n", "z.broken": "data\n"}
    then: dict[str, str | None] = {"place/inner": None, "place/other": None, "z.broken": None, "place": "a file\n"}
    code = with_broken(tmp_path / "code", first, then).checkout
    before = picture(code)
    with a_code_host(tmp_path / "host", code.folder) as place:
        place.start()
        assert place.preview("rollback").conflict
        done = place.do("rollback")
        assert "z.broken" in done.error
        assert (done.details["commits_reverted"], done.details["final_commit"]) == (0, code.head)
        now = picture(code)
        assert (now.files, now.status, now.under_way) == (before.files, before.status, ())
        assert len(place.pids) == 1


def test_an_update_that_fails_leaves_no_folder_where_a_file_was(tmp_path: Path) -> None:
    made = with_broken(tmp_path / "code", {"place": "a file\n"})
    made.comes_in({"place/inner": "x\n", "z.broken": "data\n"})
    before = picture(made.checkout)
    with a_code_host(tmp_path / "host", made.checkout.folder) as place:
        place.start()
        done = place.do("update")
        assert "z.broken" in done.error
        now = picture(made.checkout)
        assert (now.files, now.status, now.under_way) == (before.files, before.status, ())
        assert len(place.pids) == 1


ODD_SETTINGS = {
    "branch.main.mergeOptions": "--squash",
    "merge.ff": "only",
    "merge.conflictStyle": "diff3",
    "commit.cleanup": "strip",
    "core.commentChar": "T",  # as in `This reverts commit`
    "core.quotePath": "true",
    "status.showUntrackedFiles": "no",
    "diff.renames": "false",
    "diff.noprefix": "true",
    "diff.external": "false",
    "format.pretty": "oneline",
    "log.showSignature": "true",
    "log.follow": "true",
    "revert.reference": "true",
    "color.ui": "always",
    "fetch.prune": "true",
}


def test_whatever_the_checkout_has_set_for_people_does_not_lead_a_command_astray(tmp_path: Path) -> None:
    code = origin_and_checkout(tmp_path / "code")
    for name, value in ODD_SETTINGS.items():
        code.checkout.git("config", name, value)
    with a_code_host(tmp_path / "host", code.checkout.folder) as place:
        newest = code.comes_in({"a": "1\n"})
        place.did("update")
        assert (code.checkout.git("rev-parse", "HEAD"), code.checkout.status()) == (newest, "")
        done = place.did("rollback 2")
        assert message(code.checkout).splitlines()[2].startswith("This reverts commit ")
        assert message(code.checkout).endswith(f"Supervisor-Task: {done.task_id}\n")
        last = code.comes_in({"b": "2\n"})
        assert place.preview("update").ok
        place.did("update")
        assert code.checkout.git("rev-parse", "HEAD^2") == last
        assert not (code.checkout.folder / "a").exists()
        place.did("undo")
        assert not (code.checkout.folder / "b").exists()


def submodule_of(outer: Clones) -> Repository:
    return Repository(outer.checkout.folder / "parts" / "inner")


def test_a_rollback_takes_the_submodule_along_and_its_undo_brings_it_back(tmp_path: Path) -> None:
    outer, inner = with_submodule(tmp_path / "code")
    newest = inner.origin.head
    with a_code_host(tmp_path / "host", outer.checkout.folder) as place:
        before = picture(outer.checkout)
        seen = place.preview("rollback")
        assert (seen.refused, seen.conflict) == ("", "")
        assert picture(outer.checkout) == before
        place.did("rollback")
        assert submodule_of(outer).head == inner.origin.git("rev-parse", "HEAD~1")
        assert outer.checkout.status() == ""
        place.did("undo")
        assert (submodule_of(outer).head, outer.checkout.status()) == (newest, "")


def moves_on(outer: Clones, inner: Clones) -> str:
    """A colleague moves the submodule on to a commit that can't be fetched; the commit that says so."""
    there = Repository(outer.colleague.folder / "parts" / "inner", outer.colleague.clock)
    there.commit({"watcher.py": "print('more')\n"})
    there.git("push", "--quiet", "origin", "HEAD:refs/heads/more")
    outer.colleague.git("add", "parts/inner")
    made = outer.colleague.commit({"watcher.py": "print('more')\n"}, "Move on")
    outer.colleague.push()
    shutil.rmtree(inner.origin.folder)
    return made


def test_an_update_whose_submodule_is_not_to_be_had_changes_nothing(tmp_path: Path) -> None:
    """What the outcome says is what is so: the code is as it was, with the submodule, and an undo has nothing to do."""
    outer, inner = with_submodule(tmp_path / "code")
    assert ALLOWED.split("=")[0] in outer.checkout.git("config", "--list")
    moves_on(outer, inner)
    before, at = picture(outer.checkout), submodule_of(outer).head
    with a_code_host(tmp_path / "host", outer.checkout.folder) as place:
        place.start()
        done = place.do("update")
        assert "couldn't be updated" in done.error
        now = picture(outer.checkout)
        assert (now.files, now.status) == (before.files, before.status)
        assert outer.checkout.log()[0] != outer.checkout.git("rev-parse", "origin/main")
        assert submodule_of(outer).head == at
        assert len(place.pids) == 1
        assert "Nothing to undo" in place.do("undo").error


def test_a_revert_whose_submodule_is_not_to_be_had_counts_as_failed_and_leaves_no_commit(tmp_path: Path) -> None:
    outer, inner = with_submodule(tmp_path / "code")
    shutil.rmtree(outer.checkout.folder / "parts" / "inner")
    shutil.rmtree(outer.checkout.folder / ".git" / "modules")
    (outer.checkout.folder / "parts" / "inner").mkdir()
    head = outer.checkout.head
    shutil.rmtree(inner.origin.folder)
    with a_code_host(tmp_path / "host", outer.checkout.folder) as place:
        done = place.do("rollback")
        assert "couldn't be updated" in done.error
        assert (done.details["commits_reverted"], done.details["final_commit"]) == (0, head)
        assert (outer.checkout.head, outer.checkout.status()) == (head, "")


def test_a_reset_that_fails_brings_back_what_was_changed_by_hand(tmp_path: Path) -> None:
    made = with_broken(tmp_path / "code", {"place": "a file\n"})
    made.comes_in({"b": "b\n", "z.broken": "data\n"})
    made.checkout.write({"a": "changed by hand\n"})
    before = picture(made.checkout)
    with a_code_host(tmp_path / "host", made.checkout.folder) as place:
        place.start()
        done = place.do("update --reset")
        assert "z.broken" in done.error
        now = picture(made.checkout)
        assert (now.files, now.status, now.head) == (before.files, before.status, before.head)


def test_a_rollback_over_the_coming_of_a_submodule_is_undone(tmp_path: Path) -> None:
    outer, inner = with_submodule(tmp_path / "code")
    before = outer.checkout.files()
    with a_code_host(tmp_path / "host", outer.checkout.folder) as place:
        place.did("rollback 2")
        place.did("undo")
        assert outer.checkout.tree("HEAD") == outer.checkout.tree("HEAD~3")
        assert outer.checkout.status() == ""
        assert outer.checkout.files().keys() == before.keys()
        assert submodule_of(outer).head == inner.origin.head
