"""The checklist of a command's steps, as it is drawn on a terminal."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from supervisor_core.cli.send.steps import StepList, StepPrinter
from supervisor_core.common.times import to_text

BEGUN = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def step(worker_id: str, second: float, words: str) -> dict[str, str]:
    return {"worker_id": worker_id, "at": to_text(BEGUN + timedelta(seconds=second)), "words": words}


STEPS = [step("North", 0.1, "stopping North, pid 4711"), step("North", 2.6, "starting North")]


def lines(
    steps: list[dict[str, str]], second: float, *, ended: bool = False, failed: tuple[str, ...] = ()
) -> list[str]:
    shown = StepList(BEGUN, several=len({each["worker_id"] for each in steps}) > 1)
    shown._known = steps  # noqa: SLF001 (without drawing)
    return shown.lines(BEGUN + timedelta(seconds=second), ended=ended, failed=failed)


def test_the_last_step_is_current_with_its_time_so_far() -> None:
    assert lines(STEPS, 4.0) == ["✓ Stopping North, pid 4711  2.5 s", "• Starting North  1.4 s"]


def test_at_the_end_all_are_done_or_the_last_one_failed() -> None:
    assert lines(STEPS, 3.0, ended=True)[1] == "✓ Starting North"
    assert lines(STEPS, 3.0, ended=True, failed=("North",)) == ["✓ Stopping North, pid 4711  2.5 s", "✗ Starting North"]


def test_workers_side_by_side_have_a_current_step_each() -> None:
    both = [
        step("North", 0, "stopping North"),
        step("South", 0.1, "stopping South"),
        step("North", 0.2, "starting North"),
    ]
    assert [line[0] for line in lines(both, 1.0)] == ["✓", "•", "•"]
    assert lines(both, 0.5)[1] == "• Stopping South"


def test_it_is_drawn_over_the_last_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.get_terminal_size", lambda: os.terminal_size((80, 24)))
    shown = StepList(BEGUN, several=False)
    shown.show(STEPS[:1])
    shown.show(STEPS)
    shown.show(STEPS[:1])  # an older answer that came late
    assert shown.seen == 2
    shown.finish([])
    first, *redrawn = capsys.readouterr().out.split("\x1b[1F")
    assert first.count("\n") == 1
    assert len(redrawn) == 1, "a list of two lines is drawn over one line once"
    assert redrawn[0].count("\x1b[2F") == 2


def test_piped_each_step_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown = StepPrinter(BEGUN, several=False)
    shown.show(STEPS[:1])
    shown.show(STEPS)
    shown.draw()
    shown.finish([])
    assert capsys.readouterr().out == "   0.1 s  stopping North, pid 4711\n   2.6 s  starting North\n"
