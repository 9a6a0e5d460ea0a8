"""Flags: whatever lies on the drive becomes an order, a refusal with its reason, or a wait; never anything else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor_core.commands.command import Issuer
from supervisor_core.commands.flags import (
    CLOCK_SKEW,
    MAX_DEPTH,
    FlagCommand,
    FlagIncomplete,
    FlagName,
    FlagRejected,
    Trust,
    parse_body,
    parse_name,
    parse_unknown_name,
    sign,
    suggest_name,
)
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
NAME = FlagName("pause", "OrionMX", None)
SECRET = "a long secret"
TRUST = Trust(SECRET, timedelta(hours=1), "TestHost")


def order(body: object, name: FlagName = NAME, trust: Trust | None = None) -> FlagCommand:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_body(data, name, "task_made", NOW, trust)


def rejection(body: object, name: FlagName = NAME, trust: Trust | None = None) -> str:
    with pytest.raises(FlagRejected) as caught:
        order(body, name, trust)
    return str(caught.value)


def signed(secret: str = SECRET, issued_at: object = "2026-02-05T14:30:00Z", **more: Any) -> dict[str, Any]:
    about = {"task_id": "t1", "handler": "pause", "worker_id": "OrionMX", "supervisor_id": "TestHost"}
    body = {**about, "issued_at": issued_at, **more}
    return {**body, "signature": sign(body, secret)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("supervisor_pause_OrionMX.flag", ("pause", "OrionMX", None)),
        ("supervisor_pause_OrionMX_task_20260205_001.flag", ("pause", "OrionMX", "task_20260205_001")),
        ("supervisor_pause_watcher_OrionMX.flag", ("pause", "OrionMX", None)),
        ("supervisor_resume_watcher_OrionMX_t.flag", ("resume", "OrionMX", "t")),
        ("supervisor_update_code_deps_W_t1.flag", ("update_code_deps", "W", "t1")),
        ("supervisor_update_code_W_deps.flag", ("update_code", "W", "deps")),
        ("supervisor_verify_db_a.b-c.flag", ("verify_db", "a.b-c", None)),
        (f"supervisor_pause_{'w' * 64}_{'t' * 128}.flag", ("pause", "w" * 64, "t" * 128)),
    ],
)
def test_a_name_says_handler_worker_and_task_and_the_longest_handler_wins(name: str, expected: tuple[str, ...]) -> None:
    assert parse_name(name) == FlagName(*expected)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".flag",
        "supervisor_.flag",
        "supervisor_pause.flag",
        "supervisor_pause_.flag",
        "supervisor_pause_OrionMX_.flag",
        "supervisor_pause_OrionMX.FLAG",
        "supervisor_PAUSE_OrionMX.flag",
        "supervisor_pause_OrionMX_t 1.flag",
        "supervisor_pause_OrionMX\n.flag",
        "supervisor_pause_OrionMX_t\n.flag",
        "supervisor_pause_-x.flag",
        "supervisor_pause_Ori\u00f6n.flag",
        f"supervisor_pause_{'w' * 65}.flag",
        f"supervisor_pause_W_{'t' * 129}.flag",
        "supervisor_dance_OrionMX.flag",
        "job_pause_OrionMX.flag",
        "supervisor_pause_OrionMX.flag.tmp",
    ],
)
def test_any_other_name_is_no_flag_of_ours(name: str) -> None:
    assert parse_name(name) is None


@pytest.mark.parametrize(
    ("name", "worker"),
    [
        ("supervisor_dance_OrionMX.flag", "OrionMX"),
        ("supervisor_dance_hard_OrionMX_t1.flag", "OrionMX"),
        ("supervisor_pause_OrionMX_.flag", "OrionMX"),
        ("supervisor_\udcff_OrionMX.flag", "OrionMX"),
        ("supervisor_dance_Other.flag", None),
        ("supervisor_dance_OrionMX2.flag", None),
        ("supervisor_pause_OrionMX.flag", None),
        ("dance_OrionMX.flag", None),
    ],
)
def test_a_handler_nobody_knows_is_still_found_to_be_for_our_worker(name: str, worker: str | None) -> None:
    assert parse_unknown_name(name, ("OrionMX", "West")) == worker


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("rollback_OrionMX", "rollback_code_OrionMX"),
        ("restart_OrionMX_t7", "restart_watcher_OrionMX_t7"),
        ("update_deps_OrionMX_t_7", "update_code_deps_OrionMX_t_7"),
        ("rolback_code_OrionMX", "rollback_code_OrionMX"),
        ("status_OrionMX", None),
        ("dance_OrionMX", None),
        ("rollback_Elsewhere", None),
        ("rollback_OrionMX_t 7", None),
    ],
)
def test_a_command_in_the_place_of_its_handler_suggests_the_right_name(written: str, meant: str | None) -> None:
    expected = f"supervisor_{meant}.flag" if meant else ""
    assert suggest_name(f"supervisor_{written}.flag", ("OrionMX", "West")) == expected


@given(st.text(max_size=60) | st.text(max_size=60).map(lambda text: f"supervisor_pause_{text}.flag"))
@settings(max_examples=examples(150))
def test_any_file_name_is_a_flag_or_is_none(name: str) -> None:
    assert isinstance(parse_name(name), (FlagName, type(None)))
    assert parse_unknown_name(name, ("OrionMX",)) in (None, "OrionMX")
    assert suggest_name(name, ("OrionMX",)) == "" or parse_name(suggest_name(name, ("OrionMX",)))


def test_a_whole_flag_is_an_order() -> None:
    body = {"task_id": "t1", "handler": "pause_watcher", "worker_id": "OrionMX", "label": " hotfix ", "params": None}
    assert order({**body, "more": 1, "comment": ""}) == FlagCommand(
        "pause", "OrionMX", "t1", {}, "hotfix", None, (), ("comment", "more")
    )


def test_what_is_left_out_comes_from_the_name_or_is_made() -> None:
    assert order({}).task_id == "task_made"
    assert order({}, FlagName("pause", "OrionMX", "t9")).task_id == "t9"
    assert order({"label": None, "params": None, "task_id": None}).label is None


def test_a_byte_order_mark_does_no_harm() -> None:
    assert order(b'\xef\xbb\xbf{"label": "x"}').label == "x"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \r\n\t ",
        b"{",
        b'{"task_id": "t',
        b"not json",
        b"\0" * 100,
        b'{"label": "\xff"}',
        b'\xff\xfe{\0"\0',
        b'{"label": "a\x00b"}',
        b"{} {}",
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_empty_or_no_json_may_yet_become_whole(data: bytes) -> None:
    with pytest.raises(FlagIncomplete) as caught:
        order(data)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "not a list"),
        (b"null", "not null"),
        (b"true", "not true or false"),
        (b"7", "not a number"),
        (b'"x"', "not text"),
        (b'{"label": "a", "label": "b"}', "twice"),
        (b'{"params": {"a": 1, "a": 2}}', "twice"),
        (b'{"x": NaN}', "NaN"),
        (b'{"x": -Infinity}', "-Infinity"),
        (b'{"x": 1e400}', "too large"),
        (b"[" * 60_000, "too deeply"),
        (b'{"params": ' + b"[" * 900 + b"]" * 900 + b"}", "too deeply"),
        ({"handler": 7}, "handler must be text, not a number"),
        ({"worker_id": ["OrionMX"]}, "worker_id must be text, not a list"),
        ({"task_id": {}}, "task_id must be text, not an object"),
        ({"label": True}, "label must be text, not true or false"),
        ({"params": [1]}, "params must be a JSON object, not a list"),
        ({"params": "n"}, "params must be a JSON object, not text"),
        ({"handler": "resume"}, "'pause', but the content has 'resume'"),
        ({"handler": ""}, "the content has ''"),
        ({"handler": "\ud800"}, r"'\ud800'"),
        ({"worker_id": "Other"}, "'OrionMX', but the content has 'Other'"),
        ({"worker_id": "orionmx"}, "the content has 'orionmx'"),
        ({"task_id": "a b"}, "task_id must be"),
        ({"task_id": "../../etc"}, "task_id must be"),
        ({"task_id": "t" * 129}, "task_id must be"),
        ({"task_id": "t\n"}, "task_id must be"),
        ({"task_id": "\ud800"}, "task_id must be"),
        ({"label": "a\nb"}, r"'\n'"),
        ({"label": "x" * 101}, "101"),
        ({"label": "\ud800"}, r"'\ud800'"),
        ({"label": "a\u0000"}, r"'\x00'"),
        ({"params": {"n": 1}}, "no parameter 'n'"),
        ({"params": {"\ud800": 1}}, r"'\ud800'"),
        ({"issuer": {"id": "slack:T/U", "name": "boss"}}, "need a signature"),
        ({"issuer": None}, "need a signature"),
        ({"approvals": []}, "need a signature"),
    ],
)
def test_what_can_not_be_followed_is_refused_with_its_reason(body: object, said: str) -> None:
    reason = rejection(body)
    assert said in reason
    reason.encode()  # it goes into files and databases


def test_a_flag_of_the_old_console_has_its_job_and_an_empty_list_of_parameters() -> None:
    found = order({"task_id": "task_20260205_101500_ab12", "job_id": 7, "label": None, "params": []})
    assert (found.params, found.ignored) == (order({}).params, ())


def test_name_and_content_must_agree_on_the_task() -> None:
    assert "'t1', but the content has 't2'" in rejection({"task_id": "t2"}, FlagName("pause", "OrionMX", "t1"))
    assert order({"task_id": "t1"}, FlagName("pause", "OrionMX", "t1")).task_id == "t1"


@pytest.mark.parametrize("steps", [0, 11, -1, True, "3", 3.0, 10**4000, None, [3], {}])
def test_the_parameters_of_a_rollback_are_whole_numbers_from_1_to_10(steps: object) -> None:
    name = FlagName("rollback_code", "OrionMX", None)
    key = next(iter(order({}, name).params))
    assert order({"params": {key: 3}}, name).params[key] == 3
    if steps is None:
        assert order({"params": {key: None}}, name).params[key] == 1
    else:
        assert len(rejection({"params": {key: steps}}, name)) < 200


@pytest.mark.parametrize("levels", [MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 100])
def test_the_limit_of_depth_is_the_same_whatever_python_can_follow(levels: int) -> None:
    body = b'{"x": ' + b"[" * levels + b"]" * levels + b"}"
    if levels < MAX_DEPTH:
        assert order(body).ignored == ("x",)
    else:
        assert "too deeply" in rejection(body)


def test_a_rightly_signed_flag_carries_its_issuer_and_approvals() -> None:
    votes = [{"id": "slack:T/U2", "name": "bob", "at": "2026-02-05T14:29:00Z"}]
    found = order(signed(issuer={"id": "slack:T/U1", "name": "Zoë 🙂"}, approvals=votes), trust=TRUST)
    assert found.issuer == Issuer("slack:T/U1", "Zoë 🙂")
    assert found.approvals == tuple(votes)
    assert order(signed(), trust=TRUST).issuer is None


def test_the_signature_is_over_canonical_json_whatever_the_order_of_keys() -> None:
    body = signed(label="x")
    assert order(dict(reversed(body.items())), trust=TRUST).label == "x"
    spaced = json.dumps(body, indent=4, ensure_ascii=False).encode()
    assert order(spaced, trust=TRUST).label == "x"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label": "other"}, "doesn't match"),
        ({"signature": "0" * 64}, "doesn't match"),
        ({"signature": "\ud800"}, "doesn't match"),
        ({"signature": "é"}, "doesn't match"),
        ({"signature": 7}, "doesn't match"),
        ({"signature": [1]}, "doesn't match"),
        ({"signature": ""}, "needs signature"),
        ({"signature": None}, "needs signature"),
        ({"issued_at": ""}, "needs issued_at"),
        ({"task_id": None}, "needs task_id"),
        ({"added": {"\ud800": ["\ud800"]}}, "doesn't match"),
    ],
)
def test_a_signature_that_is_wrong_or_missing_is_no_signature(change: Mapping[str, Any], said: str) -> None:
    assert said in rejection({**signed(), **change}, trust=TRUST)


def test_another_secret_signs_nothing_for_us() -> None:
    assert "doesn't match" in rejection(signed(secret="guess"), trust=TRUST)
    assert "needs signature, issued_at" in rejection({}, trust=TRUST)


@pytest.mark.parametrize(
    ("issued_at", "said"),
    [
        ("2026-02-05T13:30:14Z", "longer ago"),
        ("1970-01-01T00:00:00Z", "longer ago"),
        ("2026-02-05T14:35:16Z", "in the future"),
        ("9999-12-31T23:59:59Z", "in the future"),
        ("2026-02-05T14:30:00", "ISO 8601"),
        ("2026-02-05", "ISO 8601"),
        ("now", "ISO 8601"),
        (1770301815, "ISO 8601"),
        (["2026-02-05T14:30:00Z"], "ISO 8601"),
        ("0001-01-01T00:00:00+23:59", "ISO 8601"),
        ("9999-12-31T23:59:59-23:59", "ISO 8601"),
        ("2020-02-05\ud80014:30:00Z", "longer ago"),
        ("2020-02-05\n14:30:00Z", "longer ago"),
    ],
)
def test_a_signed_flag_must_be_of_now(issued_at: object, said: str) -> None:
    reason = rejection(signed(issued_at=issued_at), trust=TRUST)
    assert said in reason
    assert reason.isprintable()


@pytest.mark.parametrize("age", [timedelta(0), TRUST.max_age, -CLOCK_SKEW])
def test_the_bounds_of_its_age_are_still_good(age: timedelta) -> None:
    assert order(signed(issued_at=(NOW - age).isoformat()), trust=TRUST).task_id == "t1"


@pytest.mark.parametrize(
    "issuer",
    [
        {},
        [],
        "slack:T/U",
        {"id": ""},
        {"id": 7},
        {"id": None, "name": "x"},
        {"id": "slack:T/U", "name": 7},
        {"id": "slack:T/U", "name": None},
        {"id": "slack:\ud800"},
        {"id": "slack:T/U", "name": "\udfff"},
        {"id": "slack:T/U\u0000"},
        {"id": "slack:T/U", "name": "a\u0000b"},
        {"id": "slack:T/U", "name": "a\nb"},
        {"id": "slack:T/U", "name": "a\u2028b"},
        {"id": "u" * 129},
        {"id": "slack:T/U", "name": "n" * 256},
    ],
)
def test_an_issuer_that_a_database_could_not_keep_is_refused_even_when_signed(issuer: object) -> None:
    assert "issuer must be" in rejection(signed(issuer=issuer), trust=TRUST)


@pytest.mark.parametrize(
    "approvals",
    [
        {},
        "",
        0,
        False,
        "bob",
        [7],
        [{}],
        [{"id": ""}],
        [{"id": 7}],
        [{"id": "u", "name": 7}],
        [{"id": "u", "at": ["x"]}],
        [{"id": "\ud800"}],
        [{"id": "u", "name": "\u0000"}],
        [{"id": "ok"}, {"name": "nobody"}],
    ],
)
def test_approvals_that_are_none_are_refused_even_when_signed(approvals: object) -> None:
    assert "approvals must be" in rejection(signed(approvals=approvals), trust=TRUST)


def test_a_signature_for_one_worker_is_worth_nothing_in_the_name_of_another() -> None:
    assert "'West'" in rejection(signed(), FlagName("pause", "West", None), TRUST)
    assert "'resume'" in rejection(signed(), FlagName("resume", "OrionMX", None), TRUST)


_any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inside),
    max_leaves=8,
)
_keys = st.sampled_from(
    ["task_id", "handler", "worker_id", "label", "params", "issuer", "approvals", "issued_at", "signature", "x"]
)


def judged(data: bytes, trust: Trust | None) -> None:
    try:
        found = parse_body(data, NAME, "task_made", NOW, trust)
    except (FlagRejected, FlagIncomplete) as error:
        str(error).encode()
    else:
        f"{found.task_id}{found.label}{found.issuer}".encode()


@given(st.binary(max_size=200), st.sampled_from([None, TRUST]))
@example(b'{"signature":"\\ud800","issued_at":1,"handler":1,"worker_id":1,"task_id":1}', TRUST)
@settings(max_examples=examples(150))
def test_any_bytes_are_an_order_a_refusal_or_a_wait(data: bytes, trust: Trust | None) -> None:
    judged(data, trust)


@given(st.dictionaries(_keys, _any_json, max_size=6), st.booleans())
@settings(max_examples=examples(200))
def test_any_json_in_any_field_is_an_order_a_refusal_or_a_wait(body: dict[str, Any], is_signed: bool) -> None:
    """Signed with the right secret as well: then every field is looked at."""
    if is_signed:
        body = {"task_id": "t1", "handler": "pause", "worker_id": "OrionMX", "issued_at": NOW.isoformat()} | body
        body["signature"] = sign(body, SECRET)
    judged(json.dumps(body).encode(), TRUST if is_signed else None)
