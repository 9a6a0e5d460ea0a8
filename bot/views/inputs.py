"""The fields of a form: one input for each part of a command, as its definition describes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bot.views.text import fit
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import TargetRule
from supervisor_core.domain.labels import MAX_LABEL
from supervisor_core.domain.mistakes import GrammarError
from supervisor_core.domain.parameters import Kind, Parameter
from supervisor_core.domain.targets import ALL, PATTERN, TEAM, GrammarContext, resolve
from supervisor_core.domain.texts import capitalised

TARGET, LABEL, WHERE = "target", "label", "where"
VALUE = "value"
"""The `action_id` of every field; its `block_id` says which it is."""

MOST_OPTIONS = 100
"""What one menu holds; with more the menu asks for those that fit what was typed so far."""

OPTION_TEXT, HINT, LONGEST_INPUT = 75, 2000, 3000  # characters

_USER_ID = re.compile(r"[UW][A-Z0-9]+")

Json = dict[str, Any]


def block_of(parameter: Parameter) -> str:
    """The `block_id` of a parameter's field."""
    return f"param:{parameter.name}"


def target(rule: TargetRule, context: GrammarContext, filled: Command | None) -> Json:
    """Which worker, team, or all of them."""
    chosen = filled.target if filled else (context.default or "" if rule is TargetRule.WORKERS else "")
    options = [_option(_called(each), each) for each in targets(context)]
    element: Json = {"type": "static_select", "placeholder": plain("Choose one")}
    if len(options) > MOST_OPTIONS:
        element = {"type": "external_select", "placeholder": plain("Type a part of the name"), "min_query_length": 0}
    else:
        if chosen and all(option["value"] != chosen for option in options):
            options = [_option(_called(chosen), chosen), *options[: MOST_OPTIONS - 1]]
        element["options"] = options
    if chosen:
        element["initial_option"] = _option(_called(chosen), chosen)
    optional = rule is TargetRule.FILTER
    hint = "Left empty, it is about all of them." if optional else ""
    return _input(TARGET, "Worker", element, hint, optional=optional)


def targets(context: GrammarContext) -> list[str]:
    """Everything that can be chosen: each worker, each team that has some, and all."""
    teams = [TEAM + name for name, members in context.teams.items() if set(members) & set(context.workers)]
    return [*context.workers, *teams, *([ALL] if context.workers else [])]


def matching(query: str, context: GrammarContext) -> list[Json]:
    """The options for what was typed into a menu of targets: what begins so comes first, and a pattern is one."""
    typed = query.strip()
    wanted = typed.casefold()
    known = [(name, f"{name} {_called(name)}".casefold()) for name in targets(context)]
    found = [name for name, words in known if words.startswith(wanted)]
    found += [name for name, words in known if wanted in words and not words.startswith(wanted)]
    if PATTERN.intersection(typed) and " " not in typed and _means_somebody(typed, context):
        found = [typed, *found]
    return [_option(_called(name), name) for name in found[:MOST_OPTIONS]]


def _means_somebody(pattern: str, context: GrammarContext) -> bool:
    try:
        return bool(resolve(pattern, context))
    except GrammarError:
        return False


def parameter(one: Parameter, filled: Command | None) -> Json:
    """One parameter, by its kind."""
    value = filled.params.get(one.name) if filled else one.default
    name = one.help if one.kind is Kind.DURATION else one.name.replace("_", " ")
    hint = one.help if one.kind is Kind.FLAG else one.description
    return _input(
        block_of(one), capitalised(name), _element(one, value), f"{capitalised(hint)}.", optional=not one.required
    )


def label(filled: Command | None) -> Json:
    """The label."""
    element: Json = {"type": "plain_text_input", "max_length": MAX_LABEL}
    if filled and filled.label:
        element["initial_value"] = filled.label
    hint = "A few words for the record. Letters A-Z, digits, spaces, hyphens and underscores."
    return _input(LABEL, "Label", element, hint, optional=True)


def where(*, informs: bool, chosen: str = "") -> Json:
    """The channel, for a form that was not opened from one; `informs`: there will be an answer, and no card; `chosen`:
    where it goes unless somebody chooses another."""
    element: Json = {
        "type": "conversations_select",
        **({"initial_conversation": chosen} if chosen else {"default_to_current_conversation": True}),
        # An answer to one person gets there also where the bot is no member.
        "response_url_enabled": True,
        "filter": {"include": ["public", "private"], "exclude_bot_users": True},
        "placeholder": plain("Choose a channel"),
    }
    name = "Where the answer goes, to you alone" if informs else "Where its card goes"
    return _input(WHERE, name, element, "Left empty: to you, in our direct messages.", optional=True)


def plain(text: str) -> Json:
    """A text object in which nothing is markup."""
    return {"type": "plain_text", "text": text}


def _element(one: Parameter, value: object) -> Json:
    spelled = "" if value is None else one.spelled(value)
    match one.kind:
        case Kind.NUMBER:
            element: Json = {"type": "number_input", "is_decimal_allowed": False}
            element |= {"min_value": str(one.low), "max_value": str(one.high)}
        case Kind.CHOICE:
            options = [_option(choice, choice) for choice in one.choices]
            return _chosen("static_select", options, spelled) | {"placeholder": plain("Choose one")}
        case Kind.FLAG:
            options = [_option(one.word, one.name)]
            return {"type": "checkboxes", "options": options} | ({"initial_options": options} if value is True else {})
        case Kind.PERSON:
            initial = {"initial_user": spelled} if _USER_ID.fullmatch(spelled) else {}
            return {"type": "users_select", "placeholder": plain("Choose somebody"), **initial}
        case _:
            element = {"type": "plain_text_input"}
            if one.high and one.kind is not Kind.DURATION:
                element["max_length"] = min(one.high, LONGEST_INPUT)
    return element | ({"initial_value": spelled} if spelled else {})


def _chosen(kind: str, options: Sequence[Json], value: str) -> Json:
    chosen = [option for option in options if option["value"] == value]
    return {"type": kind, "options": [*options]} | ({"initial_option": chosen[0]} if chosen else {})


def _input(block_id: str, name: str, element: Json, hint: str, *, optional: bool) -> Json:
    block: Json = {"type": "input", "block_id": block_id, "label": plain(name), "optional": optional}
    block["element"] = {**element, "action_id": VALUE}
    if hint:
        block["hint"] = plain(fit(hint, HINT))
    return block


def _option(text: str, value: str) -> Json:
    return {"text": plain(fit(text, OPTION_TEXT)), "value": value}


def _called(name: str) -> str:
    return "all workers" if name == ALL else name
