"""The checklist of a command's steps, as it is drawn on a terminal."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from supervisor_core.cli.output import Steps
from supervisor_core.common.times import to_text

BEGUN = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def step(worker_id: str, second: float, words: str) -> dict[str, str]:
    return {"worker_id": worker_id, "at": to_text(BEGUN + timedelta(seconds=second)), "words": words}


STEPS = [step("North", 0.1, "stopping North, pid 4711"), step("North", 2.6, "starting North")]


NOW = BEGUN + timedelta(seconds=4)


def on_terminal(monkeypatch: pytest.MonkeyPatch, *, with_names: bool) -> Steps:
    monkeypatch.setattr("os.get_terminal_size", lambda: os.terminal_size((80, 24)))
    steps = Steps(BEGUN, with_names=with_names)
    steps.is_checklist = True
    return steps


def test_the_last_step_of_each_worker_is_current_and_at_the_end_done_or_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = on_terminal(monkeypatch, with_names=True)
    steps.show([STEPS[0], step("South", 0.1, "stopping South"), STEPS[1]], NOW)
    drawn = [line for line in capsys.readouterr().out.split("\n") if line[:1] in "✓•✗"]
    assert [line[0] for line in drawn if line] == ["✓", "•", "•"]
    assert drawn[0].startswith("✓ Stopping North, pid 4711  2.5 s")
    steps.finish(["South"], NOW)
    ended = capsys.readouterr().out.split("\x1b[3F")[1].split("\n")
    assert [line[0] for line in ended[:3]] == ["✓", "✗", "✓"]


def test_it_is_drawn_over_the_last_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = on_terminal(monkeypatch, with_names=False)
    steps.show(STEPS[:1], NOW)
    steps.show(STEPS, NOW)
    steps.show(STEPS[:1], NOW)  # an older answer that came late
    steps.finish([], NOW)
    first, *redrawn = capsys.readouterr().out.split("\x1b[1F")
    assert first.count("\n") == 1
    assert len(redrawn) == 1, "a list of two lines is drawn over one line once"
    assert redrawn[0].count("\x1b[2F") == 2
