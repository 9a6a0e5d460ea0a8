"""The spans of a command: each stage once, inside the command, with who asked and why it failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.diagnosis.traces import CommandRecord, span_id, spans_of, trace_id
from supervisor_core.jobs.model import Job, JobState, Progress

FILED = datetime(2026, 11, 19, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return FILED + timedelta(seconds=seconds)


JOB = Job(
    1,
    "OrionMX",
    "task_1",
    "fetcher",
    "rollback_code",
    {},
    "hotfix",
    Issuer("slack:T1/U1", "Anna"),
    "slack",
    JobState.DONE,
    FILED,
    outcome=Outcome.done(),
    started_at=at(1),
    finished_at=at(4),
    progress=(Progress(at(2), "Stopped fetcher"),),
)


def test_a_command_has_a_span_for_its_wait_its_work_and_its_answer() -> None:
    spans = {each.key: each for each in spans_of(CommandRecord([JOB], answered_at=at(5)))}
    assert {key: ((each.start - FILED).seconds, (each.end - FILED).seconds) for key, each in spans.items()} == {
        "command": (0, 5),
        "wait fetcher": (0, 1),
        "work fetcher": (1, 4),
        "answer": (4, 5),
    }
    assert [each.words for each in spans["work fetcher"].steps] == ["Stopped fetcher"]
    assert spans["command"].name == "rollback"
    assert spans["command"].attributes["enduser.id"] == "slack:T1/U1"
    assert {each.parent for each in spans.values()} == {"", "command"}


def test_the_time_of_an_approval_counts_from_its_request() -> None:
    spans = {each.key: each for each in spans_of(CommandRecord([JOB], at(-60), at(-1)))}
    assert (spans["approval"].start, spans["approval"].end) == (at(-60), at(-1))
    assert spans["command"].start == at(-60)


def test_a_failure_is_told_with_its_reason_and_of_many_with_their_number() -> None:
    failed = replace(JOB, worker_id="indexer", outcome=Outcome.failed("no such commit"))
    assert spans_of(CommandRecord([failed]))[0].error == "no such commit"
    both = spans_of(CommandRecord([JOB, failed]))
    assert both[0].error == "1 of 2 workers failed"
    assert [each.error for each in both if each.key == "work fetcher"] == [""]


def test_a_worker_that_never_began_only_waited() -> None:
    spans = spans_of(CommandRecord([replace(JOB, started_at=None)]))
    assert [each.key for each in spans] == ["command", "wait fetcher"]


def test_a_card_that_was_edited_before_the_end_is_no_answer() -> None:
    assert "answer" not in [each.key for each in spans_of(CommandRecord([JOB], answered_at=at(2)))]


@given(st.text(max_size=40), st.text(max_size=40))
def test_ids_are_stable_and_never_zero(task: str, key: str) -> None:
    assert trace_id(task) == trace_id(task) != 0
    assert span_id(task, key) == span_id(task, key) != 0
    assert trace_id(task) < 2**128
    assert span_id(task, key) < 2**64
