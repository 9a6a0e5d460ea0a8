"""Forms: the command picker, and a form for each command with an input for each parameter. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bot.views.answers.help import TITLES
from bot.views.blocks import Json, modal, option, plain_text, section
from bot.views.blocks import context as small_print
from bot.views.text import escape, fit
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
    return f"param:{parameter.name}"


def field_of(block_id: str) -> str:
    """The name of a field by its `block_id`, which may have the newest commit after an `@`."""
    return block_id.partition("@")[0]


def commit_menu(one: Parameter, commits: Sequence[Commit], chosen: int) -> Json:
    """The menu of the commits to revert, newest first; with numbers alone where the commits aren't known or too few.

    Slack keeps a choice while a field's `block_id` stays, so the menu of another checkout has another one.
    """
    known = commits if len(commits) >= chosen else ()
    options = []
    for number in range(one.low, (len(known) or one.high) + 1):
        subject = f": {known[number - 1]}" if known else ""
        text = f"{'Last commit' if number == 1 else f'Last {number}'}{subject}"
        options.append(option(fit(text, OPTION_TEXT, "…"), str(number)))
    return _input(
        block_id_of(one) + (f"@{short(known[0].hash)}" if known else ""),
        capitalize(one.help),
        {"type": "static_select", "options": options, "initial_option": options[chosen - one.low]},
        "Reverts the chosen commit and every newer one.",
        optional=False,
    )


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
    if PATTERN.intersection(typed) and " " not in typed and is_target(typed, context):
        found = [typed, *found]
    return [option(_called(name), name) for name in found[:MOST_OPTIONS]]


def is_target(word: str, context: GrammarContext) -> bool:
    try:
        return bool(resolve(word, context))
    except GrammarError:
        return False


def parameter(one: Parameter, filled: Command | None) -> Json:
    value = filled.params.get(one.name) if filled else one.default
    by_help = one.kind in (ParameterKind.DURATION, ParameterKind.NUMBER)
    name = one.help.partition(" (")[0] if by_help else one.name.replace("_", " ")
    label, hint = capitalize(name), capitalize(one.help if one.kind is ParameterKind.FLAG else one.description)
    said = f"{hint}." if hint != label else ""
    return _input(block_id_of(one), label, _element(one, value), said, optional=not one.required)


def label(filled: Command | None) -> Json:
    element: Json = {"type": "plain_text_input", "max_length": MAX_NOTE}
    if filled and (filled.label or filled.note):
        note = f"{NOTE_MARK}{filled.note}" if filled.note else ""
        element["initial_value"] = f"{filled.label or ''}{note}".strip()[:MAX_NOTE]
    hint = (
        "Letters, digits, spaces, - and _ make a label; any other text is kept as a note. Both are in the audit trail."
    )
    return _input(LABEL, "Label", element, hint, optional=True)


def split_label(text: str) -> tuple[str, str]:
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


_LIVE = frozenset({"rollback", "update", "update-deps"})


def is_live(definition: CommandDefinition) -> bool:
    """True for a command whose form shows a preview: a choice in it updates the form."""
    return definition.name in _LIVE or definition.extension is not None


def is_updated(definition: CommandDefinition) -> bool:
    """True for a command whose form changes with a choice: also one that has more fields, those of batches, once
    several workers are chosen."""
    return is_live(definition) or definition.name in ("restart", "undo")


SHORTCUT, SHORTCUT_ON_MESSAGE = "supervisor_command", "supervisor_command_here"
"""The `callback_id` of the shortcuts, as the manifest has them."""

PICKER_TITLE = "Run a command"
PICKER, FORM, NOTHING = "form:picker", "form:command", "form:nothing"
"""The `callback_id` of the views."""

OPEN, PICK = "form:open", "form:pick"
"""The `action_id` of the button that opens the picker, and of the menu in it."""

TITLE = 24  # characters of a title and of a submit button

SUBMIT: Mapping[str, str] = {
    "overview": "Show workers",
    "help": "Show help",
    "status": "Show status",
    "why": "Explain",
    "logs": "Show logs",
    "history": "Show history",
    "audit": "Show audit trail",
    "approvals": "Show approvals",
    "alerts": "Show alerts",
    "teams": "Show teams",
    "diagnostics": "Write report",
    "verify-db": "Verify database",
    "monitoring pause": "Pause monitoring",
    "monitoring resume": "Resume monitoring",
    "schedule add": "Add schedule",
    "schedule list": "Show schedules",
    "schedule remove": "Remove schedule",
    "rolling status": "Show progress",
    "rolling pause": "Pause the change",
    "rolling continue": "Continue the change",
    "rolling abort": "Abort the change",
    "rolling undo": "Roll the change back",
    "update-deps": "Update with packages",
    "rollback": "Roll back",
}
"""The title and the submit button of a form, where it isn't the name of its command."""


@dataclass(frozen=True, slots=True)
class FormContext:
    """The command of a form, and the place that it was opened from. Nobody can change it there."""

    command: str = ""
    channel: str = ""
    """Empty where the form must ask."""
    thread: str | None = None


def form_context(view: Mapping[str, Any]) -> FormContext:
    """The context of this view; empty for a view of an earlier version."""
    try:
        return FormContext(**json.loads(view.get("private_metadata") or "{}"))
    except (TypeError, ValueError):
        return FormContext()


def command_picker(definitions: Sequence[CommandDefinition], channel: str = "", thread: str | None = None) -> Json:
    """A menu of these commands; what is chosen there turns this view into that command's form."""
    groups = []
    for risk, title in TITLES.items():
        options = [
            {
                "text": plain_text(submit_text(each)),
                "description": plain_text(fit(each.summary, OPTION_TEXT, "…")),
                "value": each.name,
            }
            for each in definitions
            if each.risk is risk
        ]
        if options:
            groups.append({"label": plain_text(title), "options": options})
    if not groups:
        return _modal(NOTHING, PICKER_TITLE, FormContext(), [section(f":no_entry: {NO_RIGHT}")])
    menu: Json = {
        "type": "static_select",
        "action_id": PICK,
        "placeholder": plain_text("Choose a command"),
        "option_groups": groups,
    }
    blocks = [{**section("*Choose a command*"), "block_id": "pick", "accessory": menu}]
    if channel:
        blocks.append(small_print(_place(channel, thread)))
    return _modal(PICKER, PICKER_TITLE, FormContext("", channel, thread), blocks)


NO_RIGHT = (
    "You don't have access to any command yet. An administrator of the supervisor can add you to `slack.access` in "
    "the configuration."
)


@dataclass(frozen=True, slots=True)
class LivePreview:
    blocks: Sequence[Json] = ()
    commits: Json | None = None
    """The menu of commits; None for numbers alone."""


def command_form(
    definition: CommandDefinition,
    context: GrammarContext,
    channel: str = "",
    thread: str | None = None,
    *,
    approval: bool = False,
    filled: Command | None = None,
    chosen: str = "",
    preview: LivePreview | None = None,
) -> Json:
    """The form of one command, with what is known already. `approval`: it needs an approval; `chosen`: the
    preselected channel; `preview`: for a form that shows its command's effect."""
    shown = preview or LivePreview()
    has_workers = bool(context.workers)
    live = is_live(definition) and has_workers
    fields = list(_parameters(definition, filled, shown, live=live))
    if live:
        fields = [asking(field) for field in fields]
    if definition.target is not TargetRule.NONE and has_workers:
        menu = target(definition, context, filled)
        fields.insert(0, asking(menu) if is_updated(definition) else menu)
    blocks = [section(escape(definition.summary)), *fields]
    if live:
        required = any(each.required for each in definition.parameters)
        more = " and fill in the required fields" if required else ""
        blocks += shown.blocks or [small_print(f"Choose a worker{more} to see a preview.")]
    if definition.takes_label:
        blocks.append(label(filled))
    where = input_place(informs=definition.handler is None, chosen=chosen)
    blocks.append(small_print(_place(channel, thread)) if channel else where)
    if definition.risk is not Risk.READS:
        blocks.append(small_print(_AGREED if approval else _AT_ONCE))
    words = submit_text(definition)
    return _modal(FORM, words, FormContext(definition.name, channel, thread), blocks, submit=words)


def loading(title: str) -> Json:
    return _modal(NOTHING, title, FormContext(), [section(":hourglass_flowing_sand: Loading…")])


def not_loaded(title: str, why: str) -> Json:
    return modal(NOTHING, title, [section(why)], "", close="Close")


def _parameters(
    definition: CommandDefinition, filled: Command | None, shown: LivePreview, *, live: bool
) -> Iterator[Json]:
    """The fields of the parameters. Options for several workers appear once several are chosen, or if one was given."""
    several = filled is not None and len(filled.workers) > 1
    for each in definition.written:
        if live and each.name == COMMITS:
            yield shown.commits or commit_menu(each, (), number_in(each, filled))
            continue
        given = filled.params.get(each.name) if filled else None
        if several or each not in definition.spread_options or (given is not None and given is not False):
            yield parameter(each, filled)


_AGREED = ":lock: Needs approval: nothing runs until an approver agrees."
_AT_ONCE = ":zap: Runs immediately."


def submit_text(definition: CommandDefinition) -> str:
    return SUBMIT.get(definition.name) or fit(definition.name.replace("-", " ").capitalize(), TITLE, "…")


def _place(channel: str, thread: str | None) -> str:
    where = "this direct message" if channel.startswith("D") else f"<#{channel}>"
    return f"The result is posted in {where}{', in the thread' if thread else ''}."


def _modal(callback: str, title: str, known: FormContext, blocks: list[Json], submit: str = "") -> Json:
    return modal(callback, title, blocks, json.dumps(asdict(known)), submit)
