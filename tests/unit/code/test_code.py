"""Code as values: what its commits say of themselves, the messages that ours have, and the hash of what was seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from supervisor_core.code.change_plan import (
    LISTED_COMMITS,
    LISTED_FILES,
    CodePlan,
    Commit,
    FileChange,
    count,
    describe_move,
    list_names,
    merge_message,
    new_paths,
    revert_message,
    short,
    state_hash,
    undo_message,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40
AT = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def commit(letter: str = "a", body: str = "", parents: tuple[str, ...] = (B,), subject: str = "Tidy up") -> Commit:
    return Commit(letter * 40, "d" * 40, parents, AT, "Ada Lovelace", subject, body)


def test_a_commit_is_called_by_its_short_hash_and_its_subject() -> None:
    assert str(commit()) == "aaaaaaa Tidy up"
    assert short(A) == "aaaaaaa"
    assert commit().as_json() == {
        "hash": A,
        "at": "2026-02-05T14:30:00.000000Z",
        "author": "Ada Lovelace",
        "subject": "Tidy up",
        "merge": False,
    }


def test_the_message_of_a_revert_is_read_back_as_what_it_is() -> None:
    words = revert_message(commit("c"), "anna - hotfix", "task_1")
    assert words == (
        f'Revert "Tidy up"\n\nThis reverts commit {C}.\n\nRequested by anna - hotfix.\n\nSupervisor-Task: task_1\n'
    )
    made = commit(body=words.split("\n", 2)[2])
    assert (made.takes_back, made.task_id) == (C, "task_1")


def test_the_revert_of_a_merge_says_towards_which_side() -> None:
    words = revert_message(commit("c", parents=(A, B)), "anna", "task_1")
    assert f"This reverts commit {C}, reversing\nchanges made to {A}.\n" in words
    assert commit(body=words.split("\n", 2)[2]).takes_back == C


def test_the_message_of_a_merge_counts_what_stays() -> None:
    words = merge_message("origin/main", 1, "anna - hotfix", "task_1")
    assert words.startswith("Merge origin/main\n\nKeeps 1 local commit.")
    assert words.endswith("Requested by anna - hotfix.\n\nSupervisor-Task: task_1\n")
    assert "Keeps 3 local commits." in merge_message("origin/main", 3, "anna", "task_1")


def test_the_message_of_an_undo_names_what_is_undone_and_to_where() -> None:
    words = undo_message("the rollback", "task_1", f"commit {B}", "anna", "task_2")
    assert words == (
        f"Undo the rollback (task_1)\n\nRestores every file to commit {B}.\n\n"
        "Requested by anna.\n\nSupervisor-Task: task_2\n"
    )
    assert commit(body=words.split("\n", 2)[2]).task_id == "task_2"


@pytest.mark.parametrize(
    ("body", "takes_back", "task_id"),
    [
        ("", "", ""),
        (f"This reverts commit {A}.", A, ""),
        (f"This reverts commit {'a' * 64}.", "a" * 64, ""),
        (f"It is said: This reverts commit {A}.", "", ""),
        (f"This reverts commit {A[:12]}.", "", ""),
        (f"This reverts commit {A}{A[:3]}.", "", ""),
        ("Supervisor-Task: task_1", "", "task_1"),
        ("Supervisor-Task: task_1\n\nSupervisor-Task: task_2\n", "", "task_2"),
        ("Supervisor-Task: not an id", "", ""),
        ("supervisor-task: task_1", "", ""),
    ],
)
def test_what_a_commit_says_of_itself_is_read_strictly(body: str, takes_back: str, task_id: str) -> None:
    made = commit(body=body)
    assert (made.takes_back, made.task_id) == (takes_back, task_id)


def test_new_paths_are_those_where_nothing_of_the_kind_was() -> None:
    kinds = {kind: FileChange(kind, kind.lower()) for kind in "AMDT"}
    changes = [
        *kinds.values(),
        FileChange("R", "new", "old"),
        FileChange("C", "copy", "of"),
        FileChange("A", "sub", "", True),
    ]
    assert new_paths(changes) == ["a", "new", "copy"]
    assert FileChange("R", "new", "old").as_json() == {"change": "renamed", "path": "new", "was": "old"}
    counted = FileChange("M", "a.py", added=12, removed=0)
    assert counted.as_json() == {"change": "changed", "path": "a.py", "added": 12, "removed": 0}
    assert FileChange("X", "odd").as_json() == {"change": "changed", "path": "odd"}


def test_names_are_cut_counted_and_never_break_a_line() -> None:
    assert list_names(["a", "b"], 2) == "a, b"
    assert list_names(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert list_names(["line\nbreak", "\x1b[2J"], 5) == r"line\nbreak, \x1b[2J"
    assert [count(number, "commit") for number in (0, 1, 2)] == ["0 commits", "1 commit", "2 commits"]
    assert describe_move("it went", A, B) == "it went (aaaaaaa → bbbbbbb)"


FACTS: dict[str, Any] = {"command": "rollback", "head": A, "target": B, "params": {"commits_back": 1}, "paused": []}


def test_the_state_is_the_same_in_whatever_order_its_facts_come() -> None:
    assert state_hash(FACTS) == state_hash(dict(reversed(FACTS.items())))
    assert len(state_hash(FACTS)) == 64


@pytest.mark.parametrize(
    "other",
    [
        {"head": C},
        {"target": C},
        {"command": "undo"},
        {"params": {"commits_back": 2}},
        {"params": {"commits_back": 1, "reset": True}},
        {"paused": ["OrionMX"]},
        {"changes": ["watcher.py"]},
    ],
)
def test_the_state_moves_with_each_fact(other: dict[str, Any]) -> None:
    assert state_hash({**FACTS, **other}) != state_hash(FACTS)


def test_a_plan_tells_what_it_relies_on_and_nothing_else() -> None:
    plan = CodePlan("update", commit(), B, changes=("b", "a"), files=(FileChange("A", "x"),), notes=("so",))
    assert plan.facts() == {"head": A, "target": B, "changes": ["a", "b"]}


def test_a_plan_knows_whether_it_does_anything_and_whether_it_merges() -> None:
    some = (commit(),)
    nothing = [CodePlan("update", commit(), B), CodePlan("update", commit(), B, kept=some, skipped=some)]
    something: list[dict[str, Any]] = [
        {"commits": some},
        {"dropped": some},
        {"changes": ("a",)},
        {"undone_task_id": "t"},
    ]
    assert [plan.does_nothing for plan in nothing] == [True, True]
    assert not any(CodePlan("update", commit(), B, **facts).does_nothing for facts in something)
    assert CodePlan("update", commit(), B, commits=some, kept=some).merges
    assert not CodePlan("update", commit(), B, commits=some).merges
    assert not CodePlan("update", commit(), B, kept=some).merges


def test_a_long_plan_is_cut_for_programs_too_and_counted() -> None:
    many = tuple(commit() for _ in range(LISTED_COMMITS + 1))
    files = tuple(FileChange("A", str(number)) for number in range(LISTED_FILES + 1))
    told = CodePlan("update", commit(), B, commits=many, commit_count=7000, files=files).as_json()
    assert (len(told["commits"]), told["commit_count"]) == (LISTED_COMMITS, 7000)
    assert (len(told["files"]), told["file_count"]) == (LISTED_FILES, LISTED_FILES + 1)
