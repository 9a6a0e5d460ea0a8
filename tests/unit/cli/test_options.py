"""The arguments of all subcommands, and the overview of `supervisor --help`."""

from __future__ import annotations

import re

import pytest

from supervisor_core.cli import COMMANDS, main, overview, parsers_of
from supervisor_core.commands.catalog import CATALOG, FAMILIES


def test_the_overview_fits_one_screen() -> None:
    lines = overview().splitlines()
    assert len(lines) <= 34
    assert max(map(len, lines)) <= 80
    assert {"Workers", "Code", "Look", "Daemon", "Set up"} <= {re.split(r"  +", line)[0] for line in lines}


def test_every_command_of_the_catalog_is_a_subcommand() -> None:
    missing = {name.split(" ")[0] for name in CATALOG} - set(COMMANDS) - {"help", "overview"}
    assert missing == set()
    assert set(FAMILIES) <= set(COMMANDS)


@pytest.mark.parametrize("module", sorted(COMMANDS))
def test_the_help_of_each_has_a_sentence_and_an_example(module: str) -> None:
    parsers = parsers_of(module)
    assert module in parsers
    for name, parser in parsers.items():
        text = parser.format_help()
        assert max(map(len, text.splitlines())) <= 120, name
        examples = re.findall(r"^  supervisor (.+)$", text.split("example")[1], re.MULTILINE)
        assert examples, name
        for example in examples:
            assert example.split()[0] in (name.split(" ", maxsplit=1)[0], "daemon"), example


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["update", "X", "--rest"], "--reset"),
        (["update", "X", "--res"], "--reset"),
        (["status", "--jsn"], "--json"),
        (["audit", "verfy"], "verify"),
        (["daemon", "stop", "--worker"], "--workers"),
    ],
)
def test_a_mistyped_or_shortened_option_or_word_is_refused_with_the_nearest(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert f"Did you mean {nearest}?" in capsys.readouterr().err
