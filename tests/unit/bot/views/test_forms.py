"""Forms: golden files of the picker and of each command's form, the longest there can be, and what is read from them.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_forms.py`, then look at the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.requests.form_actions import WORKING
from bot.requests.forms import read_choice, read_form
from bot.views import forms as views
from bot.views.blocks import context as small_print
from bot.views.blocks import section
from bot.views.cards.preview import ON_A_CARD, previews_as_text
from bot.views.forms import (
    COMMITS,
    LABEL,
    MOST_OPTIONS,
    TARGET,
    LivePreview,
    block_id_of,
    command_form,
    command_picker,
    commit_menu,
    field_of,
    form_context,
    matching_options,
    submit_text,
)
from slack_playground.blockkit.messages import check_options
from slack_playground.blockkit.views import check_view
from supervisor_core.code.change_plan import Commit
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Risk, TargetRule
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.labels import clean_note, validate_label
from supervisor_core.commands.parameters import Parameter, ParameterKind, check_value
from supervisor_core.commands.targets import GrammarContext
from tests.support.golden import are_as_last_seen
from tests.support.intake.approval_states import seen
from tests.support.sampling import examples
from tests.support.slack.forms import filled
from tests.unit.commands.test_grammar_properties import FREE, FULL, NASTY, PIECES, WORKERS, commands

CONTEXT = GrammarContext(("OrionMX", "vega"), {"archive": ("vega",), "empty": ()})
MANY = GrammarContext(tuple(f"W{number:03}{'x' * 60}" for number in range(300)), {"t" * 64: ("W000" + "x" * 60,)})
EVERY = list(CATALOG.values())


def checked(view: dict[str, Any]) -> dict[str, Any]:
    assert check_view(view) == []
    return view


def commit(number: int, subject: str = "") -> Commit:
    name = f"{number:x}" * 40
    return Commit(name, name, (name,), datetime(2026, 2, 5, tzinfo=UTC), "Ada", subject or f"Change {number}")


(COUNT,) = (each for each in CATALOG["rollback"].parameters if each.name == COMMITS)


def previewed(known: Command, commits: list[Commit], chosen: int) -> dict[str, Any]:
    menu = commit_menu(COUNT, commits, chosen)
    texts = [section(text) for text in previews_as_text(seen("rollback"), ON_A_CARD)]
    shown = LivePreview([section("*Preview*"), *texts], menu)
    return command_form(CATALOG["rollback"], CONTEXT, "C0OPS", approval=True, filled=known, preview=shown)


@pytest.mark.parametrize(("commits", "chosen", "options"), [(10, 1, 10), (3, 3, 3), (2, 3, 10), (0, 1, 10)])
def test_the_menu_of_commits_has_those_that_are_there_or_numbers_alone(commits: int, chosen: int, options: int) -> None:
    view = checked(previewed(parse("rollback OrionMX", CONTEXT), [commit(n) for n in range(1, commits + 1)], chosen))
    (menu,) = (each for each in view["blocks"] if field_of(each.get("block_id", "")) == "param:commits_back")
    assert len(menu["element"]["options"]) == options
    assert menu["element"]["initial_option"]["value"] == str(chosen)
    assert ("@" in menu["block_id"]) == (options == commits)
    assert read_form(filled(view), CONTEXT) == f"rollback OrionMX {chosen}"
    choice = read_choice(filled(view, {"label": "wrong <label>"}), CONTEXT)
    assert choice is not None
    assert (choice.params["commits_back"], choice.workers, choice.label) == (chosen, ("OrionMX",), None)


def test_an_error_stands_at_the_menu_of_commits_although_its_id_names_a_commit() -> None:
    view = previewed(parse("rollback OrionMX", CONTEXT), [commit(1)], 1)
    (menu,) = (each["block_id"] for each in view["blocks"] if "@" in each.get("block_id", ""))
    assert list(read_form(filled(view, {menu: "99"}), CONTEXT)) == [menu]


@pytest.mark.parametrize("definition", EVERY, ids=lambda each: each.name)
def test_every_form_says_what_it_does_and_fits_with_the_longest_there_can_be(definition: CommandDefinition) -> None:
    assert len(submit_text(definition)) <= views.TITLE
    for context in (CONTEXT, MANY, GrammarContext(()), GrammarContext(MANY.workers[:99])):
        checked(command_form(definition, context, "C" * 30, "1" * 30, approval=True))
    known = Command(definition.name, target="W*" + "x" * 98, label="l" * 100)
    checked(command_form(definition, MANY, filled=known))
    checked(command_form(definition, CONTEXT, filled=known))


def target_of(view: Mapping[str, Any]) -> dict[str, Any]:
    (block,) = [block for block in view["blocks"] if block["block_id" if "block_id" in block else "type"] == TARGET]
    element: dict[str, Any] = block["element"]
    return element


def test_targets_are_workers_teams_that_have_some_and_all() -> None:
    element = target_of(command_form(CATALOG["pause"], CONTEXT))
    assert [(each["text"]["text"], each["value"]) for each in element["options"]] == [
        ("OrionMX", "OrionMX"),
        ("vega", "vega"),
        ("team:archive", "team:archive"),
        ("all workers", "all"),
    ]
    assert "initial_option" not in element
    assert (
        target_of(command_form(CATALOG["pause"], GrammarContext(("A", "B"), {}, "B")))["initial_option"]["value"] == "B"
    )


def test_more_targets_than_a_menu_holds_are_asked_for() -> None:
    assert target_of(command_form(CATALOG["pause"], GrammarContext(MANY.workers[:99])))["type"] == "static_select"
    element = target_of(command_form(CATALOG["pause"], MANY))
    assert (element["type"], element["min_query_length"]) == ("external_select", 0)


def found(query: str, context: GrammarContext = MANY) -> list[str]:
    options = matching_options(query, context)
    assert not options or check_options({"options": options}) == []
    assert len(options) <= MOST_OPTIONS
    return [option["value"] for option in options]


def test_what_begins_as_it_was_typed_comes_first_and_a_pattern_is_a_target() -> None:
    few = GrammarContext(("eva", "vega", "VE"), {"vex": ("eva",)})
    assert found("v", few) == ["vega", "VE", "eva", "team:vex"]
    assert found(" VE ", few) == ["vega", "VE", "team:vex"]
    assert found("v*", few) == ["v*"]
    assert found("x*", few) == []
    assert found("all", few) == ["all"]
    assert found("", few) == ["eva", "vega", "VE", "team:vex", "all"]
    assert len(found("")) == MOST_OPTIONS
    assert found("W123") == [MANY.workers[123]]


@given(st.text(max_size=200) | NASTY)
def test_whatever_is_typed_into_the_menu_slack_takes_the_options(query: str) -> None:
    found(query)
    found(query, FULL)


# What is read from a form.


def said(name: str, context: GrammarContext = CONTEXT, **values: str | None) -> Any:
    """What is read from this form; `param_N` stands for the field of the parameter N."""
    given_values = {key.replace("param_", "param:"): value for key, value in values.items()}
    return read_form(filled(command_form(CATALOG[name], context), given_values), context)


@pytest.mark.parametrize(
    ("name", "values", "block", "words"),
    [
        ("pause", {}, "target", "Choose a worker."),
        ("pause", {"target": "team:empty"}, "target", "has no workers on this host"),
        ("rollback", {"target": "vega", "param_commits_back": "11"}, "param:commits_back", "1 to 10"),
        ("undo", {"target": "vega", "param_task_id": "last"}, "param:task_id", "isn't valid"),
        ("mute", {"target": "vega", "param_seconds": "soon"}, "param:seconds", "isn't valid: duration"),
        ("mute", {"target": "vega", "param_reason": "a\nb"}, "param:reason", "one line of printable text"),
        ("schedule add", {}, "param:name", "needs NAME"),
        (
            "schedule add",
            {"param_name": "n", "param_cron": "now", "param_command": "status all"},
            "param:cron",
            "five fields",
        ),
        (
            "schedule add",
            {"param_name": "n", "param_cron": "0 3 * * *", "param_command": "undo all"},
            "param:command",
            "can't be scheduled",
        ),
        ("help", {"param_topic": "nonsense"}, "param:topic", "There's no command"),
    ],
)
def test_a_mistake_stands_at_its_field(name: str, values: dict[str, str], block: str, words: str) -> None:
    errors = said(name, CONTEXT, **values)
    assert list(errors) == [block]
    assert words in errors[block]


def test_every_mistake_is_said_at_once_and_none_is_longer_than_people_read() -> None:
    errors = said("mute", target="nobody", param_seconds="x" * 3000, param_reason="\0")
    assert set(errors) == {"target", "param:seconds", "param:reason"}
    assert all(len(words) <= 300 for words in errors.values())


def test_a_form_of_a_command_that_is_gone_says_so() -> None:
    view = filled(command_form(CATALOG["pause"], CONTEXT), {"target": "vega"})
    view["private_metadata"] = view["private_metadata"].replace('"pause"', '"paws"')
    assert "open it again" in read_form(view, CONTEXT)["target"]  # type: ignore[index]
    for odd in ("", "[]", "{", '{"x": 1}', "7"):
        assert form_context({"private_metadata": odd}) == views.FormContext()


WORDS = st.sampled_from(PIECES) | NASTY | FREE | st.text(max_size=40)
CONTEXTS = st.sampled_from(
    [
        CONTEXT,
        FULL,
        GrammarContext(("OrionMX",)),
        GrammarContext(WORKERS, {"archive": ("vega", "OrionMX"), "none": ()}),
    ]
)
REST = (ParameterKind.COMMAND, ParameterKind.TOPIC)


@st.composite
def filled_in(draw: st.DrawFn) -> tuple[CommandDefinition, GrammarContext, dict[str, str | None]]:
    """A form with anything at all in any of its fields."""
    definition, context = draw(st.sampled_from(EVERY)), draw(CONTEXTS)
    good = {
        ParameterKind.NUMBER: st.sampled_from(["1", "3", "10"]),
        ParameterKind.DURATION: st.sampled_from(["2h", "1d"]),
        ParameterKind.TASK_ID: st.just("task_1"),
        ParameterKind.CHOICE: st.sampled_from(["24h", "7d"]),
        ParameterKind.SINCE: st.sampled_from(["2d", "2026-01-31"]),
        ParameterKind.PERSON: st.just("U0OPER"),
        ParameterKind.NAME: st.just("nightly"),
        ParameterKind.CRON: st.just("0 3 * * *"),
        ParameterKind.COMMAND: st.just("restart OrionMX now"),
        ParameterKind.FLAG: st.just("reset"),
    }
    values: dict[str, str | None] = {}
    for parameter in definition.parameters:
        odd = WORDS if parameter.kind is not ParameterKind.FLAG else st.just("reset")
        values[block_id_of(parameter)] = draw(st.none() | good.get(parameter.kind, WORDS) | odd)
    values[TARGET] = draw(st.none() | st.sampled_from([*context.workers, "all", "team:archive", "*"]) | WORDS)
    values[LABEL] = draw(st.none() | st.just("hotfix") | st.just("task_9 or 3") | WORDS)
    return definition, context, values


def meant(parameter: Parameter, text: str | None) -> object:
    """What a field means where it is right; only for what is one value."""
    text = (text or "").strip()
    if parameter.kind is ParameterKind.FLAG:
        return bool(text)
    if not text:
        return parameter.default
    if parameter.kind is ParameterKind.NUMBER:
        return int(text)
    if parameter.kind is ParameterKind.DURATION:
        return None
    return check_value(parameter, text)


@given(filled_in())
@settings(max_examples=examples(1500))
def test_whatever_is_typed_the_command_has_exactly_these_parts_or_an_error_stands_at_a_field(
    made: tuple[CommandDefinition, GrammarContext, dict[str, str | None]],
) -> None:
    definition, context, values = made
    view = filled(command_form(definition, context), values)
    answer = read_form(view, context)
    if not isinstance(answer, str):
        inputs = {block["block_id"] for block in view["blocks"] if block["type"] == "input"}
        assert answer
        assert set(answer) <= inputs
        assert all(words and len(words) <= 300 for words in answer.values())
        return
    command = parse(answer, context)
    assert command.name == definition.name
    if definition.target is not TargetRule.NONE:
        single = context.every_worker if definition.risk is Risk.READS else context.default
        default = single if definition.target is TargetRule.WORKERS else ""
        assert command.target == ((values[TARGET] or "").strip() or default)
    if definition.takes_label:
        label, _, note = f" {(values[LABEL] or '').strip()}".partition(" -- ")
        expected = (label.strip(), note) if validate_label(label.strip())[0] else ("", (values[LABEL] or "").strip())
        assert (command.label or "", command.params.get("note") or "") == (expected[0], clean_note(expected[1]))
    for parameter in definition.parameters:
        if parameter.kind not in (*REST, ParameterKind.DURATION):
            assert command.params[parameter.name] == meant(parameter, values[block_id_of(parameter)])
        elif parameter.kind is ParameterKind.COMMAND:
            inner = parse(str(values[block_id_of(parameter)]), context)
            assert command.params[parameter.name] == render(inner)


@given(commands())
@settings(max_examples=examples(500))
def test_a_form_that_begins_with_a_command_and_is_sent_as_it_is_gives_that_command(command: Command) -> None:
    definition = CATALOG[command.name]
    by = command.params.get("by")
    if by is not None:
        command = Command(command.name, command.target, command.workers, {**command.params, "by": "U012"})
    view = checked(command_form(definition, FULL, filled=command))
    text = read_form(filled(view), FULL)
    assert isinstance(text, str), text
    assert parse(text, FULL) == command


@pytest.mark.parametrize("name", ["restart", "undo", "update", "rollback"])
def test_batches_are_offered_once_several_workers_are_chosen(name: str) -> None:
    def fields(text: str) -> dict[str, Any]:
        view = checked(command_form(CATALOG[name], CONTEXT, filled=parse(text, CONTEXT)))
        return {field_of(block["block_id"]): block for block in view["blocks"] if block["type"] == "input"}

    several = {"param:keep_going", "param:batch", "param:healthy", "param:max_failures"}
    shown = fields(f"{name} all")
    assert several <= shown.keys()
    assert shown[TARGET]["dispatch_action"], "a choice updates the form"
    spans = [each["value"] for each in shown["param:healthy"]["element"]["options"]]
    assert spans[:4] == ["0m", "1m", "2m", "5m"]
    assert several.isdisjoint(fields(f"{name} vega"))


def test_each_form_is_as_it_was_last_looked_at() -> None:
    forms = {name: command_form(each, CONTEXT, approval=each.needs_approval) for name, each in CATALOG.items()}
    forms["picker"] = command_picker(EVERY)
    forms["picker_in_a_thread"] = command_picker(EVERY, "C0OPS", "1770301800.000100")
    forms["picker_of_nothing"] = command_picker([])
    known = parse("rollback vega 3 slow since noon", CONTEXT)
    rollback = CATALOG["rollback"]
    forms["filled"] = command_form(rollback, CONTEXT, "C0OPS", "1770301800.000100", approval=True, filled=known)
    commits = [commit(1, "Read *faster* <!channel>"), commit(2, "A very long subject " * 10), commit(3)]
    forms["previewed"] = previewed(parse("rollback OrionMX 2", CONTEXT), commits, 2)
    forms["previewing"] = command_form(rollback, CONTEXT, preview=LivePreview([small_print(WORKING)]))
    are_as_last_seen("form", forms)
