"""The layout stays readable: small folders that say what belongs there, and modules of one idea each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slack_playground

PACKAGE = Path(slack_playground.__file__).parent
FOLDERS = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__")]
MODULES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
MOST_ENTRIES, FEWEST_LINES, MOST_LINES = 15, 60, 400


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE.parent))


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_is_small_and_says_what_belongs_there(folder: Path):
    assert len([path for path in folder.iterdir() if path.name != "__pycache__"]) <= MOST_ENTRIES
    if any(folder.glob("*.py")):
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_a_module_is_one_idea(module: Path):
    text = module.read_text(encoding="utf-8")
    assert FEWEST_LINES <= len(text.splitlines()) <= MOST_LINES
    assert ast.get_docstring(ast.parse(text))
