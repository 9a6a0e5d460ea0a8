"""The repositories that tests are made of are what they say: the same for git as for the values they were made from."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings

from tests.support.code.commits import LINK, PROGRAM, Entry, Given, History
from tests.support.code.histories import KINDS, Merge, Step, changes_nothing, grown, histories
from tests.support.code.odd_repositories import (
    BROKEN,
    lfs_pointer,
    with_broken_filter,
    with_crlf,
    with_lfs_pointers,
    with_submodule,
)
from tests.support.code.repositories import STRAIGHT, Repository, huge, make, origin_and_checkout, shallow
from tests.support.sampling import examples

ONE_OF_EACH = grown(
    *(Step(kind, 1, 3) for kind in KINDS if kind not in ("merge", "ours")),
    Merge("merge", ((1, (Step("add"), Step("edit", 2, 2))),)),
    Merge("ours", ((0, (Step("add", 5),)),)),
    Merge("merge", ((0, (Step("add", 3),)), (2, (Step("rename and edit", 1, 1),)))),
)


@settings(max_examples=examples(15))
@given(histories())
def test_git_agrees_on_a_generated_history_to_the_last_hash(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = make(history, Path(folder) / "made")
        assert made.log() == [commit.hash for commit in history.line]
        assert [made.tree(commit.hash) for commit in history.commits] == [commit.tree for commit in history.commits]
        assert made.files() == made.on_disk() == history.head.files
        assert made.status() == ""


def test_each_kind_of_change_is_made_and_git_finds_it_whole(tmp_path: Path) -> None:
    made = make(ONE_OF_EACH, tmp_path / "made")
    assert {commit.kind for commit in ONE_OF_EACH.commits} == {"first", *KINDS}
    made.git("fsck", "--strict", "--no-dangling")
    for place, commit in enumerate(ONE_OF_EACH.commits):
        assert made.files(commit.hash) == commit.files
        assert made.git("log", "-1", "--format=%an <%ae>%n%B", commit.hash) == f"{commit.author}\n{commit.message}"
        nothing = made.tree(commit.hash) == made.tree(f"{commit.hash}^") if commit.parents else False
        assert changes_nothing(ONE_OF_EACH, place) == nothing
        if commit.kind not in ("empty", "ours", "revert"):
            assert not nothing, commit.kind
    assert len(ONE_OF_EACH.head.parents) == 3
    assert ONE_OF_EACH.back(ONE_OF_EACH.depth).kind == "first"


def test_a_commit_writes_deletes_links_and_replaces_what_is_in_the_way(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path).checkout
    made.commit({"src": "now a file", "watcher.py": None, "link": Entry(b"src", LINK)}, "First")
    wanted: dict[str, Given] = {
        "src/in ü.py": "now a folder",
        "--odd\n": b"\0",
        ":(top)": Entry(b"#!", PROGRAM),
        "link": "a file",
    }
    at = made.commit(wanted, "Second", "Jürgen <j@example.org>")
    kept = {"requirements.txt": STRAIGHT.head.files["requirements.txt"], ":(top)": Entry(b"#!", PROGRAM)}
    new = {"src/in ü.py": Entry(b"now a folder"), "--odd\n": Entry(b"\0"), "link": Entry(b"a file")}
    assert made.files() == made.on_disk() == kept | new
    assert (made.head, made.status()) == (at, "")
    assert made.git("log", "-1", "--format=%an %s") == "Jürgen Second"


def test_the_same_calls_make_the_same_hashes_in_any_folder(tmp_path: Path) -> None:
    first = origin_and_checkout(tmp_path / "first")
    first.checkout.git("log")  # a look changes nothing
    second = origin_and_checkout(tmp_path / "second")
    assert first.checkout.head == first.colleague.head == second.checkout.head == STRAIGHT.head.hash
    assert first.comes_in({"a": "1"}) == second.comes_in({"a": "1"}) == first.origin.head
    assert first.checkout.commit() == second.checkout.commit()


def test_a_huge_history_is_as_long_as_asked_and_the_rest_waits_in_the_origin(tmp_path: Path) -> None:
    made = huge(tmp_path, commits=50, files=20, coming=7)
    assert (len(made.checkout.log()), len(made.origin.log())) == (50, 57)
    assert (len(made.checkout.on_disk()), made.checkout.status()) == (20, "")
    made.checkout.git("pull", "--quiet", "--ff-only")
    assert made.checkout.head == made.origin.head


def test_a_shallow_clone_knows_the_newest_commits_only(tmp_path: Path) -> None:
    made = shallow(origin_and_checkout(tmp_path).origin, tmp_path / "shallow", depth=3)
    assert made.log() == [commit.hash for commit in STRAIGHT.line[:3]]


def test_a_submodule_is_there_and_the_newest_commit_moves_it(tmp_path: Path) -> None:
    outer, inner = with_submodule(tmp_path)
    there = Repository(outer.checkout.folder / "parts" / "inner")
    assert there.head == inner.origin.head
    assert outer.checkout.status() == ""
    moved = f"{outer.checkout.head}^:parts/inner"
    assert outer.checkout.git("rev-parse", moved) == inner.origin.git("rev-parse", "HEAD~1")
    assert outer.checkout.head == outer.origin.head


def test_lfs_pointers_lie_in_the_checkout_as_they_are(tmp_path: Path) -> None:
    made = with_lfs_pointers(tmp_path).checkout
    assert (made.folder / "model.bin").read_text() == lfs_pointer(b"the second model")
    assert made.git("check-attr", "filter", "model.bin") == "model.bin: filter: lfs"
    assert made.status() == ""


def test_line_endings_are_crlf_on_disk_and_lf_in_the_commit(tmp_path: Path) -> None:
    made = with_crlf(tmp_path).checkout
    assert made.on_disk()["notes.txt"].content == b"one\r\n2\r\nthree\r\nfour\r\n"
    assert made.files()["notes.txt"].content == b"one\n2\nthree\nfour\n"
    assert made.status() == ""


def test_the_broken_filter_fails_the_second_revert_and_not_the_first(tmp_path: Path) -> None:
    made = with_broken_filter(tmp_path).checkout
    newest, before = made.log()[:2]
    made.git("revert", "--no-edit", newest)
    done = made.run("revert", "--no-edit", before)
    assert done.returncode != 0
    assert BROKEN.encode() in done.stderr


def test_nothing_of_the_users_configuration_reaches_git(tmp_path: Path) -> None:
    made = origin_and_checkout(tmp_path).checkout
    assert "file:" not in made.git("config", "--list", "--show-origin").replace("file:.git/config", "")
    assert made.git("var", "GIT_AUTHOR_IDENT").startswith("Ada Lovelace")
