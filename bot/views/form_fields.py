"""The fields of forms: an input for the target, for each parameter, for the label, the note and the place. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.views.blocks import Json, option, plain_text
from bot.views.text import fit
from supervisor_core.code.change_plan import Commit, short
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Risk, TargetRule
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.commands.labels import MAX_NOTE, validate_label
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.commands.targets import ALL, HOST, PATTERN, TEAM, GrammarContext, resolve
from supervisor_core.common.text import capitalize
from supervisor_core.common.times import format_span

TARGET, LABEL, WHERE = "target", "label", "where"
NOTE_MARK = " -- "
"""Between a label and a note, as in a typed command."""

VALUE = "value"
"""The `action_id` of every field; its `block_id` says which it is."""

MOST_OPTIONS = 100
"""Options of one menu; with more, the menu requests those that match the typed text."""

MINUTE, HOUR, DAY = 60, 3600, 86_400
DURATIONS = (15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)
"""The choices for a duration."""

SHORT_DURATIONS = (0, MINUTE, 2 * MINUTE, 5 * MINUTE)
"""Further choices where a duration may be none at all."""

OPTION_TEXT, HINT, LONGEST_INPUT = 75, 2000, 3000  # characters

_USER_ID = re.compile(r"[UW][A-Z0-9]+")


COMMITS = "commits_back"
"""The parameter that is chosen from a list of commits."""


def block_id_of(parameter: Parameter) -> str:
    """The `block_id` of a parameter's field."""
    return f"param:{parameter.name}"


def field_of(block_id: str) -> str:
    """The name of a field by its `block_id`, which may have the newest commit after an `@`."""
    return block_id.partition("@")[0]


def commit_menu(one: Parameter, commits: Sequence[Commit], chosen: int) -> Json:
    """The menu of the commits to revert, newest first; with numbers alone where the commits aren't known or too few.

    Slack keeps a choice while a field's `block_id` stays, so the menu of another checkout has another one.
    """
    known = commits if len(commits) >= chosen else ()
    options = [
        option(fit(_last(number) + (f": {known[number - 1]}" if known else ""), OPTION_TEXT, "…"), str(number))
        for number in range(one.low, (len(known) or one.high) + 1)
    ]
    return _input(
        block_id_of(one) + (f"@{short(known[0].hash)}" if known else ""),
        capitalize(one.help),
        {"type": "static_select", "options": options, "initial_option": options[chosen - one.low]},
        "Reverts the chosen commit and every newer one.",
        optional=False,
    )


def _last(number: int) -> str:
    return "Last commit" if number == 1 else f"Last {number}"


def target(definition: CommandDefinition, context: GrammarContext, filled: Command | None) -> Json:
    """The menu of workers and teams; for a command that only reads, none means all."""
    optional = definition.risk is Risk.READS
    default = (context.every_worker if len(context.workers) == 1 else "") if optional else context.default or ""
    chosen = filled.target if filled else default if definition.target is TargetRule.WORKERS else ""
    options = [option(_called(each), each) for each in target_names(context)]
    element: Json = {"type": "static_select", "placeholder": plain_text("Choose one")}
    if len(options) > MOST_OPTIONS:
        element = {
            "type": "external_select",
            "placeholder": plain_text("Type part of a name"),
            "min_query_length": 0,
        }
    else:
        if chosen and all(each["value"] != chosen for each in options):
            options = [option(_called(chosen), chosen), *options[: MOST_OPTIONS - 1]]
        element["options"] = options
    if chosen:
        element["initial_option"] = option(_called(chosen), chosen)
    hint = "Leave empty for all workers." if optional else ""
    return _input(TARGET, "Worker", element, hint, optional=optional)


def target_names(context: GrammarContext) -> list[str]:
    """Everything that can be chosen: each worker, and the groups of them."""
    return [*context.workers, *groups_of(context)]


def groups_of(context: GrammarContext) -> list[str]:
    """The targets that mean several workers: teams that have some, all, and in a fleet each host that has some."""
    known = frozenset(context.workers)
    teams = [TEAM + name for name, members in context.teams.items() if not known.isdisjoint(members)]
    hosts = [HOST + name for name, workers in context.hosts.items() if workers] if len(context.hosts) > 1 else []
    return [*teams, *([ALL] if context.workers else []), *hosts]


def matching_options(query: str, context: GrammarContext) -> list[Json]:
    """The options for what was typed into a menu of targets: what begins so comes first, and a pattern is one."""
    typed = query.strip()
    wanted = typed.casefold()
    known = [(name, f"{name} {_called(name)}".casefold()) for name in target_names(context)]
    found = [name for name, words in known if words.startswith(wanted)]
    found += [name for name, words in known if wanted in words and not words.startswith(wanted)]
    if PATTERN.intersection(typed) and " " not in typed and _means_somebody(typed, context):
        found = [typed, *found]
    return [option(_called(name), name) for name in found[:MOST_OPTIONS]]


def _means_somebody(pattern: str, context: GrammarContext) -> bool:
    try:
        return bool(resolve(pattern, context))
    except GrammarError:
        return False


def parameter(one: Parameter, filled: Command | None) -> Json:
    """One parameter, by its kind."""
    value = filled.params.get(one.name) if filled else one.default
    by_help = one.kind in (ParameterKind.DURATION, ParameterKind.NUMBER)
    name = one.help.partition(" (")[0] if by_help else one.name.replace("_", " ")
    label, hint = capitalize(name), capitalize(one.help if one.kind is ParameterKind.FLAG else one.description)
    said = f"{hint}." if hint != label else ""
    return _input(block_id_of(one), label, _element(one, value), said, optional=not one.required)


def label(filled: Command | None) -> Json:
    """One field for the label and the note, which `split_label` tells apart."""
    element: Json = {"type": "plain_text_input", "max_length": MAX_NOTE}
    if filled and (filled.label or filled.note):
        note = f"{NOTE_MARK}{filled.note}" if filled.note else ""
        element["initial_value"] = f"{filled.label or ''}{note}".strip()[:MAX_NOTE]
    hint = (
        "Letters, digits, spaces, - and _ make a label; any other text is kept as a note. Both are in the audit trail."
    )
    return _input(LABEL, "Label", element, hint, optional=True)


def split_label(text: str) -> tuple[str, str]:
    """The label and the note in the text of that field: `hotfix -- see #4711` has both."""
    label, _, note = f" {text}".partition(NOTE_MARK)
    return (label.strip(), note) if validate_label(label)[0] else ("", text)


def input_place(*, informs: bool, chosen: str = "") -> Json:
    """The channel, for a form that wasn't opened from one. `informs`: an answer and no card; `chosen`: the
    preselected channel."""
    element: Json = {
        "type": "conversations_select",
        **({"initial_conversation": chosen} if chosen else {"default_to_current_conversation": True}),
        # An answer to one person gets there also where the bot is no member.
        "response_url_enabled": True,
        "filter": {"include": ["public", "private"], "exclude_bot_users": True},
        "placeholder": plain_text("Choose a channel"),
    }
    name = "Show the answer in (only to you)" if informs else "Post in"
    return _input(WHERE, name, element, "Leave empty for a direct message from the bot.", optional=True)


def number_in(one: Parameter, filled: Command | None) -> int:
    """The number in a command, else the lowest one."""
    number = filled.params.get(one.name) if filled else None
    return number if isinstance(number, int) else one.low


def asking(block: Json) -> Json:
    """The same input, whose choice updates the form. A typed value counts once Enter is pressed."""
    if block["element"]["type"] not in ("plain_text_input", "number_input"):
        return {**block, "dispatch_action": True}
    hint = (block.get("hint") or {}).get("text") or ""
    said = plain_text(fit(f"{hint} Press Enter to update the preview.".strip(), HINT))
    return {**block, "dispatch_action": True, "hint": said}


def _element(one: Parameter, value: object) -> Json:
    spelled = "" if value is None else one.spelled(value)
    match one.kind:
        case ParameterKind.NUMBER:
            element: Json = {"type": "number_input", "is_decimal_allowed": False}
            element |= {"min_value": str(one.low), "max_value": str(one.high)}
        case ParameterKind.CHOICE:
            options = [option(choice, choice) for choice in one.choices]
            return _chosen("static_select", options, spelled) | {"placeholder": plain_text("Choose one")}
        case ParameterKind.FLAG:
            options = [option(one.word, one.name)]
            return {"type": "checkboxes", "options": options} | ({"initial_options": options} if value is True else {})
        case ParameterKind.DURATION:
            known = (*SHORT_DURATIONS, *DURATIONS) if one.low == 0 else DURATIONS
            spans = [each for each in known if one.low <= each <= one.high]
            if isinstance(value, int) and value not in spans:
                spans = sorted([*spans, value])
            options = [option(format_span(each), one.spelled(each)) for each in spans]
            return _chosen("static_select", options, spelled) | {"placeholder": plain_text("Choose a duration")}
        case ParameterKind.PERSON:
            initial = {"initial_user": spelled} if _USER_ID.fullmatch(spelled) else {}
            return {"type": "users_select", "placeholder": plain_text("Choose a person"), **initial}
        case _:
            element = {"type": "plain_text_input"}
            if one.high:
                element["max_length"] = min(one.high, LONGEST_INPUT)
    return element | ({"initial_value": spelled} if spelled else {})


def _chosen(kind: str, options: Sequence[Json], value: str) -> Json:
    chosen = [each for each in options if each["value"] == value]
    return {"type": kind, "options": [*options]} | ({"initial_option": chosen[0]} if chosen else {})


def _input(block_id: str, name: str, element: Json, hint: str, *, optional: bool) -> Json:
    block: Json = {"type": "input", "block_id": block_id, "label": plain_text(name), "optional": optional}
    block["element"] = {**element, "action_id": VALUE}
    if hint:
        block["hint"] = plain_text(fit(hint, HINT))
    return block


def _called(name: str) -> str:
    return "all workers" if name == ALL else name
