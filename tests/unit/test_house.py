"""The limits of the house: a folder, a module and a class that a reader can take in.

`house_debt.txt` lists today's offenders; no new one may join them. `UPDATE_HOUSE=1` rewrites it. `EXCEPTIONS` are
offenders that are right as they are, each with its reason. `python -m tests.house` prints the figures.
"""

from __future__ import annotations

import ast
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.house import constructor_parameters, offenders
from tests.support.debt import check_debt

DEBT = Path(__file__).with_name("house_debt.txt")

A_ROW = "one row of a table, with a field for each column"
EXCEPTIONS = {
    "module under 60 lines: */version.py": "the build reads the version from it",
    "module under 60 lines: bot/plugin.py": "an entry point that imports nothing until it is used",
    "module under 60 lines: */migrations/*": "each step of the schema is a module that never changes again",
    "module under 60 lines: */crashpoints.py": "tests replace the whole module",
    "module under 60 lines: */process_facts/identity.py": "`status` imports it alone",
    "module under 60 lines: */service_names.py": "`status` imports it alone",
    "module under 60 lines: */alerts/outside/formats/*": "each format is a module",
    "no description: */migrations/versions": "Alembic loads its modules by their path",
    "no description: supervisor_core/demo/program": "the demo's own repository is made from these files",
    "constructor: * Alert": A_ROW,
    "constructor: * Approval": A_ROW,
    "folder: supervisor_core": "one entry for each subject",
    "folder: tests/integration": "one entry for each subject",
    "folder: supervisor_core/cli": "one module for each subcommand",
    "constructor: * CommandDefinition": "one field for each thing that a door must know of a command",
    "constructor: * TrailEntry": A_ROW,
    "constructor: * Job": A_ROW,
    "constructor: * Schedule": A_ROW,
}


def test_the_house_keeps_its_limits() -> None:
    found = offenders()
    excused = [name for name in found if any(fnmatch(name, pattern) for pattern in EXCEPTIONS)]
    check_debt(found - Counter(excused), DEBT, "UPDATE_HOUSE")


@pytest.mark.parametrize("pattern", EXCEPTIONS)
def test_every_exception_is_needed(pattern: str) -> None:
    assert any(fnmatch(name, pattern) for name in offenders()), "remove it from the list"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("class A:\n    def __init__(self, a, /, b, *, c=1): ...", 3),
        ("@dataclass(frozen=True)\nclass A:\n    a: int\n    b: int = 0\n    c: int = field(init=False)", 2),
        ("class A(NamedTuple):\n    a: int\n    b: int = 0", 2),
        ("class A(StrEnum):\n    B = 'b'", 0),
    ],
)
def test_the_parameters_of_a_constructor_are_counted(source: str, count: int) -> None:
    [node] = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert constructor_parameters(node) == count
