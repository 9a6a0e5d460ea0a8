"""The arguments of all subcommands, and the overview of `supervisor --help`."""

from __future__ import annotations

import re

import pytest

from supervisor_core.cli import COMMANDS, overview
from supervisor_core.cli.options import SUBCOMMANDS, parser_of
from supervisor_core.commands.catalog import CATALOG, FAMILIES
from tests.unit.test_imports import SLOW, imported_by

NAMES = sorted({*COMMANDS, *SUBCOMMANDS})


def test_the_overview_fits_one_screen() -> None:
    lines = overview().splitlines()
    assert len(lines) <= 34
    assert max(map(len, lines)) <= 80
    assert {"Workers", "Code", "Look", "Daemon", "Set up"} <= {re.split(r"  +", line)[0] for line in lines}


def test_every_command_of_the_catalog_is_a_subcommand() -> None:
    missing = {name.split(" ")[0] for name in CATALOG} - set(COMMANDS) - {"help", "overview"}
    assert missing == set()
    assert set(FAMILIES) <= set(COMMANDS)


def test_the_help_of_each_has_a_sentence_and_an_example_that_it_accepts() -> None:
    for name in NAMES:
        text = parser_of(name).format_help()
        assert max(map(len, text.splitlines())) <= 120, name
        examples = re.findall(r"^  supervisor (.+)$", text.split("example")[1], re.MULTILINE)
        assert examples, name
        for example in examples:
            assert example.split()[0] in (name.split(" ", maxsplit=1)[0], "daemon"), example


def test_the_options_of_all_are_known_without_importing_what_is_slow() -> None:
    code = "from supervisor_core.cli.options import SUBCOMMANDS, parser_of\n[parser_of(each) for each in SUBCOMMANDS]"
    assert imported_by(code) & SLOW == set()
    verbs = "from supervisor_core.cli.options import parser_of\nparser_of('pause')"
    assert imported_by(verbs) & SLOW <= {"dataclasses"}


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["update", "X", "--rest"], "--reset"),
        (["update", "X", "--res"], "--reset"),
        (["status", "--jsn"], "--json"),
        (["audit", "verfy"], "verify"),
    ],
)
def test_a_mistyped_or_shortened_option_or_word_is_refused_with_the_nearest(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *rest = words
    with pytest.raises(SystemExit) as raised:
        parser_of(name).parse_args(rest)
    assert raised.value.code == 2
    assert f"Did you mean {nearest}?" in capsys.readouterr().err
