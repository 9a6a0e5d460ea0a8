"""Undo: every file is as it was before an update or a rollback, by a commit on top; and what the remote gets of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.code.code_homes import (
    WHO,
    CodeHost,
    a_code_home,
    a_code_host,
    by,
    kept_refs,
    message,
    picture,
    restarted,
)
from tests.support.code.remotes import refuses_push
from tests.support.code.repositories import STRAIGHT, Clones, origin_and_checkout
from tests.support.daemon.single_passes import ME, carry_out, labelled, working

COMES = {"watcher.py": "print('there')\n", "new/file.txt": "new\n", "requirements.txt": None}


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", code.checkout.folder) as made:
        made.start()
        yield made


def test_a_rollback_is_undone_by_its_id_in_a_real_pass(tmp_path: Path, code: Clones) -> None:
    with a_code_home(tmp_path / "home", code.checkout.folder) as home:
        old = working(home)
        rollback = carry_out(home, "rollback_code", commits_back=3)
        result = carry_out(home, "undo_code", "wrong host", task_id=rollback["task_id"])
        labelled(home, result, "wrong host")
        assert code.checkout.on_disk() == code.checkout.files() == STRAIGHT.head.files
        assert (code.checkout.status(), len(code.checkout.log())) == ("", 5 + 3 + 1)
        words = message(code.checkout)
        assert words.startswith(f"Undo the rollback ({rollback['task_id']})\n")
        assert words.endswith(f"Requested by {ME} - wrong host.\n\nSupervisor-Task: {result['task_id']}\n")
        assert by(code.checkout) == {WHO}
        told = result["details"]
        assert (told["undone_task_id"], told["restored_commit"]) == (rollback["task_id"], STRAIGHT.head.hash)
        assert (told["before"], told["after"]) == (rollback["details"]["after"], code.checkout.head)
        assert restarted(home, rollback["details"]["workers"]["OrionMX"]["new_pid"], result) != old


def test_the_newest_is_undone_where_none_is_named(place: CodeHost, code: Clones) -> None:
    place.did("rollback 2")
    second = place.did("rollback 1")
    before = code.checkout.files(second.details["before"])
    seen = place.preview("undo")
    assert (seen.ok, seen.undone_task_id) == (True, second.task_id)
    done = place.did("undo", state=seen.state)
    assert done.details["undone_task_id"] == second.task_id
    assert code.checkout.files() == code.checkout.on_disk() == before


def test_an_update_straight_forward_is_undone(place: CodeHost, code: Clones) -> None:
    newest = code.comes_in(COMES)
    update = place.did("update")
    done = place.did("undo")
    assert code.checkout.on_disk() == STRAIGHT.head.files
    assert code.checkout.git("rev-parse", "HEAD^") == newest
    assert kept_refs(code.checkout) == {update.task_id: STRAIGHT.head.hash, done.task_id: newest}
    assert place.did("update").details["up_to_date"] is True, "the undo stays in force"
    last = code.comes_in({"more.txt": "more\n"})
    place.did("update")
    assert code.checkout.git("rev-parse", "HEAD^2") == last
    assert code.checkout.on_disk().keys() - STRAIGHT.head.files.keys() == {"more.txt"}


def test_an_update_with_a_reset_is_undone_to_the_commits_that_it_dropped(place: CodeHost, code: Clones) -> None:
    own = code.checkout.commit({"own.txt": "own\n"})
    newest = code.comes_in(COMES)
    update = place.did("update --reset")
    assert code.checkout.head == newest
    done = place.did(f"undo {update.task_id}")
    assert done.details["restored_commit"] == own
    assert code.checkout.files() == code.checkout.on_disk() == code.checkout.files(own)
    assert code.checkout.git("rev-parse", "HEAD^") == newest


def assert_refused(place: CodeHost, code: Clones, words: str, said: str) -> None:
    before, pids = picture(code.checkout), place.pids
    assert said in place.preview(words).refused
    done = place.do(words)
    assert not done.outcome.success
    assert said in done.error
    assert (picture(code.checkout), place.pids) == (before, pids)


def test_it_is_refused_with_something_on_top(place: CodeHost, code: Clones) -> None:
    rollback = place.did("rollback 1")
    code.checkout.commit({"watcher.py": "print('by hand')\n"}, "By hand")
    for words in ("undo", f"undo {rollback.task_id}"):
        assert_refused(place, code, words, f"{rollback.task_id} can't be undone: the code has changed since")
    assert_refused(place, code, "undo", f"{code.checkout.head[:7]} By hand")


def test_what_was_undone_is_in_nobody_s_way(place: CodeHost, code: Clones) -> None:
    """A bad update, a rollback that did not help, its undo: the update can be undone, and the refusal names it."""
    before = code.checkout.on_disk()
    code.comes_in(COMES)
    update = place.did("update")
    place.did("rollback 1")
    assert_refused(place, code, f"undo {update.task_id}", "the code has changed since")
    place.did("undo")
    assert_refused(place, code, "undo", f"undo OrionMX {update.task_id}")
    place.did(f"undo {update.task_id}")
    assert code.checkout.on_disk() == before
    assert_refused(place, code, "undo", "is itself an undo")


def test_an_undo_is_not_undone(place: CodeHost, code: Clones) -> None:
    place.did("rollback 1")
    undo = place.did("undo")
    assert_refused(place, code, "undo", f"is itself an undo ({undo.task_id}), which can't be undone")
    assert_refused(place, code, f"undo {undo.task_id}", f"{undo.task_id} is itself an undo, which can't be undone")
    place.did("rollback 1")
    assert code.checkout.on_disk() == STRAIGHT.back(1).files, "what its error says, does"


def test_an_unknown_id_and_nothing_at_all_are_refused(place: CodeHost, code: Clones) -> None:
    assert_refused(place, code, "undo", "Nothing to undo: no update or rollback of OrionMX is on record")
    pause = place.did("pause")
    place.did("resume")
    place.did("update")  # up to date: it has changed nothing
    assert_refused(place, code, "undo", "Nothing to undo")
    for unknown in (pause.task_id, "task_20260205_001"):
        assert_refused(place, code, f"undo {unknown}", f"{unknown} isn't a code change of OrionMX")


def test_changes_in_the_checkout_are_not_thrown_away_for_it(place: CodeHost, code: Clones) -> None:
    place.did("rollback 1")
    code.checkout.write({"src/util.py": "print('by hand')\n"})
    assert_refused(place, code, "undo", "has uncommitted changes: src/util.py")


def pushing(tmp_path: Path, code: Clones) -> CodeHost:
    return CodeHost(tmp_path / "pushing", {"OrionMX": {"path": str(code.checkout.folder), "push_rollbacks": True}})


def test_rollbacks_and_undos_are_pushed_where_that_is_configured(tmp_path: Path, code: Clones) -> None:
    place = pushing(tmp_path, code)
    with place.ledger:
        assert place.did("rollback 2").details["pushed"] is True
        assert code.origin.head == code.checkout.head
        assert place.did("undo").details["pushed"] is True
        assert code.origin.tree("main") == STRAIGHT.head.tree
        assert place.did("update").details["kept"] == []


def test_a_remote_that_refuses_the_push_does_not_undo_the_rollback(tmp_path: Path, code: Clones) -> None:
    place = pushing(tmp_path, code)
    with place.ledger, refuses_push(code.origin, "Not on a Friday."):
        place.start()
        done = place.did("rollback 1")
        assert code.checkout.on_disk() == STRAIGHT.back(1).files
        assert code.origin.head == STRAIGHT.head.hash
        assert done.details["pushed"] is False
        assert "Not on a Friday." in done.details["push_error"]
        assert "Not on a Friday." in done.details["message"], "people read no details"
        assert place.pids == [done.details["workers"]["OrionMX"]["new_pid"]]
