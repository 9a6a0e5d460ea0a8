"""The words and the hash of an audit row: what a name or a label may do to them, and what may not."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.commands.labels import MAX_AUDIT_LABEL, MAX_ISSUER, SEPARATOR, audit_label, validate_label
from supervisor_core.common.errors import UsageError
from supervisor_core.jobs.model import TAIL, Job, JobState, new_task_id
from supervisor_core.storage.audit.chain import GENESIS, HASHED_FIELDS, row_hash
from supervisor_core.storage.audit.search import audit_filter
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
labels = st.none() | st.from_regex(r"[A-Za-z0-9 _-]{1,100}", fullmatch=True)


@given(st.text(max_size=120), st.text(max_size=60), labels)
@example("a - b - c", "", "x - y")
@example("-" * 60, "- - -", "-")
@example("\ud800\n - \0", "slack:\nT/U", "x" * 100)
@settings(max_examples=examples(300))
def test_an_audit_label_is_short_plain_and_says_where_the_issuer_ends(name: str, user: str, label: str | None) -> None:
    assert validate_label(label)[0]
    said = audit_label(name, user, label)
    issuer, separator, rest = said.partition(SEPARATOR)
    assert 1 <= len(said) <= MAX_AUDIT_LABEL
    assert said.isascii()
    assert not any(unicodedata.category(character).startswith("C") for character in said)
    assert 1 <= len(issuer) <= MAX_ISSUER
    assert rest == (label or ""), "what follows the first separator is the label"
    if not (label or "").strip():
        assert not separator.strip() or rest == ""


@given(st.text(max_size=120), st.from_regex(r"[A-Za-z0-9_]{1,100}", fullmatch=True))
def test_a_label_of_one_word_leaves_exactly_one_separator(name: str, label: str) -> None:
    assert audit_label(name, "cli:someone", label).count(SEPARATOR) == 1


def test_the_hash_is_made_as_it_is_documented() -> None:
    row = {name: f"value of {name}" for name in HASHED_FIELDS} | {"audit_id": 7, "created_at": NOW, "label": None}
    values = [row[name] for name in HASHED_FIELDS]
    values[HASHED_FIELDS.index("created_at")] = "2026-02-05T14:30:15.234567Z"
    documented = json.dumps(values, separators=(",", ":"), ensure_ascii=True)
    assert row_hash(row) == hashlib.sha256(documented.encode()).hexdigest()
    assert len(GENESIS) == len(row_hash(row))


def test_the_hash_is_the_same_for_the_same_moment_in_another_zone() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=9)))
    assert row_hash({"created_at": NOW}) == row_hash({"created_at": there})


def test_the_hash_sees_every_field() -> None:
    assert len({row_hash({name: "x"}) for name in HASHED_FIELDS}) == len(HASHED_FIELDS)


def test_task_ids_sort_by_time_and_do_not_meet() -> None:
    ids = [new_task_id(NOW) for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {text[: -TAIL - 1] for text in ids} == {"task_20260205_143015"}
    assert max(ids) < new_task_id(NOW + timedelta(seconds=1))


def test_a_job_says_who_asked_and_can_not_be_changed_through_its_parameters() -> None:
    params = {"steps": 1}
    job = Job(1, "H", "t", "W", "pause", params, "hotfix", Issuer("slack:T/U1", ""), "slack", JobState.QUEUED, NOW)
    params["steps"] = 10
    assert (job.params["steps"], job.audit_label) == (1, "U1 - hotfix")
    with pytest.raises(TypeError):
        job.params["steps"] = 2  # type: ignore[index]


def test_a_command_must_be_somebody_s() -> None:
    command = Command("pause", label="hotfix")
    with pytest.raises(ValueError, match="issuer"):
        _ = command.audit_label
    issued = command.issued(Issuer("cli:anna", "anna"), "t1")
    assert (issued.audit_label, issued.task_id, command.task_id) == ("anna - hotfix", "t1", "")


@given(st.text(st.characters(), max_size=30))
@example("can't read '\udcff'")
@example("\0")
def test_the_error_of_an_outcome_can_always_be_stored(error: str) -> None:
    stored = Outcome.failed(error).error
    assert stored is not None
    assert "\0" not in stored
    assert stored.encode().decode() == stored
    if error.isprintable():
        assert stored == error


@pytest.mark.parametrize("said", ["clear \x1b[2J", "a byte \udcff", "a nul \0", "back \r to the beginning"])
def test_the_sentences_of_an_outcome_may_be_shown_on_any_terminal(said: str) -> None:
    outcome = Outcome.failed(said, message=said, push_error=said, exact=said)
    for sentence in (outcome.error, outcome.details["message"], outcome.details["push_error"]):
        assert str(sentence).isprintable()
        str(sentence).encode()
    assert outcome.details["exact"] == said
    assert Outcome.failed("two\nlines\tof ü").error == "two\nlines\tof ü"


@pytest.mark.parametrize(("typed", "remedy"), [("rolback", "Did you mean rollback?"), ("qwxyz", "Try a command")])
def test_an_unknown_command_of_a_search_says_what_to_try(typed: str, remedy: str) -> None:
    with pytest.raises(UsageError) as raised:
        audit_filter(Command("audit", params={"command": typed, "limit": 1}), NOW)
    assert raised.value.remedy.startswith(remedy)
