"""A rollback, its preview and its undo on generated histories: the trees are exactly those of before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.code.change_plan import TASK, CodePlan, count
from tests.support.code.code_homes import WHO, CodeHost, a_code_host, by, kept_refs, message, picture
from tests.support.code.commits import Files, History, differing
from tests.support.code.histories import histories
from tests.support.code.repositories import Repository, make
from tests.support.sampling import examples

FEW = settings(max_examples=examples(30))
MOST = 10  # commits that a rollback takes back


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeHost]:
    """One host for all examples: its checkout is another one each time."""
    folder = tmp_path_factory.mktemp("histories")
    with a_code_host(folder / "host", folder / "checkout") as made:
        yield made


@st.composite
def rollbacks(draw: st.DrawFn) -> tuple[History, int]:
    """A history, and how many commits are to be taken back."""
    history = draw(histories())
    return history, draw(st.integers(1, min(MOST, history.depth)))


def checkout_of(place: CodeHost, history: History) -> Repository:
    """This history, checked out where the host expects it."""
    folder = place.config.worker("OrionMX").code.path
    shutil.rmtree(folder, ignore_errors=True)
    checkout = make(history, folder)
    (checkout.folder / "left by the worker.log").write_text("git does not know it\n")
    return checkout


@FEW
@given(rollbacks())
def test_after_a_rollback_the_tree_is_that_of_so_many_steps_back(place: CodeHost, wanted: tuple[History, int]) -> None:
    history, back = wanted
    checkout = checkout_of(place, history)
    before = picture(checkout)
    taken = [history.line[number] for number in range(back)]
    reverted = [commit for commit in taken if commit.tree != history.commits[commit.parents[0]].tree]

    done = place.did(f"rollback {back} fix it")

    assert checkout.tree() == history.back(back).tree
    assert checkout.files() == history.back(back).files
    made = checkout.log()[: len(reverted)][::-1]
    assert checkout.git("rev-parse", f"HEAD~{len(reverted)}") == history.head.hash
    for commit, new in zip(reverted, made, strict=True):
        assert checkout.tree(new) == history.commits[commit.parents[0]].tree
        assert message(checkout, new).startswith(f'Revert "{commit.subject}"\n\nThis reverts commit {commit.hash}')
        assert message(checkout, new).endswith(f"{TASK}: {done.task_id}\n")
        assert by(checkout, new) == {WHO}
    told = done.details
    assert told["reverted_commits"] == [commit.hash for commit in reverted]
    assert told["skipped_commits"] == [commit.hash for commit in taken if commit not in reverted]
    assert (told["commits_reverted"], told["failed_commit"]) == (len(reverted), None)
    assert (told["starting_commit"], told["final_commit"]) == (history.head.hash, checkout.head)

    after = picture(checkout)
    assert (after.under_way, after.config, after.stash) == ((), before.config, "")
    assert checkout.git("status", "--porcelain") == '?? "left by the worker.log"'
    assert after.files == {**history.back(back).files, **_untracked(before.files, history)}
    kept = {done.task_id: history.head.hash} if reverted else {}
    assert kept_refs(checkout) == kept
    assert {ref.split(" ")[0] for ref in set(after.refs) ^ set(before.refs)} <= {
        "refs/heads/main",
        f"refs/supervisor/{done.task_id}",
    }

    if reverted:
        place.did(f"rollback {len(reverted)}")
        assert checkout.files() == history.head.files, "the second one takes the first one back"
        assert picture(checkout).files == before.files


@FEW
@given(rollbacks())
def test_the_preview_says_what_the_rollback_does_and_the_undo_brings_all_back(
    place: CodeHost, wanted: tuple[History, int]
) -> None:
    history, back = wanted
    checkout = checkout_of(place, history)
    before = picture(checkout)

    seen = place.preview(f"rollback {back}")

    assert picture(checkout) == before, "nothing of it is done"
    assert (seen.refused, seen.conflict, seen.ok) == ("", "", True)
    done = place.did(f"rollback {back}", state=seen.state)
    assert [commit.hash for commit in seen.commits] == done.details["reverted_commits"]
    assert [commit.hash for commit in seen.skipped] == done.details["skipped_commits"]
    assert touched(seen) == set(differing(before.files, picture(checkout).files))

    rolled_back = checkout.head
    if rolled_back == history.head.hash:
        return  # none of them changed a file
    moved = checkout.tree() != history.head.tree  # else they took each other back
    undone = place.did(f"undo {done.task_id}")
    assert checkout.tree() == history.head.tree
    assert picture(checkout).files == before.files
    assert checkout.git("rev-parse", "HEAD~1" if moved else "HEAD") == rolled_back, "no history is rewritten"
    assert undone.details["restored_commit"] == history.head.hash
    assert checkout.git("status", "--porcelain") == '?? "left by the worker.log"'


@settings(max_examples=examples(15))
@given(histories(max_steps=MOST - 1), st.integers(1, MOST))
def test_more_commits_than_there_are_is_refused_and_nothing_changes(
    place: CodeHost, history: History, more: int
) -> None:
    back = min(history.depth + more, MOST)
    checkout = checkout_of(place, history)
    before = picture(checkout)
    done = place.do(f"rollback {back}")
    assert not done.outcome.success
    assert f"can't be rolled back by {count(back, 'commit')}: it has only {history.depth + 1}," in done.error
    assert picture(checkout) == before
    assert place.preview(f"rollback {back}").refused == done.error


def touched(seen: CodePlan) -> set[str]:
    """The paths that a preview names."""
    files = seen.files
    return {path for change in files for path in (change.path, change.was) if path}


def _untracked(files: Files, history: History) -> Files:
    return {path: file for path, file in files.items() if path not in history.head.files}
