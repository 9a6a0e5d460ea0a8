"""Code as values: what its commits say of themselves, the messages that ours have, and the hash of what was seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from supervisor_core.code.change_plan import (
    Commit,
    revert_message,
    state_hash,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40
AT = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def commit(letter: str = "a", body: str = "", parents: tuple[str, ...] = (B,), subject: str = "Tidy up") -> Commit:
    return Commit(letter * 40, "d" * 40, parents, AT, "Ada Lovelace", subject, body)


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
