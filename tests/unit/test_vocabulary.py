"""One word for each thing: in the texts that people see, and in the names of modules and classes.

Today's offenders are listed in `vocabulary_debt.txt`, with how often each occurs. `UPDATE_VOCABULARY=1` rewrites it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.catalog_of_words import catalog
from tests.house import modules, tree_of
from tests.support.debt import check_debt
from tests.support.homes import ROOT

DEBT = Path(__file__).with_name("vocabulary_debt.txt")
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
TREES = ("supervisor_core", "bot")
PHRASES = (
    "at hand",
    "by itself",
    "comes to",
    "goes back",
    "is none",
    "is told",
    "live with it",
    "lives with it",
    "of it",
    "shall",
    "thereof",
    "whoever",
)
"""Turns of phrase that nobody uses, beside the glossary's words."""

NAME_WORDS = (
    *("acting", "agenda", "asked", "asking", "beating", "dealing", "dealt", "deciding", "executing", "explaining"),
    *(
        "folding",
        "heard",
        "hearing",
        "hush",
        "informing",
        "judged",
        "judging",
        "keeping",
        "listed",
        "living",
        "looking",
    ),
    *("looks", "making", "noting", "observing", "offering", "passed_over", "past", "refusing", "seen", "senses"),
    *("shut_out", "speaking", "spoken", "standing", "strangers", "tellers", "telling", "tending", "tidings", "told"),
    *("tried", "watched", "watcher", "weather"),
)
"""Words that say nothing in a name: a module is named by what it holds, a class by a noun."""

FIXED = {"module watcher": "the demo's worker is a file of this name in the requirements"}


def glossary_words() -> list[str]:
    """The words that the glossary's third column has in code type."""
    rows = [line.split("|") for line in GLOSSARY.read_text().splitlines() if line.startswith("|")]
    return [word for row in rows if len(row) == 5 for word in re.findall(r"`([^`]+)`", row[3])]


@cache
def trees() -> dict[str, ast.Module]:
    """Every module, by its path in the repository."""
    return {module.path: module.tree for module in modules() if tree_of(module.path) in TREES}


def shown_texts() -> Iterator[str]:
    """All texts that people see, without the playground's: its words are Slack's."""
    return (text.words for text in catalog() if text.screen != "playground")


def offending_texts(banned: list[str]) -> Counter[str]:
    """How often each banned word occurs in all texts together."""
    words = "|".join(f"{re.escape(each)}{'' if each in PHRASES else 's?'}" for each in banned)
    pattern = re.compile(rf"(?<![\w./`-])({words})(?![\w/-])", re.IGNORECASE)
    return Counter(f"text {found.lower()}" for text in shown_texts() for found in pattern.findall(text))


def snake(name: str) -> str:
    """`ShutOut` as `shut_out`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


def offending_names() -> Counter[str]:
    """Modules and classes with a banned word in their names, wherever they are."""
    names: list[str] = []
    for path, tree in trees().items():
        names.append(f"module {Path(path).parent.name if path.endswith('__init__.py') else Path(path).stem}")
        names.extend(f"class {node.name}" for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    pattern = re.compile(rf"(?:^|_)(?:{'|'.join(NAME_WORDS)})(?:_|$)")
    return Counter(name for name in names if name not in FIXED and pattern.search(snake(name.split(" ")[1])))


def test_texts_and_names_use_the_words_of_the_glossary() -> None:
    check_debt(offending_texts([*glossary_words(), *PHRASES]) + offending_names(), DEBT, "UPDATE_VOCABULARY")


def test_every_fixed_name_still_exists() -> None:
    assert FIXED.keys() <= {f"module {Path(path).stem}" for path in trees()}


def test_the_glossary_has_the_words_that_are_rejected() -> None:
    assert {"task id", "given up", "asked by"} <= set(glossary_words())
