"""Previews on a terminal and for programs, and commands that are carried out only as long as all is as it was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.code.code_homes import CodeHost, a_code_home, a_code_host, picture
from tests.support.code.repositories import STRAIGHT, Clones, origin_and_checkout
from tests.support.homes import Home
from tests.support.waiting import wait_until

STATE = "0123456789abcdef" * 4
MOVED = "The preview is out of date"


@pytest.fixture
def code(tmp_path: Path) -> Clones:
    return origin_and_checkout(tmp_path / "code")


@pytest.fixture
def place(tmp_path: Path, code: Clones) -> Iterator[CodeHost]:
    with a_code_host(tmp_path / "host", dict.fromkeys(("OrionMX", "Second"), code.checkout.folder)) as made:
        made.start()
        yield made


@pytest.fixture
def home(tmp_path: Path, code: Clones) -> Iterator[Home]:
    with a_code_home(tmp_path / "home", code.checkout.folder) as made:
        yield made


def test_it_is_done_while_nothing_has_moved_whoever_was_restarted_since(place: CodeHost, code: Clones) -> None:
    state = place.preview("rollback OrionMX 2").state
    place.processes.die("OrionMX")
    place.start("OrionMX")
    place.processes.die("Second")
    (code.checkout.folder / "left.log").write_text("of nobody's concern\n")
    place.did("rollback OrionMX 2", state=state)
    assert code.checkout.files() == STRAIGHT.back(2).files


def _commit(place: CodeHost, code: Clones) -> None:
    code.checkout.commit({"by hand.txt": "x\n"})


def _rollback(place: CodeHost, code: Clones) -> None:
    place.did("rollback OrionMX 1")


def _pause(place: CodeHost, code: Clones) -> None:
    place.pause("Second")


def _another_worker(place: CodeHost, code: Clones) -> None:
    place.configure(Third={"code": {"path": str(code.checkout.folder)}})


@pytest.mark.parametrize("move", [_commit, _rollback, _pause, _another_worker])
@pytest.mark.parametrize("words", ["rollback OrionMX 1", "update OrionMX"])
def test_it_is_refused_when_something_has_moved(
    place: CodeHost, code: Clones, words: str, move: Callable[[CodeHost, Clones], None]
) -> None:
    code.comes_in({"new.txt": "new\n"})
    state = place.preview(words).state
    move(place, code)
    before, pids = picture(code.checkout), place.pids
    done = place.do(words, state=state)
    assert not done.outcome.success
    assert MOVED in done.error
    assert (picture(code.checkout), place.pids) == (before, pids)


def test_it_is_refused_when_the_remote_has_more_than_was_seen(place: CodeHost, code: Clones) -> None:
    code.comes_in({"new.txt": "new\n"})
    state = place.preview("update OrionMX").state
    code.comes_in({"new.txt": "newer\n"})
    assert MOVED in place.do("update OrionMX", state=state).error
    assert code.checkout.head == STRAIGHT.head.hash


def test_a_reset_is_refused_when_other_files_were_changed_since(place: CodeHost, code: Clones) -> None:
    code.checkout.write({"watcher.py": "print('by hand')\n"})
    state = place.preview("update OrionMX --reset").state
    code.checkout.write({"src/util.py": "as well\n"})
    assert MOVED in place.do("update OrionMX --reset", state=state).error
    assert (code.checkout.folder / "src/util.py").read_text() == "as well\n"


def test_what_was_seen_for_other_parameters_does_not_count(place: CodeHost) -> None:
    state = place.preview("rollback OrionMX 1").state
    assert MOVED in place.do("rollback OrionMX 2", state=state).error
    assert MOVED in place.do("update OrionMX --reset", state=place.preview("update OrionMX").state).error


def test_a_program_asks_for_a_preview_and_sends_exactly_that(home: Home, code: Clones) -> None:
    home.start_daemon()
    pid = home.worker("OrionMX")["pid"]
    before = picture(code.checkout)
    seen = home.json("send", "rollback 2 hotfix", "--preview")
    assert (seen["command"], seen["workers"], seen["ok"]) == ("rollback", ["OrionMX"], True)
    (preview,) = seen["previews"]
    assert [commit["hash"] for commit in preview["commits"]] == [commit.hash for commit in STRAIGHT.line[:2]]
    assert {file["path"] for file in preview["files"]} == {"src/util.py", "watcher.py"}
    assert (preview["refused"], preview["conflict"], preview["state"]) == (None, None, seen["state"])
    (worker,) = preview["workers"]
    assert (worker["id"], worker["pid"], worker["paused"], worker["busy"]) == ("OrionMX", pid, False, None)
    assert (picture(code.checkout), home.worker("OrionMX")["pid"], home.audit()) == (before, pid, [])

    answer = home.json("send", "rollback 2 hotfix", "--if-state", seen["state"], "--wait")
    assert answer["success"], answer
    assert code.checkout.files() == STRAIGHT.back(2).files
    again = home.json("send", "rollback 2 hotfix", "--if-state", seen["state"], "--wait")
    assert (again["success"], MOVED in again["error"]) == (False, True)
    wait_until(lambda: home.worker("OrionMX")["pid"] == answer["details"]["workers"]["OrionMX"]["new_pid"])


def test_people_read_it_and_learn_how_to_do_exactly_that(home: Home, code: Clones) -> None:
    shown = home.supervisor("send", "rollback 1", "--preview")
    assert shown.returncode == 0
    state = home.json("send", "rollback 1", "--preview")["state"]
    assert shown.stdout.splitlines()[-1].endswith(f"--if-state {state}")
    assert "Ada Lovelace: Change 5" in shown.stdout
    code.checkout.write({"src/util.py": "print('by hand')\n"})
    refused = home.supervisor("send", "rollback 1", "--preview")
    assert (refused.returncode, "--if-state" in refused.stdout) == (1, False)
    assert "Refused" in refused.stdout
    assert home.json("send", "rollback 1", "--preview")["state"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pause", "--preview"), "pause has no preview"),
        (("status", "--preview"), "status has no preview"),
        (("pause", "--if-state", STATE), "pause has no preview, so --if-state doesn't apply"),
        (("rollback 1", "--if-state", "abc"), "64 hexadecimal digits"),
        (("rollback 1", "--if-state", f"{STATE},"), "64 hexadecimal digits"),
        (("rollback 1", "--if-state", STATE.upper()), "64 hexadecimal digits"),
        (("rollback 1", "--if-state", ""), "64 hexadecimal digits"),
        (("rollback 11", "--preview"), "1 to 10"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_queued(home: Home, words: tuple[str, ...], said: str) -> None:
    done = home.supervisor("send", *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert not list(home.state_dir.glob("ledger.db")), "not even a ledger was needed"
