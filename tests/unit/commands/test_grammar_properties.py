"""Whatever is typed is a command or a mistake, and a command survives being written down."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.commands.addresses import hosts_of
from supervisor_core.commands.catalog import CATALOG, FAMILIES, OVERVIEW, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import KEEP_GOING, ROLLING, CommandDefinition, TargetRule
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NeedsTarget
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.commands.targets import GrammarContext, resolve
from supervisor_core.common.times import format_duration
from tests.support.sampling import examples

MODEST = settings(max_examples=examples(200))

WORKERS = ("OrionMX", "vega", "w.local", "24h", "task-1", "2d", "by-me")
IN_FLEET = (*WORKERS, "web-1/vega", "web-1/mailer", "web-2/vega", "web-2/all", "web-2/where", "db-1/3", "db-1/2H")
FACTS = {
    "vega": {"state": "stale", "version": "3f2a"},
    "w.local": {"state": "running", "health": "healthy"},
    "web-1/mailer": {"state": "running", "version": "3F2AFF", "health": "healthy"},
}
TEAMS_IN_FLEET = {"archive": ("vega", "web-1/mailer"), "a&lt;b": ("vega", "web-1/mailer"), "none": ()}
FLEET = GrammarContext(IN_FLEET, TEAMS_IN_FLEET, "vega", hosts_of(IN_FLEET, "hub"), FACTS)
CONTEXTS = st.sampled_from(
    [
        GrammarContext(()),
        GrammarContext(("OrionMX",)),
        GrammarContext(WORKERS, {"archive": ("vega", "OrionMX"), "none": ()}),
        GrammarContext(WORKERS, {"archive": ("vega", "OrionMX")}, "vega"),
        FLEET,
        GrammarContext(IN_FLEET, TEAMS_IN_FLEET, hosts=hosts_of(IN_FLEET, "hub")),
    ]
)
FULL = GrammarContext(WORKERS, {"archive": ("vega", "OrionMX"), "a&lt;b": ("vega",)}, "vega")

TYPED = (
    "all ALL team:archive team: orionmx * w* [ [z-a] ? 3 0 11 -1 +3 2.5 3x 2h 1w 2hours by since 2026-01-31 "
    "host:web-1 HOST:HUB host: web-1/ MAILER web-1/Mailer web-9/vega */vega web-* where Where: where:state=stale "
    "state=stale version=3f2a version=3 health=healthy stale state and team:archive,where:state=stale , = "
    '--reset --keep-going -- --x task_1 task_ " \' "" it\'s <@U1> <#C1|ops> <mailto:> < > &amp; &lt; /supervisor hotfix'
)
TRAPS = [
    *('"0 3 * * *"', "<@U1|ann b>", "<http://x|x y>", "9" * 30, "x" * 101, ""),
    *("\u2014reset", "\u201c", "\u201d", "\u2018", "\u2019", "\u00a0", "\t", "\n", "\0", "\ud800", "\u200b"),
    *("\u0663", "\u212a"),
]
PIECES = [*CATALOG, *FAMILIES, *IN_FLEET, *TYPED.split(" "), *TRAPS]
NASTY = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=9).flatmap(
    lambda pieces: st.sampled_from([" ", "", "  "]).map(lambda glue: glue.join(pieces))
)
LABELS = (
    st.none()
    | st.sampled_from(["where", "where state", "Where it is", "where stale 2"])
    | st.text(alphabet="abXtask_ -019", min_size=1, max_size=30).map(lambda text: text.strip(" ") or None)
)
FREE = st.sampled_from(["where", "where state=stale", "where: x=1", "where:x", "Where state"]) | st.text(
    alphabet="ab1 \"'“”\u2018\u2019&;<>@#!:|*?[—-_/émp🙂lt", min_size=1, max_size=40
)


def _values(parameter: Parameter) -> st.SearchStrategy[Any]:
    strategies: dict[ParameterKind, st.SearchStrategy[Any]] = {
        ParameterKind.NUMBER: st.integers(parameter.low, parameter.high),
        ParameterKind.FLAG: st.booleans(),
        ParameterKind.CHOICE: st.sampled_from(parameter.choices or ("",)),
        ParameterKind.DURATION: st.integers(parameter.low // 60, parameter.high // 60).map(
            lambda minutes: minutes * 60
        ),
        ParameterKind.SINCE: st.sampled_from(["2026-01-31", "2026-01-31T10:00:00Z"])
        | st.integers(1, 10**6).map(lambda minutes: format_duration(minutes * 60)),
        ParameterKind.TASK_ID: st.from_regex(r"task_[A-Za-z0-9_-]{1,20}", fullmatch=True),
        ParameterKind.PERSON: st.sampled_from(["Ann Lee", "by", "U012"]) | FREE.filter(lambda text: text.strip("@ ")),
        ParameterKind.NAME: st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,9}", fullmatch=True),
        ParameterKind.CRON: st.sampled_from(["0 3 * * *", "*/5 0-4 1,15 JAN MON"]),
        ParameterKind.COMMAND: st.sampled_from(
            ["restart vega now", 'mute all 1h "a ""b"" &amp;lt;"', "status OrionMX", 'update vega "--x"']
        ),
        ParameterKind.TOPIC: st.sampled_from([*CATALOG, *FAMILIES]),
        ParameterKind.TEXT: FREE,
        ParameterKind.SHARE: st.from_regex(r"[1-9][0-9]?%?", fullmatch=True),
    }
    values = strategies[parameter.kind]
    return values if parameter.required else values | st.none()


TARGETS = ("all", "team:archive", "team:a&lt;b", "w*", "[!x]*", "[<@&lt;Ow]*")
TARGETS_IN_FLEET = (
    *TARGETS,
    *("host:web-1", "host:hub", "*/vega", "where:state=stale", "where:version=3f2a,state=running"),
    *("team:a&lt;b,where:state=stale", "[<@&lt;Ow]*,where:health=healthy", "web-1/mailer,where:state=running"),
)


@st.composite
def commands(draw: st.DrawFn, context: GrammarContext = FULL, targets: tuple[str, ...] = TARGETS) -> Command:
    definition: CommandDefinition = draw(st.sampled_from([each for each in CATALOG.values() if not each.runs_on_host]))
    if definition.name == OVERVIEW:
        return Command(OVERVIEW)
    target = ""
    if definition.target is not TargetRule.NONE:
        target = draw(st.sampled_from([*context.workers, *targets]))
    if definition.target is TargetRule.FILTER and draw(st.booleans()):
        target = ""
    parameters = (*definition.parameters, *definition.spread_options)
    given_params = {parameter.name: draw(_values(parameter)) for parameter in parameters}
    if any(given_params.get(each.name) is not None for each in ROLLING):
        given_params.pop(KEEP_GOING.name, None)
    label = draw(LABELS) if definition.takes_label else None
    return Command(
        definition.name,
        target=target,
        workers=(resolve(target, context) or ()) if target else (),
        params=check_params(definition, given_params),
        label=label,
    )


@given(commands())
@settings(max_examples=examples(500))
def test_a_command_survives_being_written_and_read(command: Command) -> None:
    assert parse(render(command), FULL) == command


@given(commands(FLEET, TARGETS_IN_FLEET))
@settings(max_examples=examples(500))
def test_a_command_across_hosts_survives_being_written_and_read(command: Command) -> None:
    assert parse(render(command), FLEET) == command


def _checked(text: str, context: GrammarContext) -> None:
    try:
        command = parse(text, context)
    except GrammarError as error:
        _check_mistake(error, context)
        return
    definition = CATALOG[command.name]
    assert bool(command.workers) is bool(command.target)
    assert command.target or definition.target is not TargetRule.WORKERS
    assert set(command.workers) <= set(context.workers)
    assert dict(check_params(definition, command.params)) == dict(command.params)
    assert parse(render(command), context) == command


def _check_mistake(error: GrammarError, context: GrammarContext) -> None:
    assert error.message
    if isinstance(error, NeedsTarget):
        assert error.choices[0] in render(parse(error.complete(error.choices[0]), context))


@given(NASTY, CONTEXTS)
@settings(max_examples=examples(600))
def test_words_in_any_order_are_a_command_or_a_mistake(text: str, context: GrammarContext) -> None:
    _checked(text, context)


@given(st.sampled_from(list(CATALOG)), NASTY, CONTEXTS)
@settings(max_examples=examples(600))
def test_any_arguments_are_a_command_or_a_mistake(name: str, text: str, context: GrammarContext) -> None:
    _checked(f"{name} {text}", context)


@given(st.text(max_size=60), CONTEXTS)
@MODEST
def test_any_text_at_all_is_a_command_or_a_mistake(text: str, context: GrammarContext) -> None:
    _checked(text, context)
