"""Commands that aren't built in: their grammar, their help, and the definition that they are bound to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from supervisor_core.commands.catalog import CATALOG, definition_objection, find
from supervisor_core.commands.definitions import DEFINITION_KEY, Extension
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NeedsTarget
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.plugins import choice, duration, flag, number, text
from supervisor_core.plugins.loading import added_command

DIGEST = "0123456789abcdef"
CONTEXT = GrammarContext(("North", "South"), {}, "North")
FLEET = GrammarContext(("a/North", "a/South", "b/East"), {}, "", {"a": ("a/North", "a/South"), "b": ("b/East",)})
OPTIONS = (
    number("days", "age of the files", low=1, high=90, default=7),
    text("name", "name of a cache", required=True, pattern=r"[a-z ,-]+", longest=20),
    choice("kind", "kind of files", choices=("old", "all")),
    duration("span", "time", default=3600),
    flag("dry_run", "only list the files"),
)


@pytest.fixture(autouse=True)
def added() -> Iterator[None]:
    terms = {"approval": False, "changes": True}
    clear = added_command(
        "clear-cache", "Clear a cache.", OPTIONS, Extension("config.yaml", DIGEST), role="approver", **terms
    )
    usage = added_command(
        "disk-usage", "Show it.", (), Extension("disk 1.0", DIGEST, on_host=True), role="viewer", **terms
    )
    CATALOG.extend("test", (clear, usage))
    yield
    CATALOG.extend("test", ())


def test_a_typed_command_has_its_options_its_defaults_and_its_definition() -> None:
    command = parse("clear-cache South --name web --days 3 --dry-run too full -- see #1", CONTEXT)
    assert (command.workers, command.label, command.note) == (("South",), "too full", "see #1")
    values = {"days": 3, "name": "web", "kind": None, "span": 3600, "dry_run": True}
    assert {name: command.params[name] for name in values} == values
    assert command.params[DEFINITION_KEY] == DIGEST


@pytest.mark.parametrize(
    "typed",
    [
        "clear-cache --name web",
        'clear-cache South --name "a, b-c" --kind old --span 2h',
        "clear-cache all --name x --dry-run why",
    ],
)
def test_its_canonical_text_is_the_same_command(typed: str) -> None:
    command = parse(typed, CONTEXT)
    assert parse(render(command), CONTEXT) == command


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("clear-cache", "clear-cache needs --name TEXT: name of a cache"),
        ("clear-cache --name web --days 91", "--days must be from 1 to 90, not 91"),
        ("clear-cache --name web --days -1", "--days must be a whole number in digits"),
        ("clear-cache --name -rf", "--name must be text that doesn't begin with a hyphen"),
        ('clear-cache --name "-rf"', "--name must be text that doesn't begin with a hyphen"),
        ("clear-cache --name --days 3", "Add a value after --name"),
        ("clear-cache --name WEB", "--name must be of the form [a-z ,-]+"),
        ("clear-cache --name aaaaaaaaaaaaaaaaaaaaaaaaa", "up to 20 characters"),
        ("clear-cache --name x --kind new", "kind must be old or all"),
        ("clear-cache --name x --what", "has no option “--what”"),
    ],
)
def test_a_value_that_is_not_valid_is_refused_with_what_was_expected(typed: str, error: str) -> None:
    with pytest.raises(GrammarError) as refused:
        parse(typed, CONTEXT)
    assert error in refused.value.message


def test_one_that_runs_on_the_host_is_for_one_worker_of_each_host() -> None:
    assert parse("disk-usage", CONTEXT).workers == ("North",)
    assert parse("disk-usage South", CONTEXT).workers == ("South",)
    assert parse("disk-usage all", FLEET).workers == ("a/North", "b/East")
    with pytest.raises(NeedsTarget):
        parse("disk-usage", FLEET)


def test_a_command_is_bound_to_the_definition_that_was_shown() -> None:
    assert definition_objection("clear-cache", {DEFINITION_KEY: DIGEST}) == ""
    changed = "The definition of clear-cache on this host isn't the one that was requested."
    assert definition_objection("clear-cache", {DEFINITION_KEY: "f" * 16}) == changed
    assert definition_objection("clear-cache", {}) == changed
    assert definition_objection("pause", {}) == ""


def test_one_that_was_removed_is_shown_and_never_run() -> None:
    command = parse("clear-cache South --name web", CONTEXT)
    CATALOG.extend("test", ())
    assert find("clear-cache") is None
    assert render(command) == "clear-cache South"
    assert definition_objection(command.name, command.params) == "clear-cache isn't a command of this host."
