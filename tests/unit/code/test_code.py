"""A commit as a value: what its message says of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from supervisor_core.code.change_plan import Commit

A, B, C = "a" * 40, "b" * 40, "c" * 40
AT = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def commit(letter: str = "a", body: str = "", parents: tuple[str, ...] = (B,), subject: str = "Tidy up") -> Commit:
    return Commit(letter * 40, "d" * 40, parents, AT, "Ada Lovelace", subject, body)


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
