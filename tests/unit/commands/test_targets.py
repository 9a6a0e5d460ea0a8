"""Targets: which workers a word means, and which words are asked about instead."""

from __future__ import annotations

import pytest

from supervisor_core.commands.grammar_errors import GrammarError, NearMiss
from supervisor_core.commands.targets import GrammarContext, ask_if_nearly, resolve

FLEET = GrammarContext(
    ("OrionMX", "OrionMX2", "vega", "w1", "a.b-c"),
    {"archive": ("vega", "OrionMX", "gone"), "empty": (), "elsewhere": ("gone",)},
)


@pytest.mark.parametrize(
    ("word", "workers"),
    [
        ("OrionMX", ("OrionMX",)),
        ("a.b-c", ("a.b-c",)),
        ("all", FLEET.workers),
        ("team:archive", ("OrionMX", "vega")),
        ("Orion*", ("OrionMX", "OrionMX2")),
        ("*", FLEET.workers),
        ("w?", ("w1",)),
        ("[vw]*", ("vega", "w1")),
        ("[!O]*", ("vega", "w1", "a.b-c")),
        ("orionmx", ("OrionMX",)),
        ("ORIONmx2", ("OrionMX2",)),
        ("ALL", FLEET.workers),
        ("Team:ARCHIVE", ("OrionMX", "vega")),
        ("orion*", ("OrionMX", "OrionMX2")),
        ("w1,OrionMX", ("OrionMX", "w1")),
    ],
)
def test_a_target_means_workers_in_their_configured_order(word: str, workers: tuple[str, ...]) -> None:
    assert resolve(word, FLEET) == workers


@pytest.mark.parametrize("word", ["hotfix", "orinmx", "3", "", "archive", "w1,nobody", ","])
def test_any_other_word_is_no_target(word: str) -> None:
    assert resolve(word, FLEET) is None


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("team:archiv", "team:archive"),
        ("team:", None),
        ("team:nothing-like-it", None),
        ("team:empty", None),
        ("team:elsewhere", None),
        ("zz*", None),
        ("[", None),
        ("[z-a]", None),
        ("*" * 101, None),
    ],
)
def test_a_team_or_pattern_that_means_nobody_is_an_error_with_the_nearest(word: str, nearest: str | None) -> None:
    with pytest.raises(GrammarError) as caught:
        resolve(word, FLEET)
    assert caught.value.instead == nearest


def test_all_of_no_workers_is_an_error() -> None:
    with pytest.raises(GrammarError, match="No workers are configured"):
        resolve("all", GrammarContext(()))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("orionmx", "OrionMX"),
        ("OrinMX", "OrionMX"),
        ("OroinMX", "OrionMX"),
        ("OrionMXyz", "OrionMX"),
        ("VEGA", "vega"),
        ("vgea", "vega"),
        ("w2", "w1"),
    ],
)
def test_a_word_that_nearly_names_a_target_is_asked_about(word: str, name: str) -> None:
    with pytest.raises(NearMiss) as caught:
        ask_if_nearly(word, FLEET)
    assert caught.value.instead == name


def test_a_worker_in_another_case_is_not_taken_for_one_that_only_looks_like_it() -> None:
    with pytest.raises(NearMiss) as caught:
        ask_if_nearly("north", GrammarContext(("South", "North")))
    assert caught.value.instead == "North"


@pytest.mark.parametrize("word", ["hotfix", "O", "now", "deploy", "x" * 1000, "team"])
def test_a_word_further_off_is_left_alone(word: str) -> None:
    ask_if_nearly(word, FLEET)


def test_the_only_worker_is_the_default_and_else_the_configured_one() -> None:
    assert GrammarContext(("a",)).default == "a"
    assert GrammarContext(("a",), default_worker="b").default == "a"
    assert GrammarContext(("a", "b"), default_worker="b").default == "b"
    assert GrammarContext(("a", "b")).default is None
    assert GrammarContext(("a", "b"), default_worker="gone").default is None
    assert GrammarContext(()).default is None
