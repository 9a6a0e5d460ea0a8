"""A change of the code that fails half way all the same: what is said of it is so, and the checkout is whole."""

from __future__ import annotations

from pathlib import Path

from tests.support.code.code_homes import a_code_host, message, picture
from tests.support.code.commits import straight
from tests.support.code.repositories import Clones, origin_and_checkout


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
