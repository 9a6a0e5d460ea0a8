"""The catalog: complete, without contradiction, and as the design names things."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor_core.commands.catalog import (
    CATALOG,
    FLAG_HANDLERS,
    HANDLERS,
    by_handler,
    check_params,
)
from supervisor_core.commands.definitions import (
    KEEP_GOING,
    CommandDefinition,
    Right,
    Risk,
    Spread,
    Tier,
)
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.parameters import ParameterError
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.common.errors import UsageError

CONTEXT = GrammarContext(("OrionMX", "VegaMX"), {"archive": ("OrionMX",)}, "OrionMX")
EVERY = list(CATALOG.values())
WITH_HANDLER = [definition for definition in EVERY if definition.handler]


def _of(name: str) -> CommandDefinition:
    return CATALOG[name]


def test_every_command_of_the_design_is_there() -> None:
    assert set(CATALOG) == {
        "overview", "help", "status", "why", "logs", "history", "audit", "approvals", "alerts", "teams",
        "diagnostics", "verify-db", "pause", "resume", "restart", "mute", "unmute", "monitoring pause",
        "monitoring resume", "schedule add", "schedule list", "schedule remove", "update", "update-deps",
        "rollback", "undo", "rolling status", "rolling pause", "rolling continue", "rolling abort", "rolling undo",
    }  # fmt: skip


def test_the_handlers_are_those_that_flags_may_name() -> None:
    assert set(HANDLERS) == {definition.handler for definition in WITH_HANDLER}
    assert len(HANDLERS) == len(set(HANDLERS)) == len(WITH_HANDLER)
    assert all(by_handler(handler) is not None for handler in FLAG_HANDLERS)


def test_code_goes_first_then_the_worker_and_then_reports() -> None:
    tiers = {name: {definition.handler for definition in WITH_HANDLER if definition.tier is name} for name in Tier}
    assert tiers[Tier.EMERGENCY] == set()
    assert tiers[Tier.CODE] == {"update_code", "update_code_deps", "rollback_code", "undo_code"}
    assert tiers[Tier.LIFECYCLE] == {"pause", "resume", "restart_watcher"}
    assert tiers[Tier.REPORT] == {"diagnostics", "verify_db"}
    assert Tier.EMERGENCY < Tier.CODE < Tier.LIFECYCLE < Tier.REPORT < Tier.NEVER_QUEUED


def test_code_changes_go_from_one_worker_to_the_next_restarts_to_a_few_and_the_rest_runs_at_once() -> None:
    in_turn = {definition.name for definition in EVERY if definition.spread is Spread.IN_TURN}
    assert in_turn == {"update", "update-deps", "rollback", "undo"}
    assert [definition.name for definition in EVERY if definition.spread is Spread.LIMITED] == ["restart"]


@pytest.mark.parametrize("definition", EVERY, ids=lambda definition: definition.name)
def test_what_stops_at_a_failure_and_nothing_else_can_be_told_to_keep_going(definition: CommandDefinition) -> None:
    in_turn = definition.spread is not Spread.AT_ONCE
    assert (KEEP_GOING in definition.options) is in_turn
    assert KEEP_GOING.word not in definition.usage, "it is for several workers, and the design has the usage without"
    if in_turn:
        assert check_params(definition, {"keep_going": True})["keep_going"] is True
    else:
        with pytest.raises(ParameterError, match="has no parameter 'keep_going'"):
            check_params(definition, {"keep_going": True})


def test_approval_is_needed_for_every_change_of_code() -> None:
    assert {definition.name for definition in EVERY if definition.needs_approval} == {
        "rollback",
        "undo",
        "update",
        "update-deps",
    }


def test_viewers_may_look_at_all_but_logs_history_and_the_audit_trail() -> None:
    viewers = {definition.name for definition in EVERY if definition.right is Right.VIEWER}
    assert viewers == {"overview", "help", "status", "alerts", "approvals", "teams", "why"}
    assert all(_of(name).risk is Risk.READS for name in viewers)


@pytest.mark.parametrize(
    ("definition", "example"),
    [(definition, example) for definition in EVERY for example in definition.examples],
)
def test_every_example_does_what_its_command_does(definition: CommandDefinition, example: str) -> None:
    command = parse(example, CONTEXT)
    assert command.name == definition.name
    assert parse(render(command), CONTEXT) == command


def test_what_is_left_out_or_null_gets_its_default() -> None:
    assert dict(check_params(_of("rollback"), {})) == {"commits_back": 1}
    assert dict(check_params(_of("rollback"), None)) == {"commits_back": 1}
    assert dict(check_params(_of("rollback"), {"commits_back": None})) == {"commits_back": 1}
    assert dict(check_params(_of("update"), {})) == {"reset": False}
    assert dict(check_params(_of("undo"), {})) == {"task_id": None}
    assert dict(check_params(_of("pause"), {})) == {}


@pytest.mark.parametrize(
    ("name", "params", "key"),
    [
        ("rollback", {"commits_back": 0}, "commits_back"),
        ("rollback", {"commits_back": 11}, "commits_back"),
        ("rollback", {"commits_back": 10**5000}, "commits_back"),
        ("rollback", {"commits_back": True}, "commits_back"),
        ("rollback", {"commits_back": "3"}, "commits_back"),
        ("rollback", {"commits_back": 3.0}, "commits_back"),
        ("rollback", {"commits_back": [1]}, "commits_back"),
        ("rollback", {"commitsback": 3}, "commitsback"),
        ("rollback", {"n": 3}, "n"),
        ("rollback", {"\ud800\n": 3}, "\ud800\n"),
        ("rollback", {7: 3}, "7"),
        ("rollback", [], "params"),
        ("pause", {"x": 1}, "x"),
        ("update", {"reset": 1}, "reset"),
        ("update", {"reset": "true"}, "reset"),
        ("undo", {"task_id": "../x"}, "task_id"),
        ("undo", {"task_id": "x\n"}, "task_id"),
        ("undo", {"task_id": ""}, "task_id"),
        ("undo", {"task_id": "x" * 129}, "task_id"),
        ("mute", {"seconds": 59}, "seconds"),
        ("mute", {"seconds": True}, "seconds"),
        ("mute", {"reason": "x" * 201}, "reason"),
        ("mute", {"reason": "a\nb"}, "reason"),
        ("history", {"span": "12h"}, "span"),
        ("audit", {"since": "tomorrow"}, "since"),
        ("audit", {"by": " @ "}, "by"),
        ("schedule add", {"name": "n", "cron": "* * *", "command": "status"}, "cron"),
        ("schedule add", {"name": "n", "cron": "* * * * ;", "command": "status"}, "cron"),
        ("schedule add", {"name": "a b", "cron": "* * * * *", "command": "status"}, "name"),
        ("schedule add", {"cron": "* * * * *", "command": "status"}, "name"),
        ("schedule add", {"name": "n", "cron": "* * * * *", "command": "  "}, "command"),
    ],
)
def test_wrong_parameters_are_refused_by_name(name: str, params: Any, key: str) -> None:
    with pytest.raises(ParameterError) as caught:
        check_params(_of(name), params)
    error = caught.value
    assert isinstance(error, UsageError)
    assert error.key == key
    assert ascii(key)[1:-1] in error.message
    assert len(error.message) < 300
    error.message.encode()


def test_a_change_in_batches_has_its_own_limit_of_failures() -> None:
    assert dict(check_params(_of("restart"), {"batch": "10%", "healthy": 0})) == {"batch": "10%", "healthy": 0}
    with pytest.raises(ParameterError, match="Use --max-failures instead of --keep-going"):
        check_params(_of("restart"), {"batch": "10%", "keep_going": True})
