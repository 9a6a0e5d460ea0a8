"""The inbox on a real file system: claims that race, and everything that is no flag though it is named like one."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.flags import parse_name, parse_unknown_name
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.inbox import ClaimedFlag, Inbox
from tests.support.programs.warm import forked

FLAG = "supervisor_pause_OrionMX.flag"
TOKEN = "task_20260205_143015_abcdefg"


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path, tmp_path / "inbox", 0o640)
    made.prepare()
    return made


def waiting_in(inbox: Inbox) -> list[str]:
    return [flag.name for flag in inbox.unclaimed(lambda _: True)]


def claimed(inbox: Inbox, name: str = FLAG, token: str = TOKEN) -> ClaimedFlag:
    flag = claim(inbox, name, token)
    assert flag is not None
    return flag


def claim(inbox: Inbox, name: str, token: str) -> ClaimedFlag | None:
    ((_, flag),) = inbox.claim_all([(name, token)])
    assert not isinstance(flag, PermissionError)
    return flag


def content(inbox: Inbox, flag: ClaimedFlag) -> bytes | Exception:
    (found,) = inbox.read_all([flag])
    return found.content


def claim_all(folder: Path, names: list[str], start: Barrier, results: Any, number: int) -> None:
    inbox = Inbox(folder, folder, 0o640)
    start.wait()
    results.put([name for place, name in enumerate(names) if claim(inbox, name, f"t{number}_{place}")])


def test_of_two_processes_that_claim_the_same_flags_each_flag_has_one_owner(inbox: Inbox) -> None:
    names = [f"supervisor_pause_OrionMX_t{number}.flag" for number in range(200)]
    for name in names:
        (inbox.folder / name).touch()
    context = forked()
    start, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=claim_all, args=(inbox.folder, names, start, results, number)) for number in range(2)
    ]
    for process in processes:
        process.start()
    won = results.get(timeout=20) + results.get(timeout=20)
    for process in processes:
        process.join(20)
        assert process.exitcode == 0
    assert Counter(won) == Counter(names)
    assert [flag.name for flag in inbox.leftovers()] == sorted(names)
    assert waiting_in(inbox) == []


def test_names_come_in_the_order_of_their_file_times(inbox: Inbox) -> None:
    for place, name in enumerate(["c.flag", "a.flag", "b.flag"]):
        (inbox.folder / name).touch()
        os.utime(inbox.folder / name, (1000 + place, 1000 + place))
    (inbox.folder / ".hidden.flag.tmp").touch()
    (inbox.folder / "notes.txt").touch()
    assert waiting_in(inbox) == ["c.flag", "a.flag", "b.flag"]


def test_a_claimed_flag_is_found_again_after_a_crash_with_the_same_token(inbox: Inbox) -> None:
    (inbox.folder / FLAG).write_bytes(b"{}")
    flag = claimed(inbox)
    inbox.settle()
    assert Inbox(inbox.folder, inbox.folder, 0o640).leftovers() == [flag]
    assert content(inbox, flag) == b"{}"
    inbox.remove(flag)
    inbox.remove(flag)
    assert inbox.leftovers() == []
    assert claim(inbox, FLAG, TOKEN) is None


def test_a_worker_whose_id_holds_flag_is_not_taken_for_another_after_a_crash(inbox: Inbox) -> None:
    name = "supervisor_pause_OrionMX.flag.Z.flag"
    flag = parse_name(name)
    assert flag is not None
    assert flag.worker_id == "OrionMX.flag.Z"
    (inbox.folder / name).touch()
    claimed(inbox, name)
    assert [(found.name, found.token) for found in inbox.leftovers()] == [(name, TOKEN)]


@pytest.mark.parametrize("tail", ["bak", "~1", "old copy", "\udcff", "x" * 150, ""])
def test_what_lies_in_processing_without_a_token_of_ours_is_not_followed(inbox: Inbox, tail: str) -> None:
    (inbox.folder / "processing" / f"{FLAG}.{tail}").touch()
    expected = ["bak"] if tail == "bak" else []  # which may be a task id: a hand that names it so means it
    assert [flag.token for flag in inbox.leftovers()] == expected
    assert inbox.strays() == []


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe", "huge"])
def test_what_is_no_small_regular_file_is_never_read_and_can_be_put_aside(
    inbox: Inbox, tmp_path: Path, kind: str
) -> None:
    path, secret = inbox.folder / FLAG, tmp_path / "secret"
    secret.write_text("password")
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "folder":
        path.mkdir()
        (path / "inside").touch()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(100 * 1024 * 1024)
    assert waiting_in(inbox) == [FLAG]
    assert isinstance(inbox.peek_all([FLAG])[FLAG], UnreadableFileError)
    flag = claimed(inbox)
    problem = content(inbox, flag)
    assert isinstance(problem, UnreadableFileError)
    target = inbox.reject(flag, str(problem))
    assert os.path.lexists(target)
    assert inbox.leftovers() == []
    assert secret.read_text() == "password"
    reason = target.with_name(f"{FLAG}.reason.txt")
    assert "password" not in reason.read_text()
    assert reason.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "name",
    [
        f"supervisor_dance_OrionMX_{'t' * 225}.flag",
        f"supervisor_{'x' * 231}_OrionMX.flag",
        f"supervisor_update_code_deps_{'w' * 64}_{'t' * 157}.flag",
        f"supervisor_pause_OrionMX_ok{'!' * 223}.flag",
        f"supervisor_{'é' * 115}_OrionMX.flag",
        f"supervisor_{'🙂' * 57}_OrionMX.flag",
    ],
)
def test_a_name_that_leaves_no_room_is_cut_and_can_never_become_a_right_one(inbox: Inbox, name: str) -> None:
    assert parse_name(name) is None
    (inbox.folder / name).write_bytes(b"{}")
    flag = claimed(inbox, name)
    assert inbox.leftovers() == [flag]
    assert parse_name(flag.name) is None
    if "OrionMX" in name:
        assert parse_unknown_name(flag.name, ("OrionMX",)) == "OrionMX"
    target = inbox.reject(flag, "too long")
    assert target.with_name(f"{target.name}.reason.txt").read_text() == "too long\n"


def test_a_name_that_is_no_text_is_kept_as_one_that_is(inbox: Inbox) -> None:
    (inbox.folder / os.fsdecode(b"supervisor_\xff\xfe_OrionMX.flag")).write_bytes(b"{}")
    (name,) = waiting_in(inbox)
    flag = claimed(inbox, name)
    flag.name.encode()
    assert parse_unknown_name(flag.name, ("OrionMX",)) == "OrionMX"
    inbox.reject(flag, f"can't read {name!s}")
    assert sorted(path.name for path in (inbox.folder / "rejected").iterdir()) == [
        flag.name,
        f"{flag.name}.reason.txt",
    ]


def test_rejected_flags_of_the_same_name_lie_side_by_side_each_with_its_reason(inbox: Inbox) -> None:
    for number in range(3):
        (inbox.folder / FLAG).write_text(str(number))
        target = inbox.reject(claimed(inbox, token=f"t{number}"), f"reason {number}")
        assert target.read_text() == str(number)
        assert target.with_name(f"{target.name}.reason.txt").read_text() == f"reason {number}\n"


def test_a_rejection_that_was_cut_off_is_finished_under_the_same_name(inbox: Inbox) -> None:
    (inbox.folder / FLAG).touch()
    flag = claimed(inbox)
    (inbox.folder / "rejected" / f"{FLAG}.reason.txt").write_text("half")
    assert inbox.reject(flag, "whole").name == FLAG
    assert (inbox.folder / "rejected" / f"{FLAG}.reason.txt").read_text() == "whole\n"
    assert inbox.reject(flag, "again").name == f"{FLAG}.2"  # it is gone, which is no error


@pytest.mark.parametrize("seconds", [0, -1, -(10**10), -62_135_596_801, 10**11, 10**14])
def test_the_time_of_a_file_may_be_anything(inbox: Inbox, seconds: int) -> None:
    (inbox.folder / FLAG).touch()
    flag = claimed(inbox)
    try:
        os.utime(flag.path, (seconds, seconds))
    except OverflowError:
        pytest.skip("this system knows no such time")
    (found,) = inbox.read_all([flag])
    filed_at = found.filed_at
    assert datetime(1970, 1, 1, tzinfo=UTC) <= filed_at <= datetime(9999, 12, 31, tzinfo=UTC)


def test_the_fingerprint_changes_when_the_file_does(inbox: Inbox) -> None:
    def fingerprint() -> str:
        (flag,) = inbox.unclaimed(lambda name: name == FLAG)
        return flag.fingerprint

    path = inbox.folder / FLAG
    path.write_text("a")
    first = fingerprint()
    assert fingerprint() == first
    path.write_text("ab")
    assert fingerprint() != first
