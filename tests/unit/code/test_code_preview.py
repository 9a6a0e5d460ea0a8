"""A preview in words: golden files of every kind, short enough to be read and safe on a terminal.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/code/test_code_preview.py`, then look at the difference.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.code.change_plan import (
    SHOWN_COMMITS,
    SHOWN_FILES,
    CodePlan,
    Commit,
    FileChange,
    WorkerNow,
    preview_text,
)

GOLDEN = Path(__file__).parents[1] / "golden"
NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
ORION = WorkerNow("OrionMX", 4711)


PLACE = ("/srv/watcher", "main")


def commit(letter: str, subject: str, seconds: float = 7200, *, merge: bool = False, author: str = "Ada") -> Commit:
    parents = ("0" * 40, "f" * 40) if merge else ("0" * 40,)
    return Commit(letter * 40, "d" * 40, parents, NOW - timedelta(seconds=seconds), author, subject)


HEAD = commit("a", "Read faster", 90)
OLDER = commit("b", "Merge the new parser", 3 * 86_400, merge=True, author="Jürgen O'Groß")
EMPTY = commit("c", "Try the build again", 4 * 86_400)
OWN = commit("e", 'Revert "Read faster"', 3600, author="supervisor")
FILES = (
    FileChange("M", "watcher.py", added=12, removed=3),
    FileChange("A", "src/new.py", added=40, removed=0),
    FileChange("D", "src/old.py"),
    FileChange("R", "src/parser.py", "parser.py"),
    FileChange("T", "link"),
)
ROLLBACK = CodePlan(
    "rollback",
    *PLACE,
    head=HEAD,
    target="9" * 40,
    commits=(HEAD, OLDER),
    commit_count=2,
    skipped=(EMPTY,),
    files=FILES,
    notes=("bbbbbbb is a merge. Reverting it removes everything it merged, back to 0000000.",),
)
MERGE = CodePlan(
    "update",
    *PLACE,
    head=OWN,
    target="9" * 40,
    commits=(HEAD,),
    commit_count=1,
    kept=(OWN,),
    files=FILES[:1],
    notes=("The new commits are merged with 1 local commit.",),
)
RESET = CodePlan(
    "update",
    *PLACE,
    head=OWN,
    target=HEAD.hash,
    commits=(HEAD,),
    commit_count=1,
    dropped=(OWN,),
    changes=("watcher.py",),
    files=FILES[:1],
)
UNDO = CodePlan(
    "undo",
    *PLACE,
    head=OWN,
    target=HEAD.hash,
    commits=(OWN,),
    commit_count=1,
    files=FILES[:1],
    undone_task_id="t1",
    undone="the rollback",
)
INSTALLS = ("requirements.txt into /srv/orion/venv/bin/python",)
MANY = CodePlan(
    "update",
    *PLACE,
    head=HEAD,
    target="9" * 40,
    commits=tuple(commit("b", f"Change {number}", number) for number in range(50, 0, -1)),
    commit_count=7000,
    files=tuple(FileChange("M", f"file{number}.py") for number in range(300)),
)
HOSTILE = CodePlan(
    "update",
    *PLACE,
    head=HEAD,
    target="9" * 40,
    commits=(commit("b", "Clear \x1b[2J the \u202escreen"),),
    commit_count=1,
    files=(FileChange("A", "line\nbreak.txt"), FileChange("R", "\x1b]0;title\x07", "\r")),
)


REFUSED = CodePlan("rollback", *PLACE, refused="/srv/watcher has uncommitted changes: watcher.py. Commit them first.")


def preview(plan: CodePlan, *workers: WorkerNow, conflict: str = "") -> CodePlan:
    return replace(plan, workers=workers or (ORION,), conflict=conflict, state="5" * 64)


PREVIEWS = {
    "rollback": preview(ROLLBACK),
    "rollback_shared": preview(
        ROLLBACK,
        ORION,
        WorkerNow("Second", 4712, paused="paused by bob since 14:02", busy="busy with diagnostics (t7)"),
        WorkerNow("Third", None, rests="Third is quarantined"),
    ),
    "rollback_paused": preview(ROLLBACK, WorkerNow("OrionMX", 4711, paused="paused by bob since 14:02")),
    "update_merge": preview(MERGE),
    "update_reset": preview(RESET),
    "update_nothing": preview(CodePlan("update", *PLACE, head=HEAD, target=HEAD.hash)),
    "update_deps": preview(replace(MERGE, command="update-deps", installs=INSTALLS)),
    "update_deps_nothing": preview(CodePlan("update-deps", *PLACE, head=HEAD, target=HEAD.hash, installs=INSTALLS)),
    "update_many": preview(MANY),
    "update_hostile": preview(HOSTILE),
    "undo": preview(UNDO),
    "refused": preview(REFUSED),
    "conflict": preview(MERGE, conflict="Merging 9999999 conflicts with local commits in watcher.py."),
}


@pytest.mark.parametrize("name", PREVIEWS)
def test_what_people_see(name: str) -> None:
    path = GOLDEN / f"preview_{name}.txt"
    said = "\n".join(preview_text(PREVIEWS[name], NOW)) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(said)
    assert said == path.read_text()


@pytest.mark.parametrize("name", PREVIEWS)
def test_it_is_short_and_each_line_prints(name: str) -> None:
    lines = preview_text(PREVIEWS[name], NOW)
    assert len(lines) <= SHOWN_COMMITS + SHOWN_FILES + 20
    assert all(line.isprintable() for line in lines)


def test_programs_get_the_same_with_null_for_what_is_not_there() -> None:
    told = preview(ROLLBACK, WorkerNow("OrionMX", None, paused="paused by bob")).as_json()
    assert (told["refused"], told["conflict"], told["undone_task_id"], told["ok"]) == (None, None, None, True)
    assert told["workers"] == [
        {"id": "OrionMX", "pid": None, "running": False, "paused": True, "rests": "paused by bob", "busy": None}
    ]
    assert [each["hash"] for each in told["commits"]] == [HEAD.hash, OLDER.hash]
    assert told["state"] == "5" * 64
    assert "commits" not in preview(REFUSED).as_json()
