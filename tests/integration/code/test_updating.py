"""Updates: forward, merged, or exactly as the remote; what is known to fail is refused before anybody is stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor_core.code.change_plan import preview_text
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
from tests.support.code.remotes import no_such
from tests.support.code.repositories import STRAIGHT, Clones, Repository, new_repository, origin_and_checkout
from tests.support.daemon.single_passes import carry_out, working
from tests.support.waiting import wait_until

BACK_AGAIN = {"watcher.py": "print('here')\n"}
COMES = {"watcher.py": "print('there')\n", "new/file.txt": "new\n"}


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", code.checkout.folder) as made:
        made.start()
        yield made


def test_what_is_up_to_date_touches_nobody(place: CodeHost, code: Clones) -> None:
    before, pids = picture(code.checkout), place.pids
    seen = place.preview("update")
    assert (seen.ok, seen.does_nothing) == (True, True)
    done = place.did("update")
    assert (done.details["up_to_date"], done.details["commits"]) == (True, [])
    assert done.details["before"] == done.details["after"] == STRAIGHT.head.hash
    assert (picture(code.checkout), place.pids) == (before, pids)


def test_it_goes_straight_forward_where_it_can(place: CodeHost, code: Clones) -> None:
    old, (pid,) = code.checkout.head, place.pids
    newest = code.comes_in(COMES)
    seen = place.preview("update")
    assert code.checkout.head == old
    done = place.did("update", state=seen.state)
    assert [commit.hash for commit in seen.commits] == [newest]
    assert (code.checkout.head, code.checkout.status()) == (newest, "")
    assert kept_refs(code.checkout) == {done.task_id: old}
    assert place.pids == [done.details["workers"]["OrionMX"]["new_pid"]] != [pid]


def test_a_merge_keeps_a_rollback_in_force_and_says_so(place: CodeHost, code: Clones) -> None:
    place.did("rollback 1 hotfix")
    reverted = code.checkout.head
    newest = code.comes_in({"other.py": "print('other')\n"})
    seen = place.preview("update")
    assert [commit.hash for commit in seen.kept] == [reverted]
    assert any("are merged with 1 local commit" in note for note in seen.notes)
    done = place.did("update new parser")
    assert code.checkout.git("rev-parse", "HEAD^1", "HEAD^2").split() == [reverted, newest]
    assert (code.checkout.folder / "src/util.py").read_text() == "def util():\n    return 1\n", "still rolled back"
    assert (code.checkout.folder / "other.py").exists()
    assert [commit["hash"] for commit in done.details["kept"]] == [reverted]
    assert "kept 1 local commit that isn't on origin" in done.details["message"]
    assert [file["path"] for file in done.details["files"]] == ["other.py"]
    assert by(code.checkout) == {WHO}
    words = message(code.checkout)
    assert words.startswith("Merge origin/main\n")
    assert words.endswith(f"Requested by anna - new parser.\n\nSupervisor-Task: {done.task_id}\n")


def test_a_conflict_is_found_before_anybody_is_stopped(place: CodeHost, code: Clones) -> None:
    code.checkout.commit(BACK_AGAIN)
    code.comes_in(COMES)
    before, pids = picture(code.checkout), place.pids
    seen = place.preview("update")
    assert "conflict with local commits in watcher.py" in seen.conflict
    assert not seen.ok
    assert "in watcher.py" in place.do("update").error
    assert (picture(code.checkout), place.pids) == (before, pids)


def test_a_merge_that_cannot_be_tried_suggests_to_drop_nothing(place: CodeHost, code: Clones) -> None:
    code.checkout.commit({"own.py": "own\n"})
    code.comes_in(COMES)
    before, pids = picture(code.checkout), place.pids
    (place.config.state_dir / "changes").write_text("in the way of the temporary worktrees\n")
    error = place.do("update").error
    assert "--reset" not in error
    assert "changes" in error
    assert (picture(code.checkout), place.pids) == (before, pids)


def test_a_reset_goes_to_the_remote_exactly_and_keeps_what_it_drops(place: CodeHost, code: Clones) -> None:
    own = code.checkout.commit(BACK_AGAIN)
    newest = code.comes_in(COMES)
    code.checkout.write({"requirements.txt": "changed by hand\n", "src/staged.py": "staged\n"})
    code.checkout.git("add", "src/staged.py")
    (code.checkout.folder / "left.log").write_text("not known to git\n")
    seen = place.preview("update --reset")
    assert [commit.hash for commit in seen.dropped] == [own]
    assert seen.changes == ("requirements.txt", "src/staged.py")
    done = place.did("update --reset", state=seen.state)
    assert (code.checkout.head, code.checkout.status()) == (newest, "?? left.log")
    assert code.checkout.on_disk().keys() - code.checkout.files().keys() == {"left.log"}
    kept = kept_refs(code.checkout)
    assert kept.keys() == {done.task_id, f"{done.task_id}-changes"}
    assert kept[done.task_id] == own
    changes = code.checkout.files(f"refs/supervisor/{done.task_id}-changes")
    assert changes["requirements.txt"].content == b"changed by hand\n"
    assert changes["src/staged.py"].content == b"staged\n"
    assert [commit["hash"] for commit in done.details["dropped"]] == [own]
    assert "dropped 1 local commit and the changes in 2 files (kept under refs/supervisor/)" in done.details["message"]


def _dirty(code: Clones) -> None:
    code.checkout.write(BACK_AGAIN)


def _detached(code: Clones) -> None:
    code.checkout.git("checkout", "--quiet", "--detach")


def _other_branch(code: Clones) -> None:
    code.checkout.git("checkout", "--quiet", "-b", "elsewhere")


def _under_way(code: Clones) -> None:
    code.checkout.git("revert", "--no-commit", "HEAD")


def _locked(code: Clones) -> None:
    (code.checkout.folder / ".git/index.lock").touch()


def _in_the_way(code: Clones) -> None:
    (code.checkout.folder / "new").write_text("a file where a folder comes\n")


def _ignored_in_the_way(code: Clones) -> None:
    (code.checkout.folder / ".git/info").mkdir(exist_ok=True)
    (code.checkout.folder / ".git/info/exclude").write_text("new/\n")
    (code.checkout.folder / "new").mkdir()
    (code.checkout.folder / "new/file.txt").write_text("ignored, and dear to somebody\n")


def _no_remote(code: Clones) -> None:
    code.checkout.git("remote", "rename", "origin", "upstream")


def _no_branch(code: Clones) -> None:
    code.origin.git("branch", "--move", "main", "trunk")


REFUSALS: dict[str, tuple[Callable[[Clones], None], str]] = {
    "changes": (_dirty, "has uncommitted changes: watcher.py"),
    "no branch": (_detached, f"is on no branch (detached at {STRAIGHT.head.hash[:7]})"),
    "another branch": (_other_branch, "is on branch elsewhere, but workers.OrionMX.code.branch is main"),
    "something begun": (_under_way, "A revert is in progress in"),
    "a lock": (_locked, "index.lock exists"),
    "a file in the way": (_in_the_way, "would be overwritten: new"),
    "an ignored file in the way": (_ignored_in_the_way, "would be overwritten: new/file.txt"),
    "no such remote": (_no_remote, "has no remote origin, only upstream"),
    "no such branch": (_no_branch, "origin has no branch main"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_before_anybody_is_stopped(place: CodeHost, code: Clones, name: str) -> None:
    spoil, said = REFUSALS[name]
    code.comes_in(COMES)
    spoil(code)
    assert_refused(place, code.checkout, said)


def test_a_remote_that_is_not_there_is_refused_without_its_password(place: CodeHost, code: Clones) -> None:
    with no_such() as remote:
        code.checkout.git("remote", "set-url", "origin", remote.url.replace("://", "://anna:hunter2@"))
        assert "hunter2" not in assert_refused(place, code.checkout, "origin can't be reached")


def test_a_folder_without_a_commit_or_without_a_checkout_is_refused(tmp_path: Path) -> None:
    new_repository(tmp_path / "empty")
    (tmp_path / "plain").mkdir()
    there = {"Empty": tmp_path / "empty", "Plain": tmp_path / "plain", "Gone": tmp_path / "gone"}
    with a_code_host(tmp_path / "host", there) as place:
        pids = place.start()
        assert "has no commits yet" in place.do("update Empty").error
        assert "plain isn't a git checkout" in place.do("update Plain").error
        assert "gone isn't a git checkout" in place.do("update Gone").error
        assert place.pids == pids


def assert_refused(place: CodeHost, checkout: Repository, said: str) -> str:
    before, pids = picture(checkout), place.pids
    seen = place.preview("update")
    assert said in seen.refused
    done = place.do("update")
    without_times = [re.sub(r"after \d+ ms", "", text) for text in (done.error, seen.refused)]  # curl's
    assert (done.outcome.success, without_times[0]) == (False, without_times[1])
    assert (picture(checkout), place.pids) == (before, pids)
    return done.error


def test_a_history_that_was_rewritten_is_refused_and_followed_with_reset(place: CodeHost, code: Clones) -> None:
    code.colleague.git("reset", "--quiet", "--hard", "HEAD~2")
    code.colleague.commit(COMES, "Another way")
    code.colleague.push("--force")
    old = code.checkout.head
    words = assert_refused(place, code.checkout, "The history of origin/main was rewritten: it no longer has 2 commits")
    assert "update --reset" in words
    assert_refused(place, code.checkout, "rewritten")  # also when it was fetched before
    done = place.did("update --reset")
    assert code.checkout.head == code.origin.head
    assert kept_refs(code.checkout) == {done.task_id: old}
    newest = code.comes_in({"a": "1"})
    place.did("update")
    assert code.checkout.head == newest


def test_one_that_can_not_be_started_again_is_not_stopped(place: CodeHost, code: Clones) -> None:
    code.comes_in(COMES)
    place.configure(OrionMX={"command": ["no-such-program"]})
    before, pids = picture(code.checkout), place.pids
    assert "OrionMX couldn't be started again afterwards" in place.do("update").error
    rollback = place.do("rollback 1")
    assert "OrionMX couldn't be started again afterwards" in rollback.error
    assert (rollback.details["commits_reverted"], rollback.details["final_commit"]) == (0, code.checkout.head)
    assert (rollback.details["success"], rollback.details["error"]) == (False, rollback.error)
    assert (picture(code.checkout), place.pids) == (before, pids)


def test_a_worker_that_dies_with_the_new_code_gets_the_old_one_back(tmp_path: Path) -> None:
    """A real one: it runs what lies in the checkout."""
    stays = "import time\nwhile True:\n    time.sleep(0.05)\n"
    code = origin_and_checkout(tmp_path / "code")
    code.comes_in({"watcher.py": stays})
    code.checkout.git("pull", "--quiet", "--ff-only")
    good = code.checkout.head
    command = ["{python}", "-S", "-E", str(code.checkout.folder / "watcher.py"), "--worker-id", "{worker_id}"]
    worker = {"command": command, "heartbeat_max_age_seconds": 0, "code": {"path": str(code.checkout.folder)}}
    worker["start_grace_seconds"] = 1.5  # within which Python ends also on a busy machine
    with a_code_home(tmp_path / "home", {"OrionMX": worker}) as home:
        assert home.supervisor("once", "--heal").returncode == 0
        (old,) = wait_until(lambda: home.running_copies("OrionMX"))
        bad = code.comes_in({"watcher.py": "raise SystemExit('it does not even start')\n"})
        result = carry_out(home, "update_code", code=1)
        assert not result["success"]
        assert "OrionMX fails with the new version" in result["error"]
        assert "it does not even start" in result["error"]
        told = result["details"]
        assert (told["before"], told["after"], told["tried"]) == (good, good, bad)
        assert (code.checkout.head, code.checkout.status()) == (good, "")
        assert (code.checkout.folder / "watcher.py").read_text() == stays
        (new,) = home.running_copies("OrionMX")
        assert told["workers"]["OrionMX"]["new_pid"] == new != old


def test_two_on_one_checkout_are_stopped_and_started_together_and_once(tmp_path: Path, code: Clones) -> None:
    """With a daemon, where each has an actor of its own; by a link and by a folder inside, it is one checkout."""
    (tmp_path / "link").symlink_to(code.checkout.folder)
    paths = {"OrionMX": code.checkout.folder / "src", "Second": tmp_path / "link"}
    workers = {name: {"code": {"path": str(path)}} for name, path in paths.items()}
    with a_code_home(tmp_path / "home", workers) as home:
        home.start_daemon()
        old = {name: home.worker(name)["pid"] for name in workers}
        newest = code.comes_in(COMES)
        answer = home.json("send", "update all", "--wait")
        assert (answer["success"], code.checkout.head) == (True, newest)
        for told in answer["details"]["workers"]:
            for name, pid in old.items():
                restarted(home, pid, told, name)
        assert sum("together_with" in told["details"] for told in answer["details"]["workers"]) == 1
        rows = home.audit(answer["task_id"])
        assert sorted((row["target_id"], row["outcome"]) for row in rows) == [(name, "success") for name in workers]
        merges = [line for line in home.daemon_log().splitlines() if "git merge" in line]
        assert len(merges) == 1


def test_whatever_a_commit_is_called_nothing_of_it_reaches_a_terminal_as_it_is(place: CodeHost, code: Clones) -> None:
    code.comes_in({"line\nbreak \x1b[2J.txt": "x\n"}, "Clear \x1b[2J it", "A\x1b[31mda <a@example.org>")
    seen = place.preview("update")
    assert all(line.isprintable() for line in preview_text(seen, place.host.now()))
    assert (seen.commits[0].subject, seen.commits[0].author) == (r"Clear \x1b[2J it", r"A\x1b[31mda")
    (code.checkout.folder / "line\nbreak \x1b[2J.txt").write_text("in the way\n")
    assert r"would be overwritten: line\nbreak \x1b[2J.txt" in assert_refused(place, code.checkout, "overwritten")


def test_a_pass_for_a_paused_worker_updates_its_code_and_leaves_it_paused(tmp_path: Path, code: Clones) -> None:
    with a_code_home(tmp_path / "home", code.checkout.folder) as home:
        working(home)
        carry_out(home, "pause")
        newest = code.comes_in(COMES)
        result = carry_out(home, "update_code")
        assert (result["success"], code.checkout.head) == (True, newest)
        assert "paused" in result["details"]["workers"]["OrionMX"]["rests"]
        assert home.everybody() == []
